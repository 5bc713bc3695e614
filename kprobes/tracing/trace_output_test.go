package tracing

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes/tracing/output"
	"github.com/kprobefs/kprobefs/kprobes/tracing/tracingtest"
)

const emptyTrace = `# tracer: nop
#
# entries-in-buffer/entries-written: 0/0   #P:2
#
#                                _-----=> irqs-off/BH-disabled
#                               / _----=> need-resched
#                              | / _---=> hardirq/softirq
#                              || / _--=> preempt-depth
#                              ||| / _-=> migrate-disable
#                              |||| /     delay
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
#              | |         |   |||||     |         |
`

func enable(t testing.TB, tr *Tracer, group, name, value string) {
	t.Helper()
	if err := tr.event(group, name).Enable([]byte(value)); err != nil {
		t.Fatalf("enable %s/%s: %v", group, name, err)
	}
}

// TestTrace compares with lines that Linux printed for such hits: fentry, int3,
// return, module, idle, unknown name.
func TestTrace(t *testing.T) {
	tr, f := newTestTracer(t)
	if got := traceText(tr); got != emptyTrace {
		t.Errorf("empty trace:\n%s", got)
	}
	f.LoadModule("mod")
	write(t, tr, "p:myp kernel_clone", "p:t5 vfs_open+5", "r:myr do_exit", "p:inmod mod:mod_func")
	for _, name := range []string{"myp", "t5", "myr", "inmod"} {
		enable(t, tr, "kprobes", name, "1\n")
	}
	sh, cat, idle := tracingtest.NewTask(92, "sh"), tracingtest.NewTask(89, "cat"), tracingtest.NewTask(0, "swapper/1")
	f.Hit(f.Symbol("kernel_clone"), tracingtest.Entered(1, 2316955000, sh))
	f.Hit(f.Symbol("vfs_open")+5, tracingtest.Breakpoint(0, 5047271499, cat))
	f.Ret(f.Symbol("do_exit"), f.Symbol("vfs_read")+0x7b, tracingtest.Entered(1, 5047271500, sh))
	f.Hit(f.Symbol("mod:mod_func"), tracingtest.Entered(0, 5047999501, idle))
	f.Hit(f.Symbol("kernel_clone"), tracingtest.Entered(0, 99999*1e9, tracingtest.NewTask(1234567, "a-name-of-fifte")))
	want := []string{
		"              sh-92      [001] .....     2.316955: myp: (kernel_clone+0x0/0x430)\n",
		"             cat-89      [000] ..Zff     5.047271: t5: (vfs_open+0x5/0x30)\n",
		"              sh-92      [001] .....     5.047272: myr: (vfs_read+0x7b/0x310 <- do_exit)\n",
		"          <idle>-0       [000] .....     5.048000: inmod: (mod_func+0x0/0x20 [mod])\n",
		" a-name-of-fifte-1234567 [000] ..... 99999.000000: myp: (kernel_clone+0x0/0x430)",
	}
	if diff := cmp.Diff(want, traceLines(tr)); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	if !strings.Contains(traceText(tr), "# entries-in-buffer/entries-written: 5/5   #P:2\n") {
		t.Error("the header's counts are wrong")
	}
	want = []string{
		"  myp                                                        2               0\n",
		"  t5                                                         1               0\n",
		"  myr                                                        1               0\n",
		"  inmod                                                      1               0\n",
	}
	if diff := cmp.Diff(want, tracingtest.Lines(tr.definitions.KprobeProfile)); diff != "" {
		t.Errorf("profile (-want +got):\n%s", diff)
	}
}

