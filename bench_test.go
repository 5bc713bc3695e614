package kprobefs_test

import (
	"context"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kernel/image"
	"github.com/kprobefs/kprobefs/kprobes"
)

// BenchmarkHit measures the time that a probe adds to a call of a small guest
// function, by kind of probe, in nanoseconds per hit. The first line is the call
// alone.
func BenchmarkHit(b *testing.B) {
	s, err := kprobefs.Boot(kprobefs.Options{CPUs: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	const fn = "int_sqrt"
	kprobe := func(offset uint32, post bool) func() func() {
		return func() func() {
			p := &kprobes.Kprobe{SymbolName: fn, Offset: offset, PreHandler: func(*kprobes.Hit) int { return 0 }}
			if post {
				p.PostHandler = func(*kprobes.Hit, uint64) {}
			}
			if err := s.Kprobes.Register(p); err != nil {
				b.Fatal(err)
			}
			return func() { s.Kprobes.Unregister(p) }
		}
	}
	int3 := func(setup func() func()) func() func() {
		return func() func() {
			s.Kprobes.SetOptimization(false)
			undo := setup()
			return func() { undo(); s.Kprobes.SetOptimization(true) }
		}
	}
	optimized := func(setup func() func()) func() func() {
		return func() func() {
			undo := setup()
			s.Kprobes.WaitOptimizer()
			return undo
		}
	}
	base := callTime(b, s, fn)
	b.Run("call", func(b *testing.B) { report(b, s, fn, 0, nil) })
	for _, c := range []struct {
		name  string
		setup func() func()
	}{
		{"int3", int3(kprobe(5, false))},
		{"int3+post", int3(kprobe(5, true))},
		{"ftrace", kprobe(0, false)},
		{"optimized", optimized(kprobe(5, false))},
		{"return", func() func() {
			rp := &kprobes.Retprobe{Kprobe: kprobes.Kprobe{SymbolName: fn}, Handler: func(*kprobes.Instance, *kprobes.Hit) int { return 0 }}
			if err := s.Kprobes.RegisterRetprobe(rp); err != nil {
				b.Fatal(err)
			}
			return func() { s.Kprobes.UnregisterRetprobe(rp) }
		}},
	} {
		b.Run(c.name, func(b *testing.B) { report(b, s, fn, base, c.setup) })
	}
}

// callTime returns the duration of a call without probes in nanoseconds.
func callTime(b *testing.B, s *kprobefs.Kernel, fn string) float64 {
	const n = 200000
	addr := s.Machine.Symbols().LookupName(fn)[0].Addr
	best := time.Duration(1 << 62)
	for range 5 {
		start := time.Now()
		if _, err := s.Machine.CallOn(b.Context(), 0, addr, n, 0); err != nil {
			b.Fatal(err)
		}
		best = min(best, time.Since(start))
	}
	return float64(best.Nanoseconds()) / n
}

func report(b *testing.B, s *kprobefs.Kernel, fn string, base float64, setup func() func()) {
	if setup != nil {
		defer setup()()
	}
	addr := s.Machine.Symbols().LookupName(fn)[0].Addr
	b.ResetTimer()
	if _, err := s.Machine.CallOn(b.Context(), 0, addr, uint64(b.N), 0); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)-base, "ns/hit")
}

