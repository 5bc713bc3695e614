// Package integration tests that kprobefs prints what Linux prints.
//
// Each testdata/*.txtar has a shell script (script), for some with a program in C or Go
// (program.c, program.go) or the kernel modules that it loads (NAME.c), and the masked text that a real Linux kernel printed for it
// (want). Linux is the specification: want is recorded by "make golden" (command internal/tools/golden,
// which boots Debian's kernel package under QEMU with package internal/tools/linux), and
// never typed. The tests run the same script under "kprobefs exec" and compare.
//
// The rules of the file masks replace, on both sides, what must differ between two
// kernels: addresses, times, pids, sizes of functions. Errnos, flags, counts and
// orders are never masked.
package integration

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/tools/txtar"
)

//go:embed masks lib.sh modules.sh
var shared embed.FS

// A Case is a script with what Linux printed for it.
type Case struct {
	Name    string            // file name without .txtar
	File    string            // path of the .txtar
	Comment string            // what the script shows
	Script  string            // busybox sh
	Want    string            // masked; empty if not yet recorded
	Kernel  string            // "PACKAGE VERSION" of the kernel that Want was recorded from; empty if not yet recorded
	Status  int               // exit status on Linux
	Release string            // that kernel's release, if it is not the default one
	Program string            // source of a program in the same directory as the script, of that name; empty for none
	Source  string            // the source's name, program.c or program.go
	Modules []txtar.File      // sources of modules, NAME.c, which are built like those in files of their own
	Files   map[string][]byte // other files there, by name
	Default *Case             // if Release is set: the default release's case, or nil if there is none
}

// alone matches the line of a script that says why no other script can run after it.
var alone = regexp.MustCompile(`(?m)^# alone: `)

// Alone reports whether the script must have the kernel for itself, because others could
// not run after it.
func (c *Case) Alone() bool { return alone.MatchString(c.Script) }

// disk matches the line of a script that says why it needs a disk.
var disk = regexp.MustCompile(`(?m)^# disk: `)

// Disk reports whether Linux must have a disk for the script: /dev/vda.
func (c *Case) Disk() bool { return disk.MatchString(c.Script) }

// recorded matches the last line of the comment, which Save writes.
var recorded = regexp.MustCompile(`(?m)^recorded from (\S+ \S+), exit status (\d+)\n?`)

// Load reads the cases of a directory, sorted by name.
func Load(dir string) ([]*Case, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil {
		return nil, err
	}
	var cases []*Case
	for _, file := range files {
		c, err := read(file)
		if err != nil {
			return nil, err
		}
		cases = append(cases, c)
	}
	return cases, nil
}

// LoadRelease reads the cases of a directory with the recordings of another release,
// which are in its subdirectory RELEASE: a file NAME.txtar of comment and want, or a
// line of the file same if the text is the default release's. Cases that were
// not recorded on that release have no Want and no Kernel. A file in the subdirectory
// that has a script is a case of that release only.
func LoadRelease(dir, release string) ([]*Case, error) {
	cases, err := Load(dir)
	if err != nil {
		return nil, err
	}
	same, err := readSame(filepath.Join(dir, release))
	if err != nil {
		return nil, err
	}
	own, err := ownCases(filepath.Join(dir, release), release, cases)
	if err != nil {
		return nil, err
	}
	for _, c := range cases {
		c.Default = &Case{Want: c.Want, Status: c.Status}
		c.Release, c.File = release, filepath.Join(dir, release, c.Name+".txtar")
		if c.Kernel = same[c.Name]; c.Kernel != "" {
			continue
		}
		if err := c.readWant(); err != nil {
			return nil, err
		}
	}
	return append(cases, own...), nil
}

// ownCases reads the cases that exist in a release's directory only.
func ownCases(dir, release string, others []*Case) (own []*Case, _ error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		if slices.ContainsFunc(others, func(c *Case) bool { return c.Name == name }) {
			continue
		}
		c, err := read(file)
		if err != nil {
			return nil, err
		}
		c.Release = release
		own = append(own, c)
	}
	return own, nil
}

// readWant reads the recording of another release.
func (c *Case) readWant() error {
	c.Want, c.Status = "", 0
	b, err := os.ReadFile(c.File)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	a := txtar.Parse(b)
	if err := c.takeRecording(string(a.Comment)); err != nil {
		return err
	}
	if len(a.Files) != 1 || a.Files[0].Name != "want" {
		return fmt.Errorf("%s: a recording of another release must have one part, want", c.File)
	}
	c.Want = string(a.Files[0].Data)
	return nil
}

// sameHead begins a file same.
const sameHead = `# For these scripts the kernel prints what is recorded for the default release.
# A line is NAME PACKAGE VERSION, made by: golden -release R record
`