func TestContext(t *testing.T) {
	idle := tracingtest.NewTask(0, "")
	busy := tracingtest.NewTask(0, "")
	busy.Bytes[threadInfoFlags] = tifNeedResched
	const irqsOn = abi.FlagIF
	tr := &Tracer{conf: newConfig(Config{})}
	for _, c := range []struct {
		name    string
		vector  uint8
		flags   uint64
		preempt uint32
		task    *tracingtest.Task
		want    string
	}{
		{"fentry", 0, irqsOn, 1, idle, "....."},
		{"fentry, preemption off", 0, irqsOn, 3, idle, "...2."},
		{"fentry, interrupts off", 0, 0, 1, idle, "d...."},
		{"fentry in an interrupt", 0, 0, abi.HardirqOffset + 1, idle, "d.h.."},
		{"fentry in a softirq", 0, irqsOn, 0x101, idle, "..s.."},
		{"bottom halves off", 0, irqsOn, 0x201, idle, "b...."},
		{"need resched", 0, irqsOn, 1, busy, ".N..."},
		{"int3", abi.VecBP, irqsOn, abi.NMIOffset | abi.HardirqOffset, idle, "..Zff"},
		{"int3, preemption off", abi.VecBP, irqsOn, abi.NMIOffset | abi.HardirqOffset | 1, idle, "d.Z.."},
		{"deep", 0, irqsOn, 200, idle, "...e."},
	} {
		flags, preempt := tr.traceContext(&abi.Trap{Vector: c.vector, Regs: &abi.Regs{Flags: c.flags}, Preempt: c.preempt, Mem: c.task})
		if got := string(output.Columns{MigrateDisable: true}.AppendFlags(nil, flags, preempt)); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestClocks: times are formatted as on Linux: plain numbers if the clock does not
// count nanoseconds.
func TestClocks(t *testing.T) {
	tr, f := newTestTracer(t)
	tr.conf.TAIOffset = 1795232267 * 1e9
	write(t, tr, "p:b vfs_write")
	enable(t, tr, "kprobes", "b", "1")
	for _, c := range []struct{ write, errno, all, stamp string }{
		{"bogus\n", "EINVAL", "local [global] counter uptime perf mono mono_raw boot tai x86-tsc\n", "    11.848786: "},
		{"counter \n", "ok", "local global [counter] uptime perf mono mono_raw boot tai x86-tsc\n", "            2: "},
		{"\n", "EINVAL", "local global [counter] uptime perf mono mono_raw boot tai x86-tsc\n", "            2: "},
		{" uptime\n", "ok", "local global counter [uptime] perf mono mono_raw boot tai x86-tsc\n", "         1184: "},
		{"mono x\n", "EINVAL", "local global counter [uptime] perf mono mono_raw boot tai x86-tsc\n", "         1184: "},
		{"x86-tsc\n", "ok", "local global counter uptime perf mono mono_raw boot tai [x86-tsc]\n", "  11848786000: "},
		{"tai\n", "ok", "local global counter uptime perf mono mono_raw boot [tai] x86-tsc\n", " 1795232278.848786: "},
	} {
		if err := tr.global.SetTraceClock([]byte(c.write)); !errors.Is(err, errnos[c.errno]) {
			t.Errorf("%q: %v, want %s", c.write, err, c.errno)
		}
		if got := tr.global.TraceClock(); got != c.all {
			t.Errorf("%q: shows %q", c.write, got)
		}
		tr.counter.Store(0)
		tr.global.ClearTrace(-1)
		f.Hit(f.Symbol("vfs_write"), tracingtest.Entered(0, 11848786000, tracingtest.NewTask(94, "sh")))
		if got := traceLines(tr)[0]; !strings.Contains(got, " ....."+c.stamp+"b: (") {
			t.Errorf("%q: %q lacks %q", c.write, got, c.stamp)
		}
	}
}

func TestTracingOn(t *testing.T) {
	tr, f := newTestTracer(t)
	write(t, tr, "p:a vfs_read")
	enable(t, tr, "kprobes", "a", "1")
	for _, c := range []struct {
		write string
		errno error
		on    bool
	}{
		{"0\n", nil, false},
		{"1", nil, true},
		{"00", nil, false},
		{"5", nil, true},
		{"010\n", nil, true},
		{"+1", nil, true},
		{"-1", syscall.EINVAL, true},
		{" 1", syscall.EINVAL, true},
		{"x", syscall.EINVAL, true},
		{"1 2", syscall.EINVAL, true},
		{"", syscall.EINVAL, true},
		{"99999999999999999999", syscall.ERANGE, true},
		{"0", nil, false},
	} {
		if err := tr.global.SetOn([]byte(c.write)); !errors.Is(err, c.errno) || tr.global.On() != c.on {
			t.Errorf("%q: %v, on %v", c.write, err, tr.global.On())
		}
	}
	f.Hit(f.Symbol("vfs_read"), tracingtest.Entered(0, 1, tracingtest.NewTask(1, "init")))
	if got := traceText(tr); got != emptyTrace {
		t.Errorf("a hit while tracing is off was recorded:\n%s", got)
	}
	if got := tracingtest.Lines(tr.definitions.KprobeProfile)[0]; !strings.HasSuffix(got, "1               0\n") {
		t.Errorf("a hit while tracing is off was not counted: %q", got)
	}
}

func TestBufferSize(t *testing.T) {
	tr, _ := newTestTracer(t)
	check := func(after, size, total string) {
		t.Helper()
		if got := tr.global.BufferSizeKB(-1); got != size+"\n" {
			t.Errorf("after %q: %q, want %q", after, got, size)
		}
		if got := tr.global.BufferTotalSizeKB(); got != total+"\n" {
			t.Errorf("total after %q: %q, want %q", after, got, total)
		}
	}
	check("boot", "7 (expanded: 1408)", "14 (expanded: 2816)")
	if got := tr.global.BufferSizeKB(0); got != "7\n" {
		t.Errorf("boot: one vCPU has %q", got) // as on Linux
	}
	write(t, tr, "p:a vfs_read")
	check("a definition", "7 (expanded: 1408)", "14 (expanded: 2816)")
	enable(t, tr, "kprobes", "a", "1")
	check("enable", "1410", "2820")
	for _, c := range []struct {
		write       string
		errno       error
		size, total string
	}{
		{"100\n", nil, "103", "206"},
		{"0", syscall.EINVAL, "103", "206"},
		{"abc", syscall.EINVAL, "103", "206"},
		{"1", nil, "7", "14"},
		{"5 ", syscall.EINVAL, "7", "14"},
		{"+7", nil, "7", "14"},
		{"0x10", syscall.EINVAL, "7", "14"},
		{"4294967296", syscall.ENOMEM, "7", "14"},
	} {
		if err := tr.global.SetBufferSizeKB(-1, []byte(c.write)); !errors.Is(err, c.errno) {
			t.Errorf("%q: %v, want %v", c.write, err, c.errno)
		}
		check(c.write, c.size, c.total)
	}
}

func TestCurrentTracer(t *testing.T) {
	tr, _ := newTestTracer(t)
	for _, c := range []struct {
		write string
		errno error
	}{
		{"nop", nil}, {"nop \n", nil}, {" nop\n", nil}, {"\n", syscall.EINVAL}, {"bogus\n", syscall.EINVAL}, {"nop x", syscall.EINVAL},
	} {
		if err := tr.global.SetCurrentTracer([]byte(c.write)); !errors.Is(err, c.errno) {
			t.Errorf("%q: %v, want %v", c.write, err, c.errno)
		}
	}
}

// TestConcurrentHits: two vCPUs hit two events while files are read, events
// are enabled and disabled, defined and deleted.
func TestConcurrentHits(t *testing.T) {
	tr, f := newTestTracer(t)
	write(t, tr, "p:a vfs_read", "p:b vfs_write")
	enable(t, tr, "kprobes", "a", "1")
	const hits = 1000
	read, wrote := f.Symbol("vfs_read"), f.Symbol("vfs_write")
	var wg sync.WaitGroup
	for cpu := range 2 {
		wg.Go(func() {
			task := tracingtest.NewTask(int32(100+cpu), "load")
			for n := range hits {
				f.Hit(read, tracingtest.Entered(cpu, int64(n), task))
				f.Hit(wrote, tracingtest.Entered(cpu, int64(n), task))
			}
		})
	}
	wg.Go(func() {
		for n := range 20 {
			_ = tr.event("kprobes", "b").Enable([]byte{'0' + byte(n&1)})
			_, _ = tr.definitions.WriteKprobeEvents([]byte("p:g/c vfs_open\n-:g/c\n"))
			traceText(tr)
			tracingtest.Lines(tr.definitions.KprobeProfile)
			tr.global.AvailableEvents()
		}
	})
	wg.Wait()
	if got, _ := tr.definitions.KprobeProfile(0); !strings.Contains(got, fmt.Sprintf(" %d ", 2*hits)) {
		t.Errorf("profile %q, want %d hits", got, 2*hits)
	}
}

func BenchmarkHit(b *testing.B) { benchmarkHit(b, "p:a vfs_read", nil) }

func BenchmarkHitArgs(b *testing.B) { benchmarkHit(b, "p:a vfs_read %di:s32 %si $stack0 $comm", nil) }

// BenchmarkHitFiltered has a filter that passes and a histogram.
func BenchmarkHitFiltered(b *testing.B) {
	benchmarkHit(b, "p:a vfs_read n=%di:s32", func(e *EventFile) {
		if err := e.SetFilter([]byte("n >= 0 && CPU == 0")); err != nil {
			b.Fatal(err)
		}
		if err := e.WriteTrigger([]byte("hist:keys=n:vals=common_pid")); err != nil {
			b.Fatal(err)
		}
	})
}

func benchmarkHit(b *testing.B, definition string, prepare func(*EventFile)) {
	tr, f := newTestTracer(b)
	write(b, tr, definition)
	enable(b, tr, "kprobes", "a", "1")
	if prepare != nil {
		prepare(tr.event("kprobes", "a"))
	}
	trap := tracingtest.Entered(0, 0, tracingtest.NewTask(100, "load"))
	p := f.Probes[0]
	h := f.HitOf(p, trap)
	now := int64(0)
	trap.Now = func() int64 { now++; return now }
	b.ReportAllocs()
	for range b.N {
		p.PreHandler(h)
	}
}
