// Package verdicts records whether Linux takes a probe at the entry of a function: for each
// function of the guest, what register_kprobe and register_kretprobe of a module return, and
// what kprobe_events answers to "p NAME" and "r NAME". Tests hold the guest against it.
//
// A recording is a file for each release, RELEASE.txt. "golden verdicts" writes it: it loads
// a module (module/ask.c) into Debian's kernel, which registers the probes.
//
// Beside these are what register_kprobe answers at addresses of the kernel's own text
// (places-RELEASE.txt) and of some of its modules (places-modules-RELEASE.txt), against which
// package why is held.
package verdicts

import (
	"bufio"
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/kernel/release"
)

// Releases are the releases of which there are recordings.
var Releases = release.RecordedNames(func(release.Debian) bool { return true })

//go:embed [0-9]*.txt
var files embed.FS

//go:embed places-*.txt
var placeFiles embed.FS

// Source is the module that asks Linux.
//
//go:embed module/ask.c
var Source []byte

// How a probe can be set at a function's entry.
const (
	Probe       = iota // register_kprobe
	ReturnProbe        // register_kretprobe
	Event              // "p NAME" in kprobe_events
	ReturnEvent        // "r NAME" in kprobe_events
	ways
)

// Ways names these ways.
var Ways = [ways]string{"register_kprobe", "register_kretprobe", "p", "r"}

// Verdict is what each way gives: 0 or an errno.
type Verdict [ways]syscall.Errno

// String returns the verdict as a recording has it: nothing if all ways are open, otherwise
// a word for each, which is "-" or the errno's name.
func (v Verdict) String() string {
	if v == (Verdict{}) {
		return ""
	}
	var words [ways]string
	for i, errno := range v {
		words[i] = "-"
		if errno != 0 {
			words[i] = unix.ErrnoName(errno)
		}
	}
	return strings.Join(words[:], " ")
}

// errnos are those that occur, by name.
var errnos = map[string]syscall.Errno{"-": 0}

func init() {
	for _, errno := range []syscall.Errno{syscall.EINVAL, syscall.ENOENT, syscall.EADDRNOTAVAIL, syscall.EILSEQ, syscall.EOPNOTSUPP, syscall.ENOMEM, syscall.EBUSY, syscall.EEXIST} {
		errnos[unix.ErrnoName(errno)] = errno
	}
}

// absent stands for the verdict of a function that Linux does not have.
const absent = "absent"

// Table is a recording: the verdict of each function, nil if Linux has no such function.
type Table struct {
	Kernel    string // whose answers they are, "PACKAGE VERSION"
	Functions map[string]*Verdict
}

// Read returns the recording of a release. It fails with fs.ErrNotExist if there is none.
func Read(release string) (*Table, error) {
	b, err := fs.ReadFile(files, release+".txt")
	if err != nil {
		return nil, err
	}
	return Parse(bytes.NewReader(b))
}

// Parse parses what Write has written.
func Parse(r io.Reader) (*Table, error) {
	t := &Table{Functions: map[string]*Verdict{}}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Text()
		if kernel, ok := strings.CutPrefix(line, kernelLine); ok {
			t.Kernel = kernel
		}
		if line == "" || line[0] == '#' {
			continue
		}
		if err := t.add(line); err != nil {
			return nil, fmt.Errorf("line %q: %w", line, err)
		}
	}
	return t, lines.Err()
}

// add parses a function's line.
func (t *Table) add(line string) error {
	f := strings.Fields(line)
	if len(f) == 2 && f[1] == absent {
		t.Functions[f[0]] = nil
		return nil
	}
	v := &Verdict{}
	switch len(f) {
	case 1:
	case 1 + ways:
		for i, word := range f[1:] {
			errno, known := errnos[word]
			if !known {
				return fmt.Errorf("unknown errno %s", word)
			}
			v[i] = errno
		}
	default:
		return errors.New("not a name and a verdict")
	}
	t.Functions[f[0]] = v
	return nil
}

const (
	kernelLine = "# recorded from "
	head       = `# What Linux answers to a probe at the entry of each function of the guest, written by
# "make verdicts". A name alone: all are taken. Else what register_kprobe, register_kretprobe,
# "p NAME" and "r NAME" in kprobe_events give, where - is taken; or that it has no such function.
`
)

// Write writes the recording.
func (t *Table) Write(w io.Writer) error {
	var b strings.Builder
	b.WriteString(head + kernelLine + t.Kernel + "\n")
	for _, name := range t.Names() {
		verdict := absent
		if v := t.Functions[name]; v != nil {
			verdict = v.String()
		}
		b.WriteString(strings.TrimSpace(name+" "+verdict) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Names returns the functions in order.
func (t *Table) Names() []string {
	var names []string
	for name := range t.Functions {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
