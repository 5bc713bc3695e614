package kernel

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/cpu"
	"github.com/kprobefs/kprobefs/kernel/host"
)

// Addresses in bareVCPU's memory that these tests use.
const (
	bareIDT     = abi.DirectMap
	bareHandler = abi.TextBase + 0x800
)

// withGates sets an interrupt table in which every handler is inc %rax; iretq on a
// bare vCPU, and enables its interrupts.
func withGates(t *testing.T, v *vcpu) {
	t.Helper()
	copy(v.m.mem.Phys(bareHandler-abi.TextBase, 5), []byte{0x48, 0xff, 0xc0, 0x48, 0xcf})
	for i := range uint64(256) {
		h := uint64(bareHandler)
		lo := h&0xffff | abi.KernelCS<<16 | 0x8e00<<32 | h>>16&0xffff<<48
		for off, w := range map[uint64]uint64{0: lo, 8: h >> 32} {
			if err := v.m.mem.WriteU64(bareIDT+16*i+off, w); err != nil {
				t.Fatal(err)
			}
		}
	}
	v.cpu.IDT = cpu.Table{Base: bareIDT, Limit: 256*16 - 1}
	v.cpu.RFlags |= abi.FlagIF
}

// TestBudget checks that an endless loop is left after the budget, with RIP in the loop.
func TestBudget(t *testing.T) {
	v := bareVCPU(t, 0xeb, 0xfe) // jmp .
	for i := range uint64(3) {
		v.step(1000)
		if got := v.retired.Load(); got < 1000*(i+1) || got > 1100*(i+1) || v.cpu.RIP != abi.TextBase {
			t.Errorf("after %d times 1000 instructions: %d are counted, at %#x", i+1, got, v.cpu.RIP)
		}
	}
	if v.inRun.Load() || v.idle.Load() {
		t.Error("the vCPU is still in guest code, or idle")
	}
}

// TestTakeIRQ checks that pending interrupts are taken in order of their vectors, the
// highest first, each once, however often it was raised.
func TestTakeIRQ(t *testing.T) {
	v := bareVCPU(t)
	raised := []uint8{32, 63, 64, 127, 128, 191, 192, 255, 33, 200}
	for _, vec := range append(raised, raised...) {
		v.raise(vec)
	}
	var got []uint8
	for v.pending() {
		vec, ok := v.takeIRQ()
		if !ok {
			t.Fatal("pending returns true without a pending interrupt")
		}
		got = append(got, vec)
	}
	slices.Sort(raised)
	slices.Reverse(raised)
	if !slices.Equal(got, raised) {
		t.Errorf("%d, want %d", got, raised)
	}
	if _, ok := v.takeIRQ(); ok {
		t.Error("one more than was raised")
	}
}

// TestHalt checks that an interrupt wakes a halted vCPU, which takes it and continues
// after the hlt. With interrupts off the halt is final, and interrupts are dropped.
func TestHalt(t *testing.T) {
	for _, c := range []struct {
		name  string
		on    bool
		wakes bool
	}{{"interrupts on", true, true}, {"interrupts off", false, false}} {
		t.Run(c.name, func(t *testing.T) {
			v := bareVCPU(t, 0xf4, 0xf4, 0xeb, 0xfd) // hlt; hlt; jmp to the second
			withGates(t, v)
			if !c.on {
				v.cpu.RFlags &^= abi.FlagIF
			}
			v.step(1000)
			if !v.halted() || !v.resting() || v.quiet.Load() != 1 || v.cpu.RIP != abi.TextBase+1 {
				t.Fatalf("after hlt: halted %v, %d quiescent states, at %#x", v.halted(), v.quiet.Load(), v.cpu.RIP)
			}
			v.raise(100)
			if v.resting() || v.halted() {
				t.Fatal("it still rests with an interrupt pending")
			}
			for range 3 {
				v.step(1000)
			}
			if woke := v.cpu.R[rax] == 1; woke != c.wakes || v.pending() || !v.halted() || v.cpu.RIP != abi.TextBase+2 {
				t.Errorf("the handler ran: %v, pending: %v, halted: %v, at %#x", woke, v.pending(), v.halted(), v.cpu.RIP)
			}
		})
	}
}

// TestInterruptWindow checks that an interrupt waits while the guest has interrupts
// off, and for one instruction after sti, and is then taken before the budget ends.
func TestInterruptWindow(t *testing.T) {
	v := bareVCPU(t, 0xff, 0xc9, 0x75, 0xfc, 0xfb, 0xff, 0xc2, 0xeb, 0xfc) // 1: dec %ecx; jnz 1b; sti; 2: inc %edx; jmp 2b
	withGates(t, v)
	v.cpu.RFlags &^= abi.FlagIF
	v.cpu.R[1] = 5000
	v.raise(200)
	v.step(1000)
	if !v.pending() || v.cpu.R[rax] != 0 {
		t.Fatal("an interrupt was taken while they were off")
	}
	for range 100 {
		if v.step(1 << 20); v.cpu.RFlags&abi.FlagIF != 0 {
			break
		}
	}
	v.step(1)
	if v.pending() || v.cpu.R[rdx] != 1 {
		t.Errorf("pending %v, at %#x, %d instructions after sti", v.pending(), v.cpu.RIP, v.cpu.R[rdx])
	}
	if got := v.retired.Load(); got > 50000 {
		t.Errorf("it came after %d instructions", got)
	}
}

