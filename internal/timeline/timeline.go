// Package timeline keeps the past of a deterministic machine: its journal, everything that has come from outside since it
// was booted. A machine that is booted anew and given the same journal comes to the same state. So the journal is the
// recording of a run (Record), a snapshot together with a hash of the state to which it leads (Snapshot), and the way
// back: to be at an earlier instruction, another machine is played as far as that, and takes the place of the first one.
package timeline

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/fs"
	"github.com/kprobefs/kprobefs/fs/journal"
	"github.com/kprobefs/kprobefs/fs/machinefs"
	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/internal/inner"
	"github.com/kprobefs/kprobefs/kernel"
	"github.com/kprobefs/kprobefs/kernel/memcg"
)

// Wall is the time at which a deterministic machine boots if nothing else is said, in nanoseconds since 1970, so that two
// runs of the same command are alike.
const Wall = 1_700_000_000_000_000_000

// Config is what a Timeline is made of. Header says which machine it has; Image may be empty.
type Config struct {
	Header journal.Header
	Engine kernel.Engine // which may be another one than where the journal was recorded
	Limit  *memcg.Limit
	Log    *logrus.Logger
}

// Timeline is a machine with its past.
type Timeline struct {
	conf Config

	now atomic.Pointer[world]

	mu    sync.Mutex // guards what follows, and serializes moves
	mount *fs.Mount
	file  *os.File // of Record, or nil
	lost  error    // why the file is not complete
}

// world is a machine, and how it has come to where it is.
type world struct {
	kernel *kprobefs.Kernel
	seq    *fs.Sequence

	mu      sync.Mutex
	entries past
	file    *journal.Writer // gets further entries, or nil
	filed   int             // how many entries the file has
	failed  error           // of file
}

var _ machinefs.Timeline = (*Timeline)(nil)

// ErrFit is the error of a journal that is for another machine.
var ErrFit = errors.New("it does not fit")

// New boots the machine and plays entries to it. If the last one is an End, the machine must have come to its state. The error is
// fs.ErrDiverged if the machine does something else than the journal says, ErrFit if it is another one, or one of
// kprobefs.Boot.
func New(c Config, entries []journal.Entry) (*Timeline, error) {
	t := &Timeline{conf: c}
	w, err := t.boot(entries, func(*kernel.Machine) {})
	if err != nil {
		return nil, err
	}
	t.now.Store(w)
	<-w.seq.Played()
	if err := t.check(entries); err != nil {
		t.Close()
		return nil, err
	}
	t.conf.Header.Image = w.kernel.Machine.ImageHash()
	return t, nil
}

// check checks whether the script has been played to its end, and to the state that it says.
func (t *Timeline) check(entries []journal.Entry) error {
	if err := t.now.Load().seq.Err(); err != nil {
		return err
	}
	if len(entries) == 0 {
		return nil
	}
	end := entries[len(entries)-1]
	if end.Kind != journal.End {
		return nil
	}
	got, err := t.State()
	if err == nil && (got != end.State || t.Position() != end.Position) {
		err = fmt.Errorf("the machine is at instruction %d in state %.16s, the journal ends at %d in %.16s: %w", t.Position(), got, end.Position, end.State, fs.ErrDiverged)
	}
	return err
}

