package top

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/internal/look"
)

// Tree is the Source that reads a mounted tree.
type Tree struct {
	dir string

	mu  sync.Mutex // guards log
	log int        // dev/kmsg, or -1
}

var _ Source = (*Tree)(nil)

// NewTree returns the Source of a tree that is mounted at a directory.
func NewTree(dir string) *Tree { return &Tree{dir: dir, log: -1} }

// Name returns the directory.
func (t *Tree) Name() string { return t.dir }

// Close closes the kernel's log.
func (t *Tree) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.log < 0 {
		return nil
	}
	fd := t.log
	t.log = -1
	return unix.Close(fd)
}

func (t *Tree) word(name string) (string, error) {
	b, err := os.ReadFile(filepath.Join(t.dir, name))
	return strings.TrimSpace(string(b)), err
}

// Kernel reads the release and the switches. A switch that this user may not read counts as on.
func (t *Tree) Kernel() (Kernel, error) {
	release, err := t.word("sys/kernel/osrelease")
	switch {
	case errors.Is(err, syscall.ENOENT):
		return Kernel{}, fmt.Errorf("no kprobefs is mounted at %s any longer", t.dir)
	case errors.Is(err, syscall.ENOTCONN):
		return Kernel{}, fmt.Errorf("the program that served %s has ended; kprobefs umount %s removes what is left", t.dir, t.dir)
	case err != nil:
		return Kernel{}, err
	}
	k := Kernel{Release: release}
	for name, on := range map[string]*bool{"kprobes/enabled": &k.Enabled, "sys/debug/kprobes-optimization": &k.Optimization} {
		word, err := t.word(name)
		if err != nil && !errors.Is(err, syscall.EACCES) && !errors.Is(err, syscall.ENOENT) {
			return k, err
		}
		*on = word != "0"
	}
	return k, nil
}

// Probes reads machine/probed and the events.
func (t *Tree) Probes() ([]look.Probe, error) { return look.Probes(look.Files(t.dir)) }

// Functions reads machine/text and machine/copies.
func (t *Tree) Functions(name string) ([]look.Function, error) {
	return look.Functions(look.Files(t.dir), name)
}

// FunctionNames lists machine/text.
func (t *Tree) FunctionNames(prefix string) ([]string, error) {
	return look.FunctionNames(t.dir, prefix)
}

// Trace reads tracing/trace.
func (t *Tree) Trace(limit int) ([]look.Entry, error) { return look.Trace(t.dir, limit) }

// Log reads what dev/kmsg has got since the last call.
func (t *Tree) Log() (records []look.LogRecord, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.log < 0 {
		if t.log, err = look.OpenLog(t.dir, unix.O_NONBLOCK); err != nil {
			return nil, err
		}
	}
	err = look.ReadLog(t.log, func(r look.LogRecord) error {
		records = append(records, r)
		return nil
	})
	return records, err
}

// Switch writes the other value into the file enable of the probe's event.
func (t *Tree) Switch(p look.Probe) (string, error) {
	switch {
	case len(p.Events) == 0:
		return "", errors.New("no event of kprobe_events defines this probe; only its module can switch it")
	case len(p.Events) > 1:
		return "", fmt.Errorf("%d events are at this place; write 0 or 1 to tracing/events/GROUP/EVENT/enable of one", len(p.Events))
	}
	name := p.Events[0].Name
	if !filepath.IsLocal(name) {
		return "", fmt.Errorf("%q is no name of an event", name)
	}
	file := filepath.Join("tracing/events", name, "enable")
	was, err := t.word(file)
	if err != nil {
		return "", err
	}
	to := "1"
	if strings.HasPrefix(was, "1") {
		to = "0"
	}
	f, err := os.OpenFile(filepath.Join(t.dir, file), os.O_WRONLY, 0)
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(to)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return "", err
	}
	return map[string]string{"0": name + " is disabled", "1": name + " is enabled"}[to], nil
}