// BenchmarkTracepoint measures a call of kfree(NULL), which does little but pass a
// tracepoint, with its event off and on.
func BenchmarkTracepoint(b *testing.B) {
	s, err := kprobefs.Boot(kprobefs.Options{CPUs: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	b.Run("off", func(b *testing.B) { report(b, s, "kfree", 0, nil) })
	b.Run("on", func(b *testing.B) {
		report(b, s, "kfree", 0, func() func() {
			if _, err := s.Tracer.Global().WriteSetEvent([]byte("kmem:kfree")); err != nil {
				b.Fatal(err)
			}
			return s.Tracer.Global().ClearSetEvent
		})
	})
}

// BenchmarkFunctionTracer measures a call of int_sqrt while a tracer of functions is current.
func BenchmarkFunctionTracer(b *testing.B) {
	s, err := kprobefs.Boot(kprobefs.Options{CPUs: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for _, tracer := range []string{"nop", "function", "function_graph"} {
		b.Run(tracer, func(b *testing.B) {
			report(b, s, "int_sqrt", 0, func() func() {
				set := func(name string) {
					if err := s.Tracer.Global().SetCurrentTracer([]byte(name)); err != nil {
						b.Fatal(err)
					}
				}
				set(tracer)
				return func() { set("nop") }
			})
		})
	}
}

// BenchmarkGuestRead measures a read(2) in the guest: the cost of a READ without
// FUSE.
func BenchmarkGuestRead(b *testing.B) {
	s, err := kprobefs.Boot(kprobefs.Options{CPUs: benchCPUs()})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	caller := host.Caller{TID: 4711, PID: 4711, Comm: func() string { return "bench" }}
	read := func(_ context.Context, op host.Op) (int, error) { return copy(op.Buf, "1\n"), nil }
	fd, _, err := s.Machine.Host().Do(b.Context(), caller, host.Call{
		Nr: abi.SysOpenat, Path: "/sys/kernel/debug/kprobes/enabled", Mode: syscall.S_IFREG | 0o600, FOps: abi.FOpsSeq,
	}, func(context.Context, host.Op) (int, error) { return 0, nil })
	if err != nil || fd < 0 {
		b.Fatal(fd, err)
	}
	before := s.Machine.Retired()
	b.ReportAllocs()
	for b.Loop() {
		n, _, err := s.Machine.Host().Do(b.Context(), caller, host.Call{Nr: abi.SysRead, FD: int(fd), Count: 64}, read)
		if err != nil || n != 2 {
			b.Fatal(n, err)
		}
	}
	b.ReportMetric(float64(s.Machine.Retired()-before)/float64(b.N), "insns/op")
}

// BenchmarkGuestOther measures open(2) and close(2) of a file that kprobefs does not
// serve: the cost of a supervised command's call without its supervisor, with nothing
// armed and with a probe that each open hits. With a pause between calls, which ns/op
// includes, the task goes to sleep, so a call takes more instructions.
func BenchmarkGuestOther(b *testing.B) {
	for _, c := range []struct {
		name  string
		armed bool
		pause time.Duration
	}{{"nothing", false, 0}, {"armed", true, 0}, {"with a pause", true, 300 * time.Microsecond}} {
		b.Run(c.name, func(b *testing.B) {
			s, err := kprobefs.Boot(kprobefs.Options{CPUs: benchCPUs()})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			if c.armed {
				p := &kprobes.Kprobe{SymbolName: "do_sys_openat2", PreHandler: func(*kprobes.Hit) int { return 0 }}
				if err := s.Kprobes.Register(p); err != nil {
					b.Fatal(err)
				}
			}
			caller := host.Caller{TID: os.Getpid(), PID: os.Getpid(), Comm: func() string { return "bench" }}
			path := "/etc/passwd"
			call := host.Syscall{Nr: abi.SysOpenat, Mode: syscall.S_IFREG | 0o644, Text: [6]*string{1: &path}}
			call.Args[0] = 0xffffff9c // AT_FDCWD
			before := s.Machine.Retired()
			b.ReportAllocs()
			for b.Loop() {
				time.Sleep(c.pause)
				if fd, err := s.Machine.Host().Other(b.Context(), caller, call); err != nil || fd < 0 {
					b.Fatal(fd, err)
				}
			}
			b.ReportMetric(float64(s.Machine.Retired()-before)/float64(b.N), "insns/op")
		})
	}
}

func benchCPUs() int { n, _ := strconv.Atoi(os.Getenv("CPUS")); return n }

// BenchmarkGuestHandler measures what a handler of a module that only returns adds to a
// call, beside one in Go.
func BenchmarkGuestHandler(b *testing.B) {
	s, err := kprobefs.Boot(kprobefs.Options{CPUs: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	const fn = "int_sqrt"
	at, err := s.Machine.AllocModule(1)
	if err != nil {
		b.Fatal(err)
	}
	if err := s.Machine.MapModule(at, []byte("\x31\xc0\xc3"), image.Read|image.Exec); err != nil { // xor eax, eax; ret
		b.Fatal(err)
	}
	bare := func(*kprobes.Hit) int { return 0 }
	guest := func(h *kprobes.Hit) int {
		ret, err := s.Machine.Handler(h.Trap, at, 0, 0)
		if err != nil {
			b.Error(err)
		}
		return int(ret)
	}
	s.Kprobes.SetOptimization(false)
	for _, c := range []struct {
		name   string
		offset uint32
		pre    func(*kprobes.Hit) int
	}{{"fentry/go", 0, bare}, {"fentry/guest", 0, guest}, {"int3/go", 5, bare}, {"int3/guest", 5, guest}} {
		b.Run(c.name, func(b *testing.B) {
			report(b, s, fn, 0, func() func() {
				p := &kprobes.Kprobe{SymbolName: fn, Offset: c.offset, PreHandler: c.pre}
				if err := s.Kprobes.Register(p); err != nil {
					b.Fatal(err)
				}
				return func() { s.Kprobes.Unregister(p) }
			})
		})
	}
}
