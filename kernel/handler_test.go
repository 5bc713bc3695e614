package kernel

import (
	"context"
	"encoding/binary"
	"errors"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host"
)

// axOff and diOff are the offsets of ax and di in pt_regs.
const (
	axOff = 80
	diOff = 112
)

// hitCode is a function with an int3 that then returns rax.
var hitCode = []byte{0xcc, 0xc3}

// sumHandler sets regs->ax to the sum of its first and third argument, and returns
// regs->di. It clobbers all other registers.
var sumHandler = []byte{
	0x48, 0x01, 0xd7, // add %rdx,%rdi
	0x48, 0x89, 0x7e, axOff, // mov %rdi,ax(%rsi)
	0x48, 0x8b, 0x46, diOff, // mov di(%rsi),%rax
	0x31, 0xdb, 0x31, 0xc9, 0x31, 0xd2, 0x31, 0xed, 0x31, 0xff, 0x31, 0xf6, // xor of rbx, rcx, rdx, rbp, rdi, rsi
	0x4d, 0x31, 0xe4, 0x4d, 0x31, 0xed, 0x4d, 0x31, 0xf6, 0x4d, 0x31, 0xff, // and r12 to r15
	0xfc, 0xf9, // cld; stc
	0xc3,
}

// callers are the Handlers.CallerNames of these tests.
var callers = [abi.Callers]string{"aggr_pre_handler"}

// hitting has f called at each hit of the int3 in hitCode, and returns hitCode's
// address.
func (m *testMachine) hitting(f func(tr *abi.Trap)) uint64 {
	m.t.Helper()
	at := m.coreCode(hitCode...)
	m.SetHandlers(Handlers{CallerNames: callers, Int3: func(tr *abi.Trap) bool {
		if tr.Regs.IP != at+1 {
			return false
		}
		f(tr)
		return true
	}})
	return at
}

// TestHandlerCall: a handler in the guest gets its arguments and the registers of the
// hit and may change these. Its other changes to registers are undone.
func TestHandlerCall(t *testing.T) {
	m := boot(t, 2)
	fn := m.slotCode(sumHandler...)
	var ret uint64
	var err error
	var before, after, place abi.Regs
	at := m.hitting(func(tr *abi.Trap) {
		tr.Regs.AX = 1
		before, place = *tr.Regs, *tr.Regs
		trap := *tr
		ret, err = m.Handler(tr, fn, 30, 12)
		after = *tr.Regs
		if now := *tr; now.Task != trap.Task || now.Vector != trap.Vector || now.Preempt != trap.Preempt || now.CPU != trap.CPU || now.RegsAddr != 0 {
			t.Errorf("the trap is %+v, and was %+v", now, trap)
		}
	})
	for cpu := range 2 {
		v, callErr := m.CallOn(context.Background(), cpu, at, 3, 0x77)
		if v != 42 || callErr != nil || ret != 0x77 || err != nil {
			t.Errorf("vCPU %d: the hit function gives %d, %v; the handler %#x, %v", cpu, v, callErr, ret, err)
		}
		place.AX = 42
		if after != place {
			t.Errorf("the registers are\n%+v, and were\n%+v", after, before)
		}
	}
}

// TestHandlerNested: a hit inside a handler has its own registers, and does not
// change the first hit's.
func TestHandlerNested(t *testing.T) {
	m := boot(t, 1)
	inner := m.slotCode(sumHandler...)
	outer := m.slotCode(0xcc, 0xc3) // int3 without single-stepping: Stepped is not set
	depth, deepest := 0, 0
	at := m.coreCode(hitCode...)
	m.SetHandlers(Handlers{CallerNames: callers, Int3: func(tr *abi.Trap) bool {
		depth++
		defer func() { depth-- }()
		deepest = max(deepest, depth)
		was := *tr.Regs
		switch tr.Regs.IP {
		case at + 1:
			if ret, err := m.Handler(tr, outer, 1, 2); ret != 9 || err != nil {
				t.Errorf("the handler that is hit gives %d, %v", ret, err)
			}
			tr.Regs.AX = 5
		case outer + 1:
			if ret, err := m.Handler(tr, inner, 3, 4); ret != 1 || err != nil || tr.Regs.AX != 7 {
				t.Errorf("the one inside gives %d, %v, ax %d", ret, err, tr.Regs.AX)
			}
			tr.Regs.AX = 9
		default:
			return false
		}
		was.AX = tr.Regs.AX
		if *tr.Regs != was {
			t.Errorf("the registers are\n%+v, and were\n%+v", *tr.Regs, was)
		}
		return true
	}})
	if v, err := m.CallOn(context.Background(), 0, at, 1); v != 5 || err != nil || deepest != 2 {
		t.Errorf("%d, %v, %d hits in each other", v, err, deepest)
	}
}