// boot boots a machine that plays entries. prepare is called before it begins with that.
func (t *Timeline) boot(entries []journal.Entry, prepare func(*kernel.Machine)) (*world, error) {
	o, err := t.options()
	if err != nil {
		return nil, err
	}
	k, err := kprobefs.Boot(o)
	if err != nil {
		return nil, err
	}
	if got := k.Machine.ImageHash(); t.conf.Header.Image != "" && got != t.conf.Header.Image {
		return nil, errors.Join(fmt.Errorf("the emulated kernel of this program is another one: %w", ErrFit), k.Close())
	}
	for _, m := range t.conf.Header.Modules {
		if said, err := k.Insmod(m.File, m.Args); err != nil {
			return nil, errors.Join(fmt.Errorf("a module is not loaded: %w (%q)", err, said), k.Close())
		}
	}
	w := &world{kernel: k}
	k.UseTimeline(t)
	tree := fs.New(k.Machine.Host(), t.conf.Log)
	tree.Bound(t.conf.Limit)
	tree.Record(k.Writes())
	k.Machine.Entries().Watch(tree.Gone)
	root := &seqfile.Row{Name: "/", Mode: 0o755, Kind: seqfile.Ours, At: "/", Dir: t.withSnapshot(k.Tree(), w)}
	if n := len(entries); n > 0 && entries[n-1].Kind == journal.End {
		entries = entries[:n-1]
	}
	prepare(k.Machine)
	w.seq = tree.Sequence(root, k.Machine, slices.Clone(entries), w.record)
	w.seq.Numbers(entries)
	return w, nil
}

// options returns what the machine is booted with.
func (t *Timeline) options() (o kprobefs.Options, err error) {
	h := t.conf.Header
	if o.Release, err = kprobefs.ParseRelease(h.Release); err != nil {
		return o, fmt.Errorf("%w: %w", ErrFit, err)
	}
	if o.Config, err = kprobefs.ParseConfig(o.Release.Config, h.Config); err != nil {
		return o, fmt.Errorf("%w: %w", ErrFit, err)
	}
	if o.Lockdown, err = kprobefs.ParseLockdown(h.Locked); err != nil {
		return o, fmt.Errorf("%w: %w", ErrFit, err)
	}
	if err := o.Release.Check(o.Config); err != nil {
		return o, fmt.Errorf("%w: %w", ErrFit, err)
	}
	o.CPUs, o.Seed, o.Program = h.CPUs, h.Seed, h.Program
	o.Deterministic, o.Sequenced, o.Clock = true, true, kernel.NewVirtualClock(h.Wall)
	o.Engine, o.Limit = t.conf.Engine, t.conf.Limit
	return o, nil
}

// record keeps an entry.
func (w *world) record(e journal.Entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.entries.add(e)
	if w.file != nil && w.failed == nil && w.entries.len() > w.filed {
		w.failed = w.file.Append(e)
		w.filed++
	}
}

// past returns what has been recorded.
func (w *world) past() []journal.Entry {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.entries.all()
}

// whole returns what has been recorded, and what the machine will play again (BackStep).
func (t *Timeline) whole() []journal.Entry {
	w := t.now.Load()
	return append(w.past(), w.seq.Script()...)
}

// Kernel returns the machine. Another one takes its place when the machine goes back.
func (t *Timeline) Kernel() *kprobefs.Kernel {
	return t.now.Load().kernel
}

// Position is how many instructions the machine has retired.
func (t *Timeline) Position() uint64 { return t.now.Load().kernel.Machine.Retired() }

// Requests is how many requests the machine has had.
func (t *Timeline) Requests() int {
	w := t.now.Load()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.entries.requests
}

// stateFiles show the state of what is not in guest memory.
var stateFiles = []string{"kprobes/list", "kprobes/enabled", "tracing/kprobe_events", "tracing/kprobe_profile", "tracing/trace"}

// State is a hash of the state of the machine, which must be idle or stopped.
func (t *Timeline) State() (string, error) { return t.now.Load().state() }

