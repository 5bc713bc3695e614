package tracefs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes"
	"github.com/kprobefs/kprobefs/kprobes/tracing"
	"github.com/kprobefs/kprobefs/kprobes/tracing/tracingtest"
)

// fakeKernel has functions of 64 bytes named f0, f1, ... that can all be probed.
type fakeKernel struct {
	tracingtest.Owners

	probes []*kprobes.Kprobe
	log    []string
}

const base, fsize = 0xffffffff81000000, 64

func (f *fakeKernel) LookupName(name string) []abi.Symbol {
	var n uint64
	if k, err := fmt.Sscanf(name, "f%d", &n); k != 1 || err != nil {
		return nil
	}
	return []abi.Symbol{{Addr: base + n*fsize, Size: fsize, Name: name}}
}

func (f *fakeKernel) Lookup(addr uint64) (abi.Symbol, uint64, bool) {
	n := (addr - base) / fsize
	return abi.Symbol{Addr: base + n*fsize, Size: fsize, Name: fmt.Sprintf("f%d", n)}, addr % fsize, true
}

func (f *fakeKernel) FtraceOverlap(uint64, uint64) bool        { return true }
func (f *fakeKernel) SynchronizeRCU()                          {}
func (f *fakeKernel) CPUs() int                                { return 2 }
func (f *fakeKernel) Now() int64                               { return 1e9 }
func (f *fakeKernel) OnFuncEntry(uint64, string, uint32) error { return nil }
func (f *fakeKernel) NewRethook(int, uint64, func(*kprobes.Instance, *abi.Trap)) (*kprobes.Rethook, error) {
	return nil, syscall.ENOSYS
}

func (f *fakeKernel) RegisterRetprobe(rp *kprobes.Retprobe, _ ...*kprobes.Hit) error {
	rp.MaxActive = 10
	return nil
}
func (f *fakeKernel) UnregisterRetprobe(*kprobes.Retprobe, ...*kprobes.Hit) error { return nil }
func (f *fakeKernel) Enable(*kprobes.Kprobe, ...*kprobes.Hit) error               { return nil }
func (f *fakeKernel) Disable(*kprobes.Kprobe, ...*kprobes.Hit) error              { return nil }
func (f *fakeKernel) Printk(_ int, format string, args ...any) {
	f.log = append(f.log, fmt.Sprintf(format, args...))
}
func (f *fakeKernel) ReadAt(uint64, []byte) error    { return nil }
func (f *fakeKernel) WriteAt(uint64, []byte) error   { return nil }
func (f *fakeKernel) ReadU64(uint64) (uint64, error) { return 0, nil }
func (f *fakeKernel) WriteU64(uint64, uint64) error  { return nil }

func (f *fakeKernel) Register(p *kprobes.Kprobe, _ ...*kprobes.Hit) error {
	p.Addr = f.LookupName(p.SymbolName)[0].Addr
	f.probes = append(f.probes, p)
	return nil
}

func (f *fakeKernel) Unregister(p *kprobes.Kprobe, _ ...*kprobes.Hit) error {
	f.probes = slices.DeleteFunc(f.probes, func(q *kprobes.Kprobe) bool { return p == q })
	return nil
}

func (f *fakeKernel) hit(i int) {
	t := &abi.Trap{Mem: f, Preempt: 1, Now: func() int64 { return 5e9 }, Regs: &abi.Regs{Flags: abi.FlagIF}}
	f.probes[i].PreHandler(&kprobes.Hit{Trap: t, Probe: f.probes[i]})
}

func newTree(t *testing.T) (*seqfile.Row, *fakeKernel) {
	t.Helper()
	f := &fakeKernel{}
	return Tracing(tracing.New(tracing.Config{Kprobes: f, Symbols: f, Sites: f, Machine: f, Unwinder: f, Modules: f, Files: f, Host: f, Memory: f})), f
}

// find returns the row at a path below root.
func find(t *testing.T, root *seqfile.Row, path string) *seqfile.Row {
	t.Helper()
	for _, name := range strings.Split(path, "/") {
		if root = seqfile.Find(root.Dir, name); root == nil {
			t.Fatalf("no %s in %s", name, path)
		}
	}
	return root
}