// TestRaiseEndsRun checks that raise ends a run with an unlimited budget.
func TestRaiseEndsRun(t *testing.T) {
	v := bareVCPU(t, 0xeb, 0xfe)
	withGates(t, v)
	for i := range uint64(20) {
		done := make(chan struct{})
		go func() {
			for !v.inRun.Load() {
				time.Sleep(10 * time.Microsecond)
			}
			v.raise(uint8(100 + i))
			close(done)
		}()
		v.step(1 << 62)
		<-done
		v.step(1000)
		if v.cpu.R[rax] != i+1 {
			t.Fatalf("after %d interrupts the handler has run %d times", i+1, v.cpu.R[rax])
		}
	}
}

// TestTimer checks that the time set last counts, and that a past time fires at once.
func TestTimer(t *testing.T) {
	v := bareVCPU(t)
	clock := NewVirtualClock(0)
	v.m.clock = clock
	fires := func(at int64) bool {
		clock.Advance(time.Duration(at - clock.Now()))
		for end := time.Now().Add(5 * time.Millisecond); time.Now().Before(end) && !v.pending(); {
			time.Sleep(time.Millisecond)
		}
		vec, ok := v.takeIRQ()
		return ok && vec == abi.VecTimer
	}
	v.setTimer(100)
	v.setTimer(200)
	if fires(150) || !fires(200) || fires(300) {
		t.Error("a timer that is set again must fire once, at its last time")
	}
	for _, never := range []uint64{0, 1<<62 + 1, ^uint64(0)} {
		v.setTimer(400)
		v.setTimer(never)
		if fires(500) {
			t.Errorf("a timer that is set to %#x fires", never)
		}
		clock = NewVirtualClock(0)
		v.m.clock = clock
	}
	clock.Advance(1000)
	v.setTimer(10)
	if !fires(1000) {
		t.Error("a timer for a time that has passed does not fire")
	}
	v.m.closing.Store(true)
	v.setTimer(10)
	if fires(2000) {
		t.Error("a machine that closes sets timers")
	}
}

// spinCode increments the word at rdi until the word at rsi is not 0, with interrupts
// off if the third argument is not 0.
var spinCode = []byte{
	0x48, 0x85, 0xd2, // test %rdx,%rdx
	0x74, 0x01, // je 1f
	0xfa,             // cli
	0x48, 0xff, 0x07, // 1: incq (%rdi)
	0x48, 0x83, 0x3e, 0x00, // cmpq $0,(%rsi)
	0x74, 0xf7, // je 1b
	0xfb, // sti
	0xc3,
}

// spinning makes each vCPU spin, and returns the words in guest memory that they
// increment; end stops the loops and waits for them.
func (m *testMachine) spinning(irqsOff uint64) (counters []uint64, end func()) {
	m.t.Helper()
	page, code := m.page(), m.coreCode(spinCode...)
	words := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(m.mem.Phys(page-abi.DirectMap, abi.PageSize)))), abi.PageSize/8)
	counters, flag := words[:len(m.cpus)], &words[100]
	var ends []<-chan error
	for i := range counters {
		ends = append(ends, m.begin(i, code, page+8*uint64(i), page+800, irqsOff))
		soon(m.t, "the vCPU spins", func() bool { return m.counter(counters, i) > 0 })
	}
	return counters, func() {
		m.StopMachine(func() { *flag = 1 })
		for _, c := range ends {
			if err := within(m.t, "the end of spinning", c); err != nil {
				m.t.Error(err)
			}
		}
	}
}

// counter reads one of the words from spinning.
func (m *testMachine) counter(counters []uint64, i int) (n uint64) {
	m.StopMachine(func() { n = counters[i] })
	return n
}

// TestStopMachine checks that no vCPU executes guest code while StopMachine's function
// runs, wherever it was before, and that all continue after it. Concurrent calls take turns.
func TestStopMachine(t *testing.T) {
	for name, off := range map[string]uint64{"interrupts on": 0, "interrupts off": 1} {
		t.Run(name, func(t *testing.T) {
			m := boot(t, 2)
			counters, end := m.spinning(off)
			var inside, most atomic.Int32
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for range 25 {
						m.StopMachine(func() {
							most.Store(max(most.Load(), inside.Add(1)))
							was := slices.Clone(counters)
							time.Sleep(200 * time.Microsecond)
							if !slices.Equal(counters, was) {
								t.Errorf("instructions were executed: the counters are %d, and were %d", counters, was)
							}
							inside.Add(-1)
						})
					}
				})
			}
			wg.Wait()
			if most.Load() != 1 {
				t.Errorf("%d functions ran at once", most.Load())
			}
			for i := range counters {
				was := m.counter(counters, i)
				soon(t, "the vCPU goes on", func() bool { return m.counter(counters, i) > was })
			}
			end()
		})
	}
}

