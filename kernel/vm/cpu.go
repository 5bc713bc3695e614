package vm

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/cpu"
)

// vcpu executes one call at a time.
type vcpu struct {
	vm    *VM
	id    int
	cpu   *cpu.CPU
	fresh cpu.State     // with which each call begins
	turn  chan struct{} // holds an element while no call uses the vCPU
	trap  abi.Trap
	regs  abi.Regs
	mem   hitMemory
	first uint64 // of the hit in hand: the trampoline with which stack traces begin, or 0

	calling bool   // in a call. It and calls change under gate, held to read, and are read with it held to write
	calls   uint64 // that have ended
}

// Numbers of registers in cpu.State.R.
const (
	rax = 0
	rdi = 7
	rsi = 6
	rdx = 2
	rcx = 1
	rsp = 4
	rbp = 5
	r8  = 8
	r9  = 9
)

func (m *VM) makeCPUs(n int, engine cpu.Engine) error {
	m.cache = cpu.NewCache(m.mem, engine)
	for i := range n {
		c, err := cpu.New(m.mem, i, m.cache)
		if err != nil {
			return err
		}
		v := &vcpu{vm: m, id: i, cpu: c, turn: make(chan struct{}, 1)}
		v.turn <- struct{}{}
		v.mem = hitMemory{m.mem, c, m.tasks}
		c.GSBase = percpuBase + uint64(i)*spacing
		v.fresh = c.State
		v.trap = abi.Trap{CPU: i, Mem: &v.mem, Now: m.now, AddPreempt: v.addPreempt}
		c.SetHook(v)
		m.cpus = append(m.cpus, v)
	}
	return nil
}

// Call is a call of a function.
type Call struct {
	CPU      int
	Task     uint64 // the task that makes it, whose memory Options.Tasks has; 0 means none
	Function uint64 // its address
	Args     []Arg
	Limit    uint64 // how many instructions it may execute; 0 means DefaultLimit
}

// Arg is an argument: a number, or a buffer that lies in memory and whose address is passed.
type Arg struct {
	Value  uint64
	Buffer []byte // nil means Value
}

// Result is what a call has returned.
type Result struct {
	AX      uint64
	Buffers [][]byte // the contents of the buffers, by the numbers of the arguments; nil for numbers
	Addrs   []uint64 // where they were
	Retired uint64   // instructions
}

// DefaultLimit is how many instructions a call may execute: some seconds.
const DefaultLimit = 1 << 32

const maxArgs = 12

// registers are the first arguments'.
var registers = [...]int{rdi, rsi, rdx, rcx, r8, r9}

// slice is how many instructions a vCPU executes before it lets others write text.
const slice = 1 << 18

// Call calls a function. It fails with an *Oops if the function does what ends a task on Linux, or
// waits; with ETIME if it does not return within its limit; with EINTR when ctx ends; and with
// EINVAL and E2BIG for arguments that it cannot have.
func (m *VM) Call(ctx context.Context, c Call) (Result, error) {
	if c.CPU < 0 || c.CPU >= len(m.cpus) || len(c.Args) > maxArgs {
		return Result{}, fmt.Errorf("a call with %d arguments on vCPU %d: %w", len(c.Args), c.CPU, syscall.EINVAL)
	}
	v := m.cpus[c.CPU]
	select {
	case <-v.turn:
	case <-ctx.Done():
		return Result{}, syscall.EINTR
	}
	defer func() { v.turn <- struct{}{} }()
	stop := context.AfterFunc(ctx, v.cpu.Kick)
	defer stop()
	return v.call(ctx, c)
}

func (v *vcpu) call(ctx context.Context, c Call) (r Result, err error) {
	v.vm.gate.RLock()
	defer v.vm.gate.RUnlock()
	v.calling = true
	defer func() { v.calling, v.calls = false, v.calls+1 }()
	tsc := v.cpu.TSC
	v.cpu.State = v.fresh
	v.cpu.TSC = tsc
	v.trap.Task = c.Task
	if r.Addrs, err = v.pass(c.Args); err != nil {
		return r, err
	}
	v.cpu.GoOn(c.Function, abi.FlagIF)
	if r.Retired, err = v.run(ctx, c.Limit); err != nil {
		return r, err
	}
	r.AX = v.cpu.R[rax]
	for i, a := range c.Args {
		var b []byte
		if a.Buffer != nil {
			b = make([]byte, len(a.Buffer))
			if err := v.vm.mem.ReadAt(r.Addrs[i], b); err != nil {
				return r, err
			}
		}
		r.Buffers = append(r.Buffers, b)
	}
	return r, nil
}

