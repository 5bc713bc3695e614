package kernel

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/cpu"
	guestimage "github.com/kprobefs/kprobefs/kernel/guest"
	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kernel/mem"
)

// awaitStop waits until the machine has stopped.
func (m *testMachine) awaitStop() Stop {
	m.t.Helper()
	d := m.Debugger()
	var s Stop
	soon(m.t, "the machine stops", func() (ok bool) {
		s, ok = d.Stopped()
		return ok
	})
	return s
}

// eachMachine runs f with each engine, and with a deterministic machine.
func eachMachine(t *testing.T, f func(t *testing.T, m *testMachine)) {
	for name, o := range map[string]Options{
		"native":        {Engine: cpu.Auto},
		"interp":        {Engine: cpu.Interp},
		"deterministic": {Deterministic: true, Clock: NewVirtualClock(0)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o.Image, o.CPUs, o.Seed, o.Cmdline = guestimage.Image("6.1"), 2, 1, "quiet"
			m, err := Boot(o)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := m.Retire(); err != nil { // calls that were given up may not have ended
					t.Error(err)
				}
			})
			f(t, &testMachine{m, t})
		})
	}
}

// TestBreakpoint: each call of a function that has a breakpoint stops the machine before it, also when
// the function has been translated, and its text does not show it.
func TestBreakpoint(t *testing.T) {
	eachMachine(t, func(t *testing.T, m *testMachine) {
		d := m.Debugger()
		addr := m.symbol("int_sqrt")
		if n, err := m.CallOn(t.Context(), 1, addr, 1000, 144); n != 12 || err != nil {
			t.Fatal(n, err)
		}
		before := make([]byte, 16)
		if err := d.Read(addr, before); err != nil {
			t.Fatal(err)
		}
		d.Breakpoints("test", []uint64{addr})
		ended := m.begin(1, addr, 144)
		for i := range 3 {
			if i > 0 {
				ended = m.begin(1, addr, 144)
			}
			if s := m.awaitStop(); s != (Stop{CPU: 1, Why: StopBreakpoint, Addr: addr}) {
				t.Fatalf("%+v", s)
			}
			st, err := d.State(1)
			if err != nil || st.RIP != addr || st.R[7] != 144 {
				t.Fatalf("%#x %#x %v", st.RIP, st.R[7], err)
			}
			now := make([]byte, 16)
			if err := d.Read(addr, now); err != nil || string(now) != string(before) {
				t.Errorf("% x %v", now, err)
			}
			d.Continue()
			if err := within(t, "the call", ended); err != nil {
				t.Fatal(err)
			}
		}
		d.Breakpoints("test", nil)
		if n, err := m.CallOn(t.Context(), 1, addr, 1000, 144); n != 12 || err != nil {
			t.Fatal(n, err)
		}
	})
}

// TestDebuggerStep: single instructions of one vCPU compute what the function computes, and the others
// do not run meanwhile.
func TestDebuggerStep(t *testing.T) {
	eachMachine(t, func(t *testing.T, m *testMachine) {
		d := m.Debugger()
		addr := m.symbol("int_sqrt")
		if _, err := d.Step(1, false); !errors.Is(err, ErrRunning) {
			t.Errorf("a step of a machine that runs: %v", err)
		}
		d.Breakpoints("test", []uint64{addr})
		ended := m.begin(1, addr, 144)
		m.awaitStop()
		st, _ := d.State(1)
		sp, other := st.R[4], m.cpus[0].retired.Load()
		steps := 0
		for ; steps < 10000; steps++ {
			s, err := d.Step(1, false)
			if err != nil || s != (Stop{CPU: 1, Why: StopStepped}) {
				t.Fatal(s, err)
			}
			if st, err = d.State(1); err != nil {
				t.Fatal(err)
			}
			if st.R[4] == sp+8 {
				break
			}
		}
		if steps < 5 || st.R[0] != 12 || m.cpus[0].retired.Load() != other {
			t.Errorf("after %d steps the result is %d", steps, st.R[0])
		}
		if _, err := d.Step(7, false); err == nil {
			t.Error("a step of vCPU 7")
		}
		d.Continue()
		if err := within(t, "the call", ended); err != nil {
			t.Fatal(err)
		}
	})
}

// TestWatchpoint: an access to watched memory stops the machine after the instruction.
func TestWatchpoint(t *testing.T) {
	eachMachine(t, func(t *testing.T, m *testMachine) {
		d := m.Debugger()
		page := m.page()
		memset := m.symbol("memset")
		if _, err := m.CallOn(t.Context(), 1, memset, 100, page, 1, 64); err != nil {
			t.Fatal(err)
		}
		d.Watchpoints([]Watchpoint{{Addr: page + 200, Len: 8, Access: mem.Read}, {Addr: page + 100, Len: 4, Access: mem.Write}})
		if _, err := m.CallOn(t.Context(), 1, memset, 10, page, 1, 64); err != nil {
			t.Fatal(err)
		}
		ended := m.begin(1, memset, page+80, 7, 40)
		s := m.awaitStop()
		if s.CPU != 1 || s.Why != StopWatchpoint || s.Watch != 1 || s.Addr < page+100 || s.Addr > page+103 {
			t.Fatalf("%+v, the memory is %#x", s, page+100)
		}
		if v, err := m.mem.ReadU64(page + 96); err != nil || v>>32&0xff != 7 {
			t.Errorf("%#x %v: the instruction has not been completed", v, err)
		}
		d.Watchpoints(nil)
		d.Continue()
		if err := within(t, "the call", ended); err != nil {
			t.Fatal(err)
		}
	})
}

