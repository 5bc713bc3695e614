package activity

import (
	"context"
	"encoding/binary"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/guest"
	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kernel/image"
	"github.com/kprobefs/kprobefs/kernel/kallsyms"
	"github.com/kprobefs/kprobefs/kernel/vmlinux"
	"github.com/kprobefs/kprobefs/kprobes"
	"github.com/kprobefs/kprobefs/kprobes/tracing/bpf"
	"github.com/kprobefs/kprobefs/kprobes/tracing/perf"
)

// stops is a Mirror that can stop at read(2), and is not asked to.
type stops struct{}

func (stops) Calls() []uint64  { return []uint64{abi.SysRead} }
func (stops) Mirror(bool)      {}
func (stops) StopAnswered(int) {}

// armer arms a kernel by requests.
type armer struct {
	t *testing.T
	k *kprobefs.Kernel
	a *Activity
}

// newArmer boots a kernel. Its Activity follows changes at the end of requests only: no timer calls Update.
func newArmer(t *testing.T, o kprobefs.Options) *armer {
	t.Helper()
	o.CPUs = 1
	k, err := kprobefs.Boot(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Close() })
	sites := k.Machine.Sites()
	a := New(Config{
		Machine: k.Machine, Probes: k.Kprobes, Tracer: k.Tracer, Loaded: k.Modules.List, Sites: sites, Elsewhere: o.Kernel != nil,
	}, Options{Mirror: stops{}})
	a.late.Store(true)
	t.Cleanup(a.Close)
	return &armer{t, k, a}
}

// request is a request of a file whose operation is do.
func (w *armer) request(do func() error) {
	w.t.Helper()
	w.requestBy(host.Caller{TID: os.Getpid(), PID: os.Getpid(), Comm: func() string { return "armer" }}, do)
}

// requestBy is one of another thread.
func (w *armer) requestBy(by host.Caller, do func() error) {
	w.t.Helper()
	var failed error
	fd, _, err := w.k.Machine.Host().Do(context.Background(), by, host.Call{
		Nr: abi.SysOpenat, Path: "/sys/kernel/tracing/file", Mode: syscall.S_IFREG | 0o600, FOps: abi.FOpsSeq,
	}, func(context.Context, host.Op) (int, error) { failed = do(); return 0, nil })
	if err != nil || fd < 0 || failed != nil {
		w.t.Fatal(fd, err, failed)
	}
}

// write is a request that appends to a file.
func (w *armer) write(name, text string) func() {
	return func() {
		w.t.Helper()
		w.request(func() error { return w.k.AppendFile(name, text) })
	}
}

// watches checks what is watched now: nothing, something, or read(2).
func (w *armer) watches(when string, want watch) {
	w.t.Helper()
	got := nothing
	switch {
	case w.a.Mirrored(abi.SysRead):
		got = reads
	case w.a.state.Load() != 0:
		got = something
	}
	if got != want {
		w.t.Errorf("%s: %d is watched, want %d", when, got, want)
	}
}

type watch int

const (
	nothing   watch = iota
	something       // but no calls that are mirrored
	reads
)

// step is a request, and what is watched when it is answered.
type step struct {
	name string
	do   func()
	want watch
}

// steps are all ways to arm and to disarm.
func (w *armer) steps() []step {
	const events, static, quiet = "tracing/events/kprobes/p_vfs_read_0/", "tracing/events/sched/sched_switch/", "tracing/events/signal/signal_generate/"
	var link any
	own, write := &kprobes.Kprobe{SymbolName: "vfs_read"}, &kprobes.Kprobe{SymbolName: "vfs_write"}
	return []step{
		{"a definition", w.write("tracing/kprobe_events", "p vfs_read\n"), nothing},
		{"enable", w.write(events+"enable", "1"), reads},
		{"kprobes/enabled 0", w.write("kprobes/enabled", "0"), something},
		{"kprobes/enabled 1", w.write("kprobes/enabled", "1"), reads},
		{"tracing_on 0", w.write("tracing/tracing_on", "0"), reads},
		{"tracing_on 1", w.write("tracing/tracing_on", "1"), reads},
		{"enable 0", w.write(events+"enable", "0"), nothing},
		{"set_event", w.write("tracing/set_event", "kprobes:p_vfs_read_0"), reads},
		{"set_event !", w.write("tracing/set_event", "!kprobes:p_vfs_read_0"), nothing},
		{"the function tracer", w.write("tracing/current_tracer", "function"), reads},
		{"nop", w.write("tracing/current_tracer", "nop"), nothing},
		{"a static event", w.write(static+"enable", "1"), reads},
		{"a static event off", w.write(static+"enable", "0"), nothing},
		{"a trigger that enables", w.write(quiet+"trigger", "enable_event:kprobes:p_vfs_read_0"), reads},
		{"the trigger gone", w.write(quiet+"trigger", "!enable_event:kprobes:p_vfs_read_0"), nothing},
		{"a probe of write(2)", func() { w.request(func() error { return w.k.Register(write) }) }, something},
		{"a module, which may call anything", func() { w.insmod("kprobe_target") }, reads},
		{"the module gone", func() { w.rmmod("kprobe_target") }, something},
		{"that probe gone", func() { w.request(func() error { return w.k.Unregister(write) }) }, nothing},
		{"a module's kprobe", func() { w.insmod("kprobe_example") }, reads},
		{"rmmod", func() { w.rmmod("kprobe_example") }, nothing},
		{"a probe of Go", func() { w.request(func() error { return w.k.Register(own) }) }, reads},
		{"the probe gone", func() { w.request(func() error { return w.k.Unregister(own) }) }, nothing},
		{"a link of BPF", func() {
			w.request(func() (err error) { link, err = rawTracepoint(w.k.Tracer.BPF(), "sched_switch"); return err })
		}, reads},
		{"the link gone", func() { w.request(func() error { w.k.Tracer.BPF().Release(link); return nil }) }, nothing},
	}
}