func open(t *testing.T, root *seqfile.Row, path string, flags uint32) seqfile.File {
	t.Helper()
	f, err := find(t, root, path).Open(context.Background(), &seqfile.OpenInfo{Flags: flags})
	if err != nil {
		t.Fatalf("open %s: %v", path, err)
	}
	return f
}

// cat reads a file in reads of size bytes.
func cat(t *testing.T, root *seqfile.Row, path string, size int) string {
	t.Helper()
	f := open(t, root, path, syscall.O_RDONLY)
	var b strings.Builder
	p := make([]byte, size)
	for {
		n, err := f.Read(context.Background(), p, int64(b.Len()))
		if err != nil {
			t.Fatalf("read %s: %v", path, err)
		}
		if n == 0 {
			return b.String()
		}
		b.Write(p[:n])
	}
}

// echo opens a file with flags and writes to it.
func echo(t *testing.T, root *seqfile.Row, path, data string, flags uint32) error {
	t.Helper()
	f := open(t, root, path, syscall.O_WRONLY|flags)
	n, err := f.Write(context.Background(), []byte(data), 0)
	if err == nil && n != len(data) {
		t.Errorf("write to %s took %d of %d bytes", path, n, len(data))
	}
	return err
}

func mustEcho(t *testing.T, root *seqfile.Row, path, data string, flags uint32) {
	t.Helper()
	if err := echo(t, root, path, data, flags); err != nil {
		t.Fatalf("echo %q > %s: %v", data, path, err)
	}
}

// ls lists a directory with modes, files sorted by name.
func ls(row *seqfile.Row) []string {
	var names []string
	for _, r := range row.Dir.Rows() {
		kind := ""
		if r.IsDir() {
			kind = "/"
		}
		names = append(names, fmt.Sprintf("%s%s %04o", r.Name, kind, r.Mode))
	}
	slices.Sort(names)
	return names
}

func TestEventDirectories(t *testing.T) {
	root, _ := newTree(t)
	top := []string{"enable 0640", "ftrace/ 0750", "header_event 0440", "header_page 0440"}
	if diff := cmp.Diff(top, ls(find(t, root, "events"))); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	mustEcho(t, root, "kprobe_events", "p:a f1\np:g/b f2\nr:g/enable f3\n", 0)
	if diff := cmp.Diff([]string{"enable 0640", "ftrace/ 0750", "g/ 0750", "header_event 0440", "header_page 0440", "kprobes/ 0750"}, ls(find(t, root, "events"))); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"b/ 0750", "enable 0640", "filter 0640"}, ls(find(t, root, "events/g"))); diff != "" {
		t.Errorf("events/g (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"enable 0640", "filter 0640", "format 0440", "hist 0440", "id 0440", "trigger 0640"}, ls(find(t, root, "events/g/b"))); diff != "" {
		t.Errorf("events/g/b (-want +got):\n%s", diff)
	}
	mustEcho(t, root, "kprobe_events", "-:a\n", syscall.O_APPEND)
	if seqfile.Find(find(t, root, "events").Dir, "kprobes") != nil {
		t.Error("events/kprobes is left after its last event")
	}
}

// TestEventRecreated: a new event of the same name has another inode, and open files
// of the old one fail with ENODEV.
func TestEventRecreated(t *testing.T) {
	root, _ := newTree(t)
	mustEcho(t, root, "kprobe_events", "p:a f1", 0)
	gen := find(t, root, "events/kprobes/a").Gen
	old := open(t, root, "events/kprobes/a/enable", syscall.O_RDWR)
	mustEcho(t, root, "kprobe_events", "-:a\np:a f1", 0)
	if find(t, root, "events/kprobes/a").Gen == gen {
		t.Error("the new event has the old one's Gen")
	}
	if _, err := old.Write(context.Background(), []byte("1"), 0); !errors.Is(err, syscall.ENODEV) {
		t.Errorf("write to a file of a deleted event: %v", err)
	}
	if _, err := old.Read(context.Background(), make([]byte, 9), 0); !errors.Is(err, syscall.ENODEV) {
		t.Errorf("read of a file of a deleted event: %v", err)
	}
}