// TestCallsWait: calls wait while the machine is stopped, and those who wait can give up.
func TestCallsWait(t *testing.T) {
	eachMachine(t, func(t *testing.T, m *testMachine) {
		d := m.Debugger()
		d.Interrupt()
		retired := m.Retired()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		c := host.Caller{TID: unknownTID, PID: unknownTID, Comm: func() string { return "caller" }}
		if _, _, err := m.Host().Do(ctx, c, host.Call{Nr: 39}, nil); err == nil {
			t.Error("a call of a machine that is stopped has a result")
		}
		ended := m.begin(1, m.symbol("int_sqrt"), 144)
		select {
		case err := <-ended:
			t.Errorf("a call of a machine that is stopped has ended: %v", err)
		case <-time.After(20 * time.Millisecond):
		}
		if n := m.Retired(); n != retired {
			t.Errorf("%d instructions executed while stopped", n-retired)
		}
		changed := d.Changed()
		d.Continue()
		within(t, "a change", changed)
		if err := within(t, "the call", ended); err != nil {
			t.Error(err)
		}
		d.Interrupt() // and is closed
	})
}

// TestDebuggerUnderLoad: a machine whose vCPUs all work is stopped, stepped and continued at any point.
func TestDebuggerUnderLoad(t *testing.T) {
	eachMachine(t, func(t *testing.T, m *testMachine) {
		d := m.Debugger()
		addr := m.symbol("int_sqrt")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		for i := range 2 {
			go func() {
				for ctx.Err() == nil {
					if n, err := m.CallOn(context.Background(), i, addr, 100, 144); n != 12 || err != nil {
						ended <- errors.Join(errors.New("wrong result"), err)
						return
					}
				}
				ended <- nil
			}()
		}
		for i := range 200 {
			d.Interrupt()
			if _, stopped := d.Stopped(); !stopped {
				t.Fatal("not stopped")
			}
			for range i % 5 {
				if _, err := d.Step(i%2, i%3 == 0); err != nil {
					t.Fatal(err)
				}
			}
			if i%10 == 0 {
				d.Breakpoints("test", []uint64{addr})
				d.Continue()
				if s := m.awaitStop(); s.Why != StopBreakpoint {
					t.Fatalf("%+v", s)
				}
				d.Breakpoints("test", nil)
			}
			d.Continue()
			for _, stopped := d.Stopped(); stopped; _, stopped = d.Stopped() {
				d.Continue()
			}
		}
		cancel()
		for range 2 {
			if err := within(t, "the calls", ended); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestStopInHandler: a vCPU that is in a handler of the guest leaves it before it stops. What the handler waits
// for is done by the others meanwhile.
func TestStopInHandler(t *testing.T) {
	m := boot(t, 2)
	d := m.Debugger()
	page := m.page()
	// movb $1,(%rdi); 1: pause; cmpb $0,1(%rdi); je 1b; xor %eax,%eax; ret
	waits := m.slotCode(0xc6, 0x07, 1, 0xf3, 0x90, 0x80, 0x7f, 1, 0, 0x74, 0xf8, 0x31, 0xc0, 0xc3)
	// 1: pause; cmpb $0,2(%rdi); je 1b; movb $1,1(%rdi); ret
	frees := m.slotCode(0xf3, 0x90, 0x80, 0x7f, 2, 0, 0x74, 0xf8, 0xc6, 0x47, 1, 1, 0xc3)
	var handlerErr error
	at := m.hitting(func(tr *abi.Trap) { _, handlerErr = m.Handler(tr, waits, page, 0) })
	freed := m.begin(1, frees, page)
	hit := m.begin(0, at)
	soon(t, "the handler runs", func() bool {
		v, err := m.mem.ReadU64(page)
		return err == nil && v&1 != 0
	})
	var free sync.WaitGroup
	free.Go(func() {
		time.Sleep(2 * handlerPatience)
		_ = m.mem.WriteAt(page+2, []byte{1})
	})
	d.Interrupt()
	free.Wait()
	if s, stopped := d.Stopped(); !stopped || s.Why != StopRequested {
		t.Errorf("%+v", s)
	}
	retired := m.Retired()
	if v, err := m.mem.ReadU64(page); err != nil || v&0xffffff != 0x10101 || handlerErr != nil {
		t.Errorf("the handler has not ended: %#x, %v", v, handlerErr)
	}
	time.Sleep(5 * time.Millisecond)
	if now := m.Retired(); now != retired {
		t.Errorf("%d instructions after the stop", now-retired)
	}
	d.Continue()
	for _, c := range []<-chan error{freed, hit} {
		if err := within(t, "the call", c); err != nil {
			t.Error(err)
		}
	}
}

// TestBreakInHandler: a breakpoint in a handler of the guest has no effect during a hit.
func TestBreakInHandler(t *testing.T) {
	m := boot(t, 1)
	fn := m.slotCode(sumHandler...)
	calls := 0
	at := m.hitting(func(tr *abi.Trap) {
		if _, err := m.Handler(tr, fn, 30, 12); err == nil {
			calls++
		}
	})
	m.Debugger().Breakpoints("test", []uint64{fn, fn + 7})
	if v, err := m.CallOn(t.Context(), 0, at, 3); v != 42 || err != nil || calls != 3 {
		t.Errorf("%d, %v, %d calls", v, err, calls)
	}
	if _, stopped := m.Debugger().Stopped(); stopped {
		t.Error("the machine is stopped")
	}
}