func (w *world) state() (string, error) {
	h := sha256.New()
	k := w.kernel
	if err := k.Machine.WriteState(h); err != nil {
		return "", err
	}
	for _, name := range stateFiles {
		text, err := k.ReadFile(name)
		fmt.Fprintf(h, "%s %d %v\n", name, len(text), err)
		_, _ = h.Write(text)
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}

// Record has the journal written to a file, from its first entry on.
func (t *Timeline) Record(name string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	t.file = f
	return t.rewrite()
}

// rewrite writes the journal of the present machine to the file.
func (t *Timeline) rewrite() error {
	if t.file == nil {
		return nil
	}
	if _, err := t.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := t.file.Truncate(0); err != nil {
		return err
	}
	w := t.now.Load()
	w.mu.Lock()
	defer w.mu.Unlock()
	jw, err := write(t.file, t.conf.Header, w.entries.all())
	w.file, w.filed = jw, w.entries.len()
	return err
}

// takeFile has w go on with the file of old, which has what w will play again.
func (w *world) takeFile(old *world) {
	old.mu.Lock()
	defer old.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.file, w.filed, w.failed = old.file, max(old.filed, old.entries.len()), old.failed
	old.file = nil
}

// write begins a journal with entries.
func write(to io.Writer, h journal.Header, entries []journal.Entry) (*journal.Writer, error) {
	w, err := journal.NewWriter(to, h)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if err := w.Append(e); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// Mount serves the machine's files at dir.
func (t *Timeline) Mount(dir string, o fs.MountOptions) (*fs.Mount, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now.Load().seq.GoLive()
	m, err := t.now.Load().seq.Mount(dir, o)
	t.mount = m
	return m, err
}

// Disown closes what the programs of the run that was played had open.
func (t *Timeline) Disown() { t.now.Load().seq.Disown() }

// snapshot is the journal up to the request that asks for it, with its End.
func (t *Timeline) snapshot(w *world) ([]byte, error) {
	entries := w.past()
	entries = entries[:max(len(entries)-1, 0)]
	state, err := w.state()
	if err != nil {
		return nil, err
	}
	return pack(t.conf.Header, append(entries, journal.Entry{Kind: journal.End, Position: w.kernel.Machine.Retired(), State: state}))
}

// SnapshotFile is the name of the file in machine/ that has a snapshot.
const SnapshotFile = "snapshot"

// withSnapshot returns a tree with machine/snapshot. It is root's: it has what all programs have written.
func (t *Timeline) withSnapshot(tree seqfile.Dir, w *world) seqfile.Dir {
	row := &seqfile.Row{
		Name: SnapshotFile, Mode: 0o400, WithoutGuest: true,
		Open: func(context.Context, *seqfile.OpenInfo) (seqfile.File, error) {
			b, err := t.snapshot(w)
			if err != nil {
				return nil, err
			}
			return image(b), nil
		},
	}
	var rows seqfile.Table
	for _, r := range tree.Rows() {
		if r.Name == "machine" {
			machine := *r
			machine.Dir = append(slices.Clone(seqfile.Table(r.Dir.Rows())), row)
			r = &machine
		}
		rows = append(rows, r)
	}
	return rows
}

// image is an open snapshot.
type image []byte

func (b image) Read(_ context.Context, p []byte, off int64) (int, error) {
	if off < 0 || off >= int64(len(b)) {
		return 0, nil
	}
	return copy(p, b[off:]), nil
}

func (image) Write(context.Context, []byte, int64) (int, error) {
	return 0, fmt.Errorf("a snapshot cannot be written: %w", syscall.EINVAL)
}

func (image) Release() {}

// Close ends the machine. A file that is recorded gets its end if the machine is idle.
func (t *Timeline) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.now.Load()
	if t.file != nil {
		if state, err := t.State(); err == nil && w.kernel.Machine.Idle() && len(w.seq.Script()) == 0 {
			w.record(journal.Entry{Kind: journal.End, Position: w.kernel.Machine.Retired(), State: state})
		}
		w.mu.Lock()
		t.lost = errors.Join(t.lost, w.failed)
		w.mu.Unlock()
		t.lost = errors.Join(t.lost, t.file.Close())
	}
	w.end()
}

// Lost returns why the recorded file is not complete, or nil.
func (t *Timeline) Lost() error { return t.lost }

// end ends a machine whose files may be in use.
func (w *world) end() {
	w.seq.End()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = inner.Of(w.kernel).Retire()
	}()
	select {
	case <-done:
	case <-time.After(closeGrace):
	}
}

// closeGrace bounds the time in which a machine must stop.
const closeGrace = time.Second