func TestTruncate(t *testing.T) {
	root, f := newTree(t)
	mustEcho(t, root, "kprobe_events", "p:a f1\np:b f2", syscall.O_TRUNC)
	mustEcho(t, root, "events/kprobes/a/enable", "1\n", syscall.O_TRUNC)
	info := &seqfile.OpenInfo{Flags: syscall.O_WRONLY | syscall.O_TRUNC}
	for _, name := range []string{"kprobe_events", "dynamic_events"} {
		if _, err := find(t, root, name).Open(context.Background(), info); !errors.Is(err, syscall.EBUSY) {
			t.Errorf("> %s while an event is enabled: %v", name, err)
		}
	}
	f.hit(0)
	mustEcho(t, root, "trace", "\n", syscall.O_APPEND)
	if got := cat(t, root, "trace", 4096); !strings.Contains(got, " a: (f1+0x0/0x40)\n") {
		t.Errorf(">> trace emptied it:\n%s", got)
	}
	mustEcho(t, root, "trace", "\n", syscall.O_TRUNC)
	if got := cat(t, root, "trace", 4096); !strings.Contains(got, "entries-written: 0/0 ") {
		t.Errorf("> trace did not empty it:\n%s", got)
	}
	mustEcho(t, root, "set_event", "b\n", syscall.O_TRUNC)
	if got := cat(t, root, "set_event", 4096); got != "kprobes:b\n" {
		t.Errorf("set_event %q", got)
	}
	mustEcho(t, root, "set_event", "\n", syscall.O_TRUNC)
	_ = echo(t, root, "kprobe_events", "p nosuch", 0)
	if got := cat(t, root, "error_log", 4096); !strings.HasPrefix(got, "[    1.000000] trace_kprobe: error: ") {
		t.Errorf("error_log %q", got)
	}
	mustEcho(t, root, "error_log", "\n", 0)
	if got := cat(t, root, "error_log", 4096); got == "" {
		t.Error(">> error_log emptied it")
	}
	mustEcho(t, root, "error_log", "\n", syscall.O_TRUNC)
	if got := cat(t, root, "error_log", 4096); got != "" {
		t.Errorf("> error_log left %q", got)
	}
	open(t, root, "kprobe_events", syscall.O_RDONLY|syscall.O_TRUNC)
	if got := cat(t, root, "dynamic_events", 4096); got != "p:kprobes/a f1\np:kprobes/b f2\n" {
		t.Errorf("an open for reading deleted events: %q", got)
	}
	mustEcho(t, root, "dynamic_events", "\n", syscall.O_TRUNC)
	if got := cat(t, root, "kprobe_events", 4096); got != "" {
		t.Errorf("> dynamic_events left %q", got)
	}
}

// TestSmallReads: the text does not depend on the size of the reads.
func TestSmallReads(t *testing.T) {
	root, f := newTree(t)
	mustEcho(t, root, "kprobe_events", "p:a f1\nr:b f2\n", 0)
	mustEcho(t, root, "events/enable", "1", 0)
	for range 200 {
		f.hit(0)
	}
	for _, path := range []string{
		"trace", "kprobe_events", "kprobe_profile", "README", "events/kprobes/a/format",
		"events/kprobes/a/id", "available_events", "set_event", "trace_clock", "buffer_size_kb", "events/header_page",
	} {
		want := cat(t, root, path, 65536)
		if want == "" {
			t.Errorf("%s is empty", path)
		}
		for _, size := range []int{1, 7, 4096} {
			if got := cat(t, root, path, size); got != want {
				t.Errorf("%s in reads of %d bytes differs", path, size)
			}
		}
	}
	if got := strings.Count(cat(t, root, "trace", 4096), " a: (f1+0x0/0x40)\n"); got != 200 {
		t.Errorf("trace has %d lines, want 200", got)
	}
}