// apart is the least distance of two buffers in bytes, of which those after a buffer are zero.
const apart = 64

// pass puts the arguments into registers, and those that have none on the stack.
func (v *vcpu) pass(args []Arg) (addrs []uint64, err error) {
	at := arenaBase + uint64(v.id)*spacing + apart
	end := arenaBase + uint64(v.id)*spacing + arenaSize
	values := make([]uint64, len(args))
	addrs = make([]uint64, len(args))
	for i, a := range args {
		values[i] = a.Value
		if a.Buffer == nil {
			continue
		}
		room := (uint64(len(a.Buffer)) + 2*apart - 1) &^ (apart - 1)
		if uint64(len(a.Buffer)) > arenaSize || room > end-at {
			return nil, fmt.Errorf("the buffers have more than %d bytes: %w", arenaSize, syscall.E2BIG)
		}
		if err := v.vm.mem.WriteAt(at, append(slices.Clone(a.Buffer), make([]byte, room-uint64(len(a.Buffer)))...)); err != nil {
			return nil, err
		}
		values[i], addrs[i] = at, at
		at += room
	}
	for i := range min(len(values), len(registers)) {
		v.cpu.R[registers[i]] = values[i]
	}
	sp := stackBase + uint64(v.id)*spacing + 2*abi.ThreadSize - apart
	onStack := values[min(len(values), len(registers)):]
	sp -= 8 * uint64((len(onStack)+1)&^1) // the stack pointer is a multiple of 16 at a call
	for i, x := range onStack {
		if err := v.vm.mem.WriteU64(sp+8*uint64(i), x); err != nil {
			return nil, err
		}
	}
	sp -= 8
	v.cpu.R[rsp] = sp
	return addrs, v.vm.mem.WriteU64(sp, v.vm.end)
}

// run executes until the function has returned. It holds the gate, and leaves it between slices.
func (v *vcpu) run(ctx context.Context, limit uint64) (retired uint64, err error) {
	if limit == 0 {
		limit = DefaultLimit
	}
	for {
		exit, n := v.cpu.Run(slice)
		retired += n
		if exit.Reason == cpu.Halt && v.cpu.RIP == v.vm.end+hltLen {
			return retired, nil
		}
		if err := v.handle(exit); err != nil {
			return retired, err
		}
		switch {
		case retired >= limit:
			return retired, fmt.Errorf("it has not returned after %d instructions, and is at %s: %w", retired, v.vm.placeOf(v.cpu.RIP), syscall.ETIME)
		case ctx.Err() != nil:
			return retired, syscall.EINTR
		}
		v.vm.gate.RUnlock()
		v.vm.gate.RLock()
	}
}

// handle acts on an exit that is not the end.
func (v *vcpu) handle(e cpu.Exit) error {
	switch e.Reason {
	case cpu.Budget, cpu.Kick, cpu.IRQWindow:
	case cpu.Pause:
		runtime.Gosched()
	case cpu.Trap:
		return v.onTrap(e)
	case cpu.Halt:
		return v.oops(cpu.Exit{}, "it waits for an interrupt")
	case cpu.Hypercall:
		return v.oops(cpu.Exit{}, "it calls a hypervisor")
	default:
		return v.oops(cpu.Exit{}, "it stops")
	}
	return nil
}

// quiescent reports whether no handler and no copy of an instruction is being executed. The caller
// holds the gate to write.
func (v *vcpu) quiescent() bool {
	return !v.calling || v.cpu.RFlags&abi.FlagIF != 0 && v.cpu.RIP < abi.SlotsBase
}

// Retired returns the number of instructions that all vCPUs have executed.
func (m *VM) Retired() (n uint64) {
	m.gate.Lock()
	defer m.gate.Unlock()
	for _, v := range m.cpus {
		n += v.cpu.TSC
	}
	return n
}