// readSame reads the file same of a release's directory and returns the kernel by
// script.
func readSame(dir string) (map[string]string, error) {
	b, err := os.ReadFile(filepath.Join(dir, "same"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	same := map[string]string{}
	for _, line := range strings.Split(string(b), "\n") {
		if name, kernel, ok := strings.Cut(line, " "); ok && name != "#" {
			same[name] = kernel
		}
	}
	return same, nil
}

// keepSame sets c's kernel in the file same in c.File's directory, or removes c from
// it if kernel is empty.
func (c *Case) keepSame(kernel string) error {
	dir := filepath.Dir(c.File)
	same, err := readSame(dir)
	if err != nil || same[c.Name] == kernel {
		return err
	}
	delete(same, c.Name)
	if kernel != "" {
		same[c.Name] = kernel
	}
	text := sameHead
	for _, name := range slices.Sorted(maps.Keys(same)) {
		text += name + " " + same[name] + "\n"
	}
	return os.WriteFile(filepath.Join(dir, "same"), []byte(text), 0o644)
}

// takeRecording parses the comment's line about the recording.
func (c *Case) takeRecording(comment string) (err error) {
	c.Kernel, c.Status = "", 0
	if m := recorded.FindStringSubmatch(comment); m != nil {
		c.Kernel = m[1]
		if c.Status, err = strconv.Atoi(m[2]); err != nil {
			return fmt.Errorf("%s: exit status: %w", c.File, err)
		}
	}
	return nil
}

func read(file string) (*Case, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	c := &Case{Name: strings.TrimSuffix(filepath.Base(file), ".txtar"), File: file}
	a := txtar.Parse(b)
	c.Comment = recorded.ReplaceAllString(string(a.Comment), "")
	if err := c.takeRecording(string(a.Comment)); err != nil {
		return nil, err
	}
	for _, f := range a.Files {
		switch text := string(f.Data); f.Name {
		case "script":
			c.Script = text
		case "want":
			c.Want = text
		case "program.c", "program.go":
			c.Program, c.Source = text, f.Name
		default:
			if filepath.Ext(f.Name) != ".c" {
				return nil, fmt.Errorf("%s: unknown part %q", file, f.Name)
			}
			c.Modules = append(c.Modules, f)
		}
	}
	if c.Script == "" {
		return nil, fmt.Errorf("%s: no script", file)
	}
	return c, nil
}

// Save writes the case to its file. If another release printed the same as the
// default one, it writes to the file same instead.
func (c *Case) Save() error {
	if c.Default != nil {
		return c.saveRelease()
	}
	a := &txtar.Archive{Comment: []byte(c.Comment)}
	add := func(name, text string) { a.Files = append(a.Files, txtar.File{Name: name, Data: []byte(text)}) }
	add("script", c.Script)
	if c.Program != "" {
		add(c.Source, c.Program)
	}
	a.Files = append(a.Files, c.Modules...)
	if c.Kernel != "" {
		a.Comment = append(a.Comment, c.recording()...)
		add("want", c.Want)
	}
	return os.WriteFile(c.File, txtar.Format(a), 0o644)
}

// recording returns the comment's line about the recording.
func (c *Case) recording() string {
	return fmt.Sprintf("recorded from %s, exit status %d\n", c.Kernel, c.Status)
}

// AsDefault reports whether a case of another release prints what the default one does.
func (c *Case) AsDefault() bool {
	return c.Default != nil && c.Want == c.Default.Want && c.Status == c.Default.Status
}

func (c *Case) saveRelease() error {
	if c.Kernel == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(c.File), 0o755); err != nil {
		return err
	}
	if c.AsDefault() {
		if err := os.Remove(c.File); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return c.keepSame(c.Kernel)
	}
	if err := c.keepSame(""); err != nil {
		return err
	}
	a := &txtar.Archive{Comment: []byte(c.recording()), Files: []txtar.File{{Name: "want", Data: []byte(c.Want)}}}
	return os.WriteFile(c.File, txtar.Format(a), 0o644)
}

// programs has what BuildProgram has built, by source.
var programs sync.Map

// BuildProgram adds the case's program, if it has one, to its files. It needs gcc or Go.
func (c *Case) BuildProgram() error {
	if c.Program == "" {
		return nil
	}
	once, _ := programs.LoadOrStore(c.Program, sync.OnceValues(func() ([]byte, error) { return compileProgram(c.Source, c.Program) }))
	b, err := once.(func() ([]byte, error))()
	if err != nil {
		return fmt.Errorf("%s: %s: %w", c.File, c.Source, err)
	}
	c.Files = maps.Clone(c.Files)
	if c.Files == nil {
		c.Files = map[string][]byte{}
	}
	c.Files["program"] = b
	return nil
}

// compileProgram returns the program of a source in C or Go, which needs no library where
// it runs.
func compileProgram(name, source string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "program")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, name), []byte(source), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.Command("gcc", "-O1", "-Wall", "-Werror", "-static", "-pthread", "-s", "-o", "program", name)
	if filepath.Ext(name) == ".go" {
		cmd = exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", "program", name)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GO111MODULE=off")
	}
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	return os.ReadFile(filepath.Join(dir, "program"))
}

// Lib returns the shell library that scripts may source as ./lib.sh.
func Lib() string {
	b, err := shared.ReadFile("lib.sh")
	if err != nil {
		panic(err) // embedded
	}
	return string(b)
}