func TestValues(t *testing.T) {
	root, _ := newTree(t)
	for path, want := range map[string]string{
		"tracing_on": "1\n", "current_tracer": "nop\n", "available_tracers": "nop\n", "events/enable": "0\n",
		"buffer_size_kb": "7 (expanded: 1408)\n", "buffer_total_size_kb": "14 (expanded: 2816)\n", "kprobe_events": "",
		"trace_clock": "local [global] counter uptime perf mono mono_raw boot tai x86-tsc\n",
	} {
		if got := cat(t, root, path, 4096); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
	for _, path := range []string{"README", "kprobe_profile", "buffer_total_size_kb", "available_events", "saved_cmdlines"} {
		if err := echo(t, root, path, "1", 0); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("write to %s: %v", path, err)
		}
	}
	mustEcho(t, root, "tracing_on", "0\n", syscall.O_TRUNC)
	if got := cat(t, root, "tracing_on", 1); got != "0\n" {
		t.Errorf("tracing_on %q", got)
	}
	for _, path := range []string{"tracing_on", "current_tracer", "trace_clock", "buffer_size_kb"} {
		if err := echo(t, root, path, "bogus\n", 0); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("bogus > %s: %v", path, err)
		}
	}
}

// TestReadWhileDeleting: when events are deleted while kprobe_events is read, no line
// is cut or repeated.
func TestReadWhileDeleting(t *testing.T) {
	root, _ := newTree(t)
	for i := range 300 {
		mustEcho(t, root, "kprobe_events", fmt.Sprintf("p:e%d f%d\n", i, i), 0)
	}
	f := open(t, root, "kprobe_events", syscall.O_RDONLY)
	p := make([]byte, 4096)
	n, err := f.Read(context.Background(), p, 0)
	if err != nil || n == 0 {
		t.Fatalf("read: %d, %v", n, err)
	}
	mustEcho(t, root, "kprobe_events", "-:e299\n", 0)
	text := string(p[:n])
	for {
		m, err := f.Read(context.Background(), p, int64(len(text)))
		if err != nil {
			t.Fatal(err)
		}
		if m == 0 {
			break
		}
		text += string(p[:m])
	}
	if got := strings.Count(text, "\n"); got != 299 || !strings.HasSuffix(text, "p:kprobes/e298 f298\n") {
		t.Errorf("%d lines, ending %q", got, text[len(text)-30:])
	}
}

func (f *fakeKernel) Via(*abi.Trap) kprobes.Via { return kprobes.ViaCall }

// TestFindByName: a look-up in a directory of events finds the row that comes first in its list,
// and its directories are counted, on releases with and without eventfs.
func TestFindByName(t *testing.T) {
	for _, version := range []release.Version{release.Linux6_1, release.Linux6_12} {
		f := &fakeKernel{}
		root := Tracing(tracing.New(tracing.Config{Kprobes: f, Symbols: f, Sites: f, Machine: f, Unwinder: f, Modules: f, Files: f, Host: f, Memory: f, Linux: version}))
		mustEcho(t, root, "kprobe_events", "p:g/a f1\np:g/b f2\np:g/filter f1\np:enable/x f2\n", 0)
		for _, at := range []string{"events", "events/g"} {
			dir := find(t, root, at).Dir
			dirs := 0
			first := map[string]*seqfile.Row{}
			for _, r := range dir.Rows() {
				if r.IsDir() {
					dirs++
				}
				if first[r.Name] == nil {
					first[r.Name] = r
				}
			}
			for name, want := range first {
				if got := seqfile.Find(dir, name); got == nil || got.Name != name || got.IsDir() != want.IsDir() || got.Gen != want.Gen || got.Mode != want.Mode {
					t.Errorf("%v: %s: %s is found as %+v, listed as %+v", version, at, name, got, want)
				}
			}
			if got := seqfile.Find(dir, "no such file"); got != nil {
				t.Errorf("%v: %s: %+v", version, at, got)
			}
			if got := seqfile.Dirs(dir); got != dirs {
				t.Errorf("%v: %s has %d directories, counted %d", version, at, dirs, got)
			}
		}
	}
}