// TestStopMachineWaitsForNoGo checks that slow Go code between a vCPU's exit and entry
// does not delay StopMachine.
func TestStopMachineWaitsForNoGo(t *testing.T) {
	m := boot(t, 2)
	stopped := false
	m.onVCPU(1, func(*vcpu) {
		done := make(chan struct{})
		go func() {
			m.StopMachine(func() { stopped = true })
			close(done)
		}()
		within(t, "StopMachine", done)
	})
	if !stopped {
		t.Error("its function has not run")
	}
	if v, err := m.CallOn(context.Background(), 1, m.symbol("int_pow"), 1, 3, 4); v != 81 || err != nil {
		t.Errorf("int_pow after it: %d, %v", v, err)
	}
}

// TestTripleFault checks that an exception without a usable gate ends the machine with
// a message, and not the program.
func TestTripleFault(t *testing.T) {
	for name, spoil := range map[string]func(*vcpu){
		"no table":      func(v *vcpu) { v.cpu.IDT.Limit = 0 },
		"a table at 0":  func(v *vcpu) { v.cpu.IDT.Base = 0 },
		"no stack":      func(v *vcpu) { v.cpu.R[rsp] = 1 << 63 },
		"stack in text": func(v *vcpu) { v.cpu.R[rsp] = abi.TextBase + 4096 },
	} {
		t.Run(name, func(t *testing.T) {
			m := boot(t, 2)
			err := m.tryOnVCPU(0, func(v *vcpu) {
				spoil(v)
				v.deliver(abi.VecGP, true, 0)
			})
			if !errors.Is(err, host.ErrStopped) {
				t.Errorf("the call ends with %v", err)
			}
			within(t, "the panic", m.Died())
			if !strings.Contains(m.Panic(), "vector 13 cannot be delivered") {
				t.Errorf("it is %q", m.Panic())
			}
			if _, err := m.Call(context.Background(), "int_pow", 2, 3); !errors.Is(err, host.ErrStopped) {
				t.Errorf("a call after it: %v", err)
			}
		})
	}
}

// TestCloseEndsAll checks that Close ends every goroutine of the machine, whatever its
// vCPUs and callers do, and that callers get an error.
func TestCloseEndsAll(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(m *testMachine) []<-chan error // starts the calls that are in progress
	}{
		{"idle", func(*testMachine) []<-chan error { return nil }},
		{"spinning", func(m *testMachine) []<-chan error { return m.spinForever(0) }},
		{"spinning with interrupts off", func(m *testMachine) []<-chan error { return m.spinForever(1) }},
		{"asleep in the guest", func(m *testMachine) []<-chan error {
			return []<-chan error{m.begin(0, m.symbol("msleep"), 1_000_000), m.begin(1, m.symbol("msleep"), 1_000_000)}
		}},
		{"waiting for a stop of the machine", func(m *testMachine) []<-chan error {
			ends := m.spinForever(0)
			closing := make(chan struct{})
			go m.StopMachine(func() {
				close(closing)
				for !m.closing.Load() {
					time.Sleep(time.Millisecond)
				}
			})
			<-closing
			return ends
		}},
		{"waiting for a grace period", func(m *testMachine) []<-chan error {
			ends := m.spinForever(1)
			synced := make(chan error, 1)
			go func() { m.SynchronizeRCU(); synced <- host.ErrStopped }()
			return append(ends, synced)
		}},
		{"a panic", func(m *testMachine) []<-chan error {
			asleep, died := m.begin(0, m.symbol("msleep"), 1_000_000), make(chan error, 1)
			died <- m.tryOnVCPU(1, func(v *vcpu) { v.die("for a test") })
			return []<-chan error{asleep, died}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			soon(t, "no machine is left of other tests", func() bool { return machineGoroutines() == 0 })
			m := boot(t, 2)
			if machineGoroutines() == 0 {
				t.Fatal("a machine that runs has no goroutines: they are not counted rightly")
			}
			ends := c.do(m)
			closed := make(chan error, 1)
			go func() { closed <- m.Close() }()
			if err := within(t, "Close", closed); err != nil {
				t.Error(err)
			}
			for i, e := range ends {
				if err := within(t, "what was under way", e); !errors.Is(err, host.ErrStopped) {
					t.Errorf("pending call %d ends with %v", i, err)
				}
			}
			soon(t, "all goroutines end", func() bool { return machineGoroutines() == 0 })
			if err := m.Close(); err != nil {
				t.Errorf("a second Close: %v", err)
			}
		})
	}
}

// spinForever makes each vCPU execute an endless loop.
func (m *testMachine) spinForever(irqsOff uint64) (ends []<-chan error) {
	m.t.Helper()
	page, code := m.page(), m.coreCode(spinCode...)
	for i := range m.cpus {
		at := page + uint64(i)*64
		ends = append(ends, m.begin(i, code, at, page+2048, irqsOff))
		soon(m.t, "the vCPU spins", func() bool {
			var n byte
			m.StopMachine(func() { n = m.mem.Phys(at-abi.DirectMap, 8)[0] })
			return n != 0
		})
	}
	return ends
}
