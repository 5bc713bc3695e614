package kprobefs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/kernel"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kernel/insn"
	"github.com/kprobefs/kprobefs/kprobes"
)

// strideVar sets the step in which TestEveryBoundary goes through the instructions;
// with 1 it probes all of them (`make test`).
const strideVar = "KPROBEFS_BOUNDARY_STRIDE"

// TestEveryBoundary probes the instructions of the guest's text one at a time, by a
// breakpoint and, if possible, by a jump, and runs some work in the kernel: its
// results must not change. The clock is virtual. 6.12's text differs only by endbr64,
// so fewer instructions are enough there.
func TestEveryBoundary(t *testing.T) {
	stride := 61
	if n, err := strconv.Atoi(os.Getenv(strideVar)); err == nil && n > 0 {
		stride = n
	}
	for _, c := range []struct {
		name, release string
		first, stride int
	}{
		{"6.1", "6.1", 0, 2 * stride},
		{"the other half", "6.1", stride, 2 * stride},
		{"6.12", "6.12", 0, 5 * stride},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			everyBoundary(t, c.release, c.first, c.stride)
		})
	}
}

func everyBoundary(t *testing.T, release string, first, stride int) {
	t.Helper()
	w := newWork(t, release)
	want := w.run()
	if got := w.run(); !slices.Equal(got, want) {
		t.Fatalf("without probes the work's results differ: %v and %v", want, got)
	}
	before := w.text()
	var probed, jumps, i int
	for _, f := range w.functions() {
		for _, addr := range w.boundaries(f) {
			if i++; i%stride != first {
				continue
			}
			armed, jump := w.probe(addr, want)
			if armed {
				probed++
			}
			if jump {
				jumps++
			}
		}
	}
	t.Logf("%d of %d instructions probed, %d by jumps, %d hits", probed, i, jumps, w.hits.Load())
	if probed == 0 || jumps == 0 || w.hits.Load() == 0 {
		t.Error("nothing was probed or hit")
	}
	if !slices.Equal(before, w.text()) {
		t.Error("text has changed")
	}
}

// work is a kernel with some work to run on it.
type work struct {
	t     *testing.T
	s     *kprobefs.Kernel
	clock *kernel.VirtualClock
	buf   uint64 // guest memory, from __kmalloc
	hits  atomic.Uint64
}

func newWork(t *testing.T, release string) *work {
	t.Helper()
	r, err := kprobefs.ParseRelease(release)
	if err != nil {
		t.Fatal(err)
	}
	w := &work{t: t, clock: kernel.NewVirtualClock(1_700_000_000_000_000_000)}
	s, err := kprobefs.Boot(kprobefs.Options{CPUs: 1, Seed: 1, Clock: w.clock, Release: r})
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { // the clock goes on
		for {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Microsecond):
				w.clock.Advance(2 * time.Millisecond)
			}
		}
	})
	t.Cleanup(func() { s.Close(); close(stop); wg.Wait() })
	w.s = s
	w.buf = w.call("__kmalloc", 4096, 0xcc0)
	if w.buf < abi.DirectMap {
		t.Fatalf("__kmalloc gave %#x", w.buf)
	}
	return w
}

func (w *work) call(name string, args ...uint64) uint64 {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	v, err := w.s.Machine.Call(ctx, name, args...)
	if err != nil {
		w.t.Fatalf("%s: %v", name, err)
	}
	return v
}

// run does some of each kind of work and returns the results.
func (w *work) run() []uint64 {
	w.t.Helper()
	text := []byte("the quick brown fox jumps over the lazy dog 0123456789\x00")
	if err := w.s.Machine.Mem().WriteAt(w.buf, text); err != nil {
		w.t.Fatal(err)
	}
	n := uint64(len(text) - 1)
	res := []uint64{
		w.call("int_sqrt", 1<<40+12345),
		w.call("gcd", 123456789012, 987654321098),
		w.call("strlen", w.buf),
		w.call("crc32_le", 0xffffffff, w.buf, n) & 0xffffffff,
		w.call("strchr", w.buf, 'z'),
		w.call("memchr_inv", w.buf, 't', n),
		w.call("xxh64", w.buf, n, 7),
		w.call("simple_strtoul", w.buf+44, 0, 10),
	}
	obj := w.call("__kmalloc", 100, 0xcc0)
	if obj == 0 {
		w.t.Error("out of memory")
	}
	w.call("kfree", obj)
	return append(res, w.files()...)
}