// TestHandlerNoStack: if the stack has no space for the handler's frame, the call
// fails and the vCPU is unchanged.
func TestHandlerNoStack(t *testing.T) {
	m := boot(t, 1)
	fn := m.slotCode(sumHandler...)
	bad := append([]uint64{abi.TextBase + 4096}, unmapped...)
	failed := 0
	at := m.hitting(func(tr *abi.Trap) {
		v := m.cpus[tr.CPU]
		was := *tr.Regs
		for _, sp := range bad {
			v.cpu.R[rsp] = sp
			state := v.cpu.State
			if _, err := m.Handler(tr, fn, 1, 2); errors.Is(err, syscall.EFAULT) {
				failed++
			} else {
				t.Errorf("a stack at %#x: %v", sp, err)
			}
			if v.cpu.State != state || *tr.Regs != was {
				t.Errorf("a stack at %#x: the vCPU has changed", sp)
			}
		}
		v.cpu.R[rsp] = was.SP
		tr.Regs.AX = 8
	})
	if v, err := m.CallOn(context.Background(), 0, at, 1); v != 8 || err != nil || failed != len(bad) {
		t.Errorf("%d, %v; %d of %d calls failed", v, err, failed, len(bad))
	}
}

// TestHandlerStops: while a handler runs for long, the machine can be stopped, grace
// periods do not end, and interrupts are taken only after it.
func TestHandlerStops(t *testing.T) {
	m := boot(t, 2)
	page := m.page()
	ram := m.mem.Phys(page-abi.DirectMap, abi.PageSize)
	fn := m.slotCode( // the pause makes its budget last for seconds
		0x48, 0x8d, 0xb7, 0x00, 0x08, 0x00, 0x00, // lea 2048(%rdi),%rsi
		0x48, 0xff, 0x07, // 1: incq (%rdi)
		0xf3, 0x90, // pause
		0x48, 0x83, 0x3e, 0x00, // cmpq $0,(%rsi)
		0x74, 0xf5, // je 1b
		0xfb, // sti: interrupts stay off nevertheless
		0xc3,
	)
	var handled error
	var taken, takenAfter atomic.Uint64
	at := m.hitting(func(tr *abi.Trap) {
		v := m.cpus[tr.CPU]
		taken.Store(v.irqsTaken)
		_, handled = m.Handler(tr, fn, page, 0)
		takenAfter.Store(v.irqsTaken)
	})
	ended := m.begin(1, at)
	count := func() (n uint64) {
		m.StopMachine(func() { n = binary.LittleEndian.Uint64(ram) })
		return n
	}
	soon(t, "the handler runs", func() bool { return count() > 0 })
	was := count()
	soon(t, "the handler goes on", func() bool { return count() > was })
	rcu := background(m.SynchronizeRCU)
	m.cpus[1].raise(abi.VecReschedule)
	holds(t, "SynchronizeRCU", rcu)
	m.StopMachine(func() { ram[2048] = 1 })
	if err := within(t, "the hit function", ended); err != nil || handled != nil {
		t.Errorf("%v, the handler %v", err, handled)
	}
	within(t, "SynchronizeRCU", rcu)
	if taken.Load() != takenAfter.Load() {
		t.Errorf("%d interrupts were taken inside the handler", takenAfter.Load()-taken.Load())
	}
	soon(t, "the interrupt is taken", func() bool { return !m.cpus[1].pending() })
}

// TestHandlerClose: Close ends a handler that does not return.
func TestHandlerClose(t *testing.T) {
	m := boot(t, 2)
	page := m.page()
	ram := m.mem.Phys(page-abi.DirectMap, abi.PageSize)
	fn := m.slotCode(0x48, 0xff, 0x07, 0xf3, 0x90, 0xeb, 0xf9) // 1: incq (%rdi); pause; jmp 1b
	handled := make(chan error, 1)
	at := m.hitting(func(tr *abi.Trap) {
		_, err := m.Handler(tr, fn, page, 0)
		handled <- err
	})
	ended := m.begin(1, at)
	soon(t, "the handler runs", func() (runs bool) {
		m.StopMachine(func() { runs = binary.LittleEndian.Uint64(ram) > 0 })
		return runs
	})
	closed := make(chan error, 1)
	go func() { closed <- m.Close() }()
	if err := within(t, "Close", closed); err != nil {
		t.Error(err)
	}
	if err := within(t, "the handler", handled); err != nil {
		t.Errorf("the handler ends with %v: not by Close", err)
	}
	if err := within(t, "the hit function", ended); !errors.Is(err, host.ErrStopped) {
		t.Errorf("it ends with %v", err)
	}
}

// TestSleeperIsLate: a task that comes to its handler's end before the hit has ended on another
// vCPU waits there, and goes on behind the hit then.
func TestSleeperIsLate(t *testing.T) {
	m := boot(t, 1)
	m.SetHandlers(Handlers{CallerNames: callers})
	v := m.cpus[0]
	v.own.Lock()
	defer v.own.Unlock()
	state := v.cpu.State
	defer func() { v.cpu.State = state }()
	s := &sleeper{task: v.currentTask(), back: m.handlers.Load().returns[0] + 1, sp: v.cpu.R[rsp], ax: 7}
	v.cpu.Suspend(&s.was)
	v.cpu.RIP = s.back
	if !v.awake() || v.cpu.RIP != s.back-1 {
		t.Errorf("without its hit's end the vCPU is at %#x, and not before %#x", v.cpu.RIP, s.back)
	}
	v.cpu.RIP = s.back
	m.sleepers.add(s)
	if !v.awake() || v.cpu.RIP != state.RIP || v.cpu.R[rax] != 7 {
		t.Errorf("the vCPU is at %#x with rax %#x, and not at %#x with 7", v.cpu.RIP, v.cpu.R[rax], state.RIP)
	}
	v.cpu.RIP = state.RIP
	if v.awake() {
		t.Error("another place is taken for a handler's end")
	}
}