func (w *armer) insmod(name string) {
	w.t.Helper()
	ko, err := os.ReadFile("../../../kernel/guest/modules/" + name + ".ko")
	if err != nil {
		w.t.Fatal(err)
	}
	w.request(func() error { _, err := w.k.Insmod(ko, ""); return err })
}

func (w *armer) rmmod(name string) {
	w.t.Helper()
	w.request(func() error { return w.k.Modules.Remove(context.Background(), name, false) })
}

// bpfCaller is a process with some memory, and one descriptor. It is asked for nothing else.
type bpfCaller struct {
	bpf.Caller
	memory []byte
	object any
}

func (c *bpfCaller) Read(addr uint64, b []byte) error { copy(b, c.memory[addr:]); return nil }
func (c *bpfCaller) Write(uint64, []byte)             {}
func (c *bpfCaller) Object(int) any                   { return c.object }
func (c *bpfCaller) Task() bpf.Task                   { return bpf.Task{} }

// rawTracepoint loads a program that returns 0, and attaches it to a tracepoint.
func rawTracepoint(s *bpf.System, name string) (link any, err error) {
	const attr, code, text = 0x1000, 0x2000, 0x3000
	c := &bpfCaller{memory: make([]byte, 0x4000)}
	copy(c.memory[code:], []byte{0xb7, 0, 0, 0, 0, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0})
	copy(c.memory[text:], "GPL\x00")
	a := c.memory[attr:]
	binary.LittleEndian.PutUint32(a, uint32(bpf.ProgRawTracepoint))
	binary.LittleEndian.PutUint32(a[4:], 2)
	binary.LittleEndian.PutUint64(a[8:], code)
	binary.LittleEndian.PutUint64(a[16:], text)
	const load, open = 5, 17
	r, err := s.Call(c, load, attr, 48)
	if err != nil {
		return nil, err
	}
	c.object = r.Object
	clear(c.memory)
	copy(c.memory[text:], name)
	binary.LittleEndian.PutUint64(a, text)
	binary.LittleEndian.PutUint32(a[8:], 3)
	r, err = s.Call(c, open, attr, 16)
	return r.Object, err
}

// TestArmed: whatever arms or disarms, what is watched is so when its request is answered. Requests that change
// nothing ask nobody.
func TestArmed(t *testing.T) {
	w := newArmer(t, kprobefs.Options{})
	w.a.Start()
	w.watches("at first", nothing)
	for _, s := range w.steps() {
		s.do()
		w.watches(s.name, s.want)
		asked := w.a.watched.Load()
		w.request(func() error { return nil })
		if w.a.watched.Load() != asked {
			t.Errorf("%s: the next request asks again what is armed", s.name)
		}
	}
}

// TestArmedBefore: what is armed before Start is watched from then on.
func TestArmedBefore(t *testing.T) {
	w := newArmer(t, kprobefs.Options{})
	if err := w.k.Register(&kprobes.Kprobe{SymbolName: "vfs_read"}); err != nil {
		t.Fatal(err)
	}
	w.watches("before", nothing)
	w.a.Start()
	w.watches("after Start", reads)
}

// TestArmedLate: what no request arms is watched soon.
func TestArmedLate(t *testing.T) {
	w := newArmer(t, kprobefs.Options{})
	w.a.late.Store(false)
	w.a.Start()
	if err := w.k.Register(&kprobes.Kprobe{SymbolName: "vfs_read"}); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); !w.a.Mirrored(abi.SysRead); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not watched")
		}
	}
}

// TestArmedElsewhere: listeners at the sites of the kernel of a file are noted, too. With probes there, nothing of
// what processes do is seen, but perf follows them.
func TestArmedElsewhere(t *testing.T) {
	m, err := image.Load(guest.Image("6.1"))
	if err != nil {
		t.Fatal(err)
	}
	file := &vmlinux.Kernel{Image: m, Symbols: kallsyms.NewSized(m.Symbols), Linux: kprobefs.Linux6_1, Preempt: true, Release: "6.1.0-99-test", Banner: "Linux version 6.1.0-99-test (me@here) #7 SMP"}
	file.Tables = image.NewTables(m, file.Symbols)
	file.Booted()
	w := newArmer(t, kprobefs.Options{Kernel: file})
	w.a.Start()
	before := w.a.noted.Load()
	w.write("tracing/current_tracer", "function")()
	if w.a.noted.Load() == before {
		t.Error("the function tracer is not noted")
	}
	w.write("tracing/current_tracer", "nop")()
	w.request(func() error { return w.k.Register(&kprobes.Kprobe{SymbolName: "vfs_read"}) })
	w.watches("a probe", nothing)
	var event *perf.Event
	w.request(func() (err error) {
		event, err = w.k.Tracer.Perf().Open(perf.Attr{}, nil, -1, 0, nil, nil)
		return err
	})
	w.watches("perf_event_open", something)
	w.request(func() error { event.Release(); return nil })
	w.watches("its close", nothing)
}