// files opens, reads, writes and closes a file through system calls of the host.
func (w *work) files() []uint64 {
	w.t.Helper()
	h := w.s.Machine.Host()
	c := host.Caller{TID: 77, PID: 77, Comm: func() string { return "work" }}
	op := func(_ context.Context, op host.Op) (int, error) {
		switch op.Kind {
		case abi.OpRead:
			return copy(op.Buf, "content\n"), nil
		case abi.OpWrite:
			return len(op.Buf), nil
		}
		return 0, nil
	}
	var res []uint64
	do := func(call host.Call) int64 {
		w.t.Helper()
		ret, out, err := h.Do(w.t.Context(), c, call, op)
		if err != nil {
			w.t.Fatalf("system call %d: %v", call.Nr, err)
		}
		res = append(res, uint64(ret), uint64(len(out)))
		return ret
	}
	fd := do(host.Call{Nr: abi.SysOpenat, Path: "/sys/kernel/debug/kprobes/enabled", Flags: syscall.O_RDWR, Mode: syscall.S_IFREG | 0o600, FOps: abi.FOpsDebugBool})
	if fd < 0 {
		w.t.Fatalf("open gave %v", syscall.Errno(-fd))
	}
	do(host.Call{Nr: abi.SysRead, FD: int(fd), Count: 100})
	do(host.Call{Nr: abi.SysWrite, FD: int(fd), Data: []byte("1\n")})
	do(host.Call{Nr: abi.HostFilpClose, FD: int(fd)})
	do(host.Call{Nr: abi.HostRelease, FD: int(fd)})
	return res
}

func (w *work) text() []byte {
	r := w.s.Machine.Image().Text
	b := make([]byte, r.End-r.Start)
	if err := w.s.Machine.Read(r.Start, b); err != nil {
		w.t.Fatal(err)
	}
	return b
}

// functions returns the symbols of text, one for each address.
func (w *work) functions() []abi.Symbol {
	text := w.s.Machine.Image().Text
	var fs []abi.Symbol
	for _, s := range w.s.Machine.Symbols().All() {
		if text.Contains(s.Addr) && s.Type|0x20 == 't' && (len(fs) == 0 || fs[len(fs)-1].Addr != s.Addr) {
			fs = append(fs, s)
		}
	}
	return fs
}

// boundaries returns the addresses of a function's instructions.
func (w *work) boundaries(f abi.Symbol) []uint64 {
	b := make([]byte, f.Size)
	if err := w.s.Machine.Read(f.Addr, b); err != nil {
		w.t.Fatal(err)
	}
	var addrs []uint64
	for pos := 0; pos < len(b) && b[pos] != 0xcc; {
		in, err := insn.Decode(b[pos:])
		if err != nil {
			break
		}
		addrs = append(addrs, f.Addr+uint64(pos))
		pos += in.Len
	}
	return addrs
}

// probe runs the work with a probe at addr. It reports whether addr can be probed,
// and whether the probe became a jump.
func (w *work) probe(addr uint64, want []uint64) (armed, jump bool) {
	w.t.Helper()
	p := &kprobes.Kprobe{Addr: addr, PreHandler: func(*kprobes.Hit) int { w.hits.Add(1); return 0 }}
	w.s.Kprobes.SetOptimization(false)
	if err := w.s.Kprobes.Register(p); err != nil {
		var e syscall.Errno
		if !errors.As(err, &e) {
			w.t.Errorf("%s: %v", w.s.Machine.Describe(addr), err)
		}
		return false, false
	}
	defer w.s.Kprobes.Unregister(p)
	w.check(addr, "breakpoint", want)
	pt := w.s.Kprobes.Points()[0]
	if pt.Flags&kprobes.FlagFtrace != 0 || pt.NotJump != nil {
		return true, false
	}
	w.s.Kprobes.SetOptimization(true)
	w.s.Kprobes.WaitOptimizer()
	if w.s.Kprobes.Points()[0].Flags&kprobes.FlagOptimized == 0 {
		return true, false
	}
	w.check(addr, "jump", want)
	return true, true
}

func (w *work) check(addr uint64, how string, want []uint64) {
	w.t.Helper()
	if got := w.run(); !slices.Equal(got, want) {
		w.t.Fatalf("with a %s at %s the results are %v, want %v", how, w.s.Machine.Describe(addr), fmt.Sprint(got), want)
	}
}
