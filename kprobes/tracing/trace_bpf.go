package tracing

import (
	"encoding/binary"
	"fmt"
	"slices"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes"
	"github.com/kprobefs/kprobefs/kprobes/tracing/bpf"
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
	"github.com/kprobefs/kprobefs/kprobes/tracing/ftracer"
)

// The event by which bpf_trace_printk writes into the trace. It has no tracepoint in the guest: programs are
// not guest code.
const (
	bpfGroup = "bpf_trace"
	bpfPrint = "bpf_trace_printk"
)

// bpfEvent is that event.
type bpfEvent struct{ *staticEvent }

func (bpfEvent) enable() error { return nil }
func (bpfEvent) disable()      {}

// printBPF writes a program's text: the event bpf_trace:bpf_trace_printk. A program that does not run in a hit of the
// guest writes nothing. It runs in handler context.
func (t *Tracer) printBPF(trap *abi.Trap, text string) {
	e := t.bpfEvent
	if e == nil || trap.Task == 0 {
		return
	}
	en := e.begin(trap)
	if en == nil {
		return
	}
	const at = field.HeaderSize
	field.PutDataLoc(en.Buf[at:], at+4, len(text)+1)
	en.N = at + 4
	en.N += copy(en.Buf[en.N:], text)
	en.Buf[en.N] = 0
	en.N++
	e.commit(trap, en)
}

// wantBPFPrint is bpf_get_trace_printk_proto: a program that prints switches the event on.
func (t *Tracer) wantBPFPrint() {
	if t.bpfEvent == nil {
		return
	}
	f := t.global.findFile(bpfGroup, bpfPrint, false)
	if f == nil {
		return
	}
	if err := f.Enable([]byte("1")); err != nil {
		t.conf.Machine.Printk(4, "could not enable bpf_trace_printk events\n")
	}
}

// newBPFEvent makes the event.
func (t *Tracer) newBPFEvent(ev *staticEvent) {
	t.bpfEvent = t.newEvent(ev.group, ev.name, ev.id, bpfEvent{ev})
	ev.Event = t.bpfEvent
}

// programProbes attaches programs to functions and tracepoints.
type programProbes struct{ tracer *Tracer }

var _ bpf.Probes = programProbes{}

// Function implements bpf.Probes.
func (p programProbes) Function(name string) uint64 {
	if all := p.tracer.conf.Symbols.LookupName(name); len(all) > 0 {
		return all[0].Addr
	}
	return 0
}

// Site implements bpf.Probes: ftrace_location. A function may begin with endbr64.
func (p programProbes) Site(addr uint64) (site uint64, ok bool) {
	if p.tracer.conf.Functions == nil {
		return 0, false
	}
	const endbr = 4
	all := p.tracer.conf.Functions.All()
	n, _ := slices.BinarySearch(all, addr)
	if n == len(all) || all[n] > addr+endbr {
		return 0, false
	}
	return all[n], true
}

// maxCalls is how many calls that have not returned a listener to returns can have. Linux has no such limit.
const maxCalls = 4096

// Listen implements bpf.Probes. A listener to returns keeps the site and the arguments from its entry.
func (p programProbes) Listen(sites []uint64, at bpf.Moment, hit func(h *bpf.Hit, args *bpf.Args)) (detach func(), err error) {
	t := p.tracer
	entered := func(trap *abi.Trap) {
		h, args := t.newProgramHit(trap), bpf.Args{}
		h.Site, h.Func = trap.Regs.IP, t.functionOf(trap.Regs.IP)
		argsOf(trap.Regs, &args)
		hit(&h.Hit, &args)
	}
	var hook *kprobes.Rethook
	if at != bpf.AtEntry {
		returned := func(ri *kprobes.Instance, trap *abi.Trap) {
			h, args := t.newProgramHit(trap), bpf.Args{}
			h.Site = binary.LittleEndian.Uint64(ri.Data)
			h.Func = t.functionOf(h.Site)
			for n := range args {
				args[n] = binary.LittleEndian.Uint64(ri.Data[8+8*n:])
			}
			hit(&h.Hit, &args)
		}
		if hook, err = t.conf.Kprobes.NewRethook(maxCalls, 8+8*uint64(len(bpf.Args{})), returned); err != nil {
			return nil, fmt.Errorf("returns of functions: %w", err)
		}
		entered = func(trap *abi.Trap) { t.hookReturn(hook, trap) }
	}
	return t.listenForProgram(sites, entered, at == bpf.AtOwnReturn, func() {
		if hook != nil {
			hook.Stop()
		}
	})
}

// listenForProgram has hit called at the sites, after all other listeners if last is set, until detach is called, which calls stopped
// before it waits for the hits that are under way.
func (t *Tracer) listenForProgram(sites []uint64, hit func(*abi.Trap), last bool, stopped func()) (detach func(), err error) {
	listener := t.conf.Functions.Listen(ftracer.Handler{Function: t.programHandler(), Hit: hit, Regs: true, Allocated: true, Last: last})
	if err := listener.Set(sites); err != nil {
		return nil, fmt.Errorf("functions of a program: %w", err)
	}
	return func() {
		if err := listener.Set(nil); err != nil {
			t.conf.Machine.Printk(4, "ftrace: %v", err)
		}
		stopped()
		t.conf.Machine.SynchronizeRCU()
	}, nil
}

// skipped is the guest's function that returns in place of the one that a handler has its address in ip for.
const skipped = "just_return_func"

// Modify implements bpf.Probes.
func (p programProbes) Modify(site uint64, hit func(h *bpf.Hit, args *bpf.Args) uint64) (detach func(), err error) {
	t := p.tracer
	just := t.conf.Symbols.LookupName(skipped)
	if len(just) == 0 {
		return nil, fmt.Errorf("functions cannot be left out: %w", syscall.Errno(abi.ENOTSUPP))
	}
	entered := func(trap *abi.Trap) {
		h, args := t.newProgramHit(trap), bpf.Args{}
		h.Site = trap.Regs.IP
		argsOf(trap.Regs, &args)
		if ret := hit(&h.Hit, &args); ret != 0 {
			trap.Regs.AX, trap.Next = ret, just[0].Addr
			const maxErrno, interrupts = 4095, 0xffff00 // in which nothing of the task's call fails
			if err := -ret; err <= maxErrno && trap.Preempt&interrupts == 0 {
				t.conf.Host.CallRefused(trap.Task, syscall.Errno(err))
			}
		}
	}
	return t.listenForProgram([]uint64{site}, entered, true, func() {})
}

// programHandler names the function that stands in enabled_functions for a program: the handler of fprobes, which the
// guests of releases before 6.12 do not have.
func (t *Tracer) programHandler() string {
	const fprobes = "fprobe_handler"
	if len(t.conf.Symbols.LookupName(fprobes)) > 0 {
		return fprobes
	}
	return "kprobe_ftrace_handler"
}

// argsOf reads the registers that have a function's first arguments.
func argsOf(regs *abi.Regs, args *bpf.Args) {
	*args = bpf.Args{regs.DI, regs.SI, regs.DX, regs.CX, regs.R8, regs.R9}
}

// hookReturn has the return of the call that has begun reported. It runs in handler context.
func (t *Tracer) hookReturn(hook *kprobes.Rethook, trap *abi.Trap) {
	ri := hook.Get(trap)
	if ri == nil {
		return
	}
	var args bpf.Args
	argsOf(trap.Regs, &args)
	binary.LittleEndian.PutUint64(ri.Data, trap.Regs.IP)
	for n, v := range args {
		binary.LittleEndian.PutUint64(ri.Data[8+8*n:], v)
	}
	hook.Hook(ri, trap)
}

// functionOf returns the function whose entry is traced at a site.
func (t *Tracer) functionOf(site uint64) uint64 {
	if _, off, ok := t.conf.Symbols.Lookup(site); ok {
		return site - off
	}
	return site
}

// newProgramHit returns what a program is told of a hit. It is valid until the vCPU's next hit. It runs in handler context.
func (t *Tracer) newProgramHit(trap *abi.Trap) *programHit {
	h := &t.scratch(trap).program
	tgid, _ := trap.Mem.ReadU64(trap.Task + abi.TaskTGID)
	tid, _ := trap.Mem.ReadU64(trap.Task + abi.TaskPID)
	if trap.Mem.ReadAt(trap.Task+abi.TaskComm, h.comm[:]) != nil {
		h.comm = [abi.TaskCommLen]byte{}
	}
	h.event, h.left = nil, false
	h.Trap, h.Ctx, h.PID, h.TID, h.Comm, h.UID, h.Func = trap, nil, int32(uint32(tgid)), int32(uint32(tid)), &h.comm, t.currentUID(trap), 0
	t.chainOf(h)
	return h
}

// chainOf says how the stack of a hit is unwound.
func (t *Tracer) chainOf(h *programHit) {
	if h.Chain != nil {
		return
	}
	h.Chain = func() []uint64 {
		switch {
		case h.left:
			return t.callers(t.unwindPerf(h.Trap, h.event), "__schedule")
		case h.event != nil:
			return t.unwindPerf(h.Trap, h.event)
		case h.Trap.Data != nil: // a raw tracepoint
			ips := t.cpus[h.Trap.CPU].stack[:]
			return ips[:t.unwindOwn(h.Trap, ips)]
		}
		return t.unwindRegs(h.Trap)
	}
}

// rawUser is a program that is attached to a raw tracepoint.
type rawUser struct{ hit func(h *bpf.Hit) }

// ListenTracepoint implements bpf.Probes.
func (p programProbes) ListenTracepoint(name string, hit func(h *bpf.Hit)) (detach func(), err error) {
	t := p.tracer
	if t.conf.Tracepoints == nil {
		return nil, syscall.ENOENT
	}
	addr, ok := t.conf.Tracepoints.Tracepoint(name)
	tp := t.tracepoints[addr]
	if !ok || tp == nil {
		return nil, fmt.Errorf("no tracepoint %s: %w", name, syscall.ENOENT)
	}
	user := &rawUser{hit}
	if err := tp.changeRaw(func(all []*rawUser) []*rawUser { return append(all, user) }); err != nil {
		return nil, err
	}
	return func() {
		_ = tp.changeRaw(func(all []*rawUser) []*rawUser { // cannot fail: the same text was patched before
			return slices.DeleteFunc(all, func(x *rawUser) bool { return x == user })
		})
		t.conf.Machine.SynchronizeRCU()
	}, nil
}

// changeRaw replaces the list of the programs of a raw tracepoint, which the tracepoint calls while there are any.
func (tp *tracepoint) changeRaw(do func([]*rawUser) []*rawUser) error {
	t := tp.tracer
	t.mu.Lock()
	defer t.mu.Unlock()
	var before []*rawUser
	if old := tp.raw.Load(); old != nil {
		before = *old
	}
	all := do(slices.Clone(before))
	if (len(all) > 0) != (len(before) > 0) {
		if err := t.conf.Tracepoints.SetRawTracepoint(tp.addr, len(all) > 0); err != nil {
			return fmt.Errorf("a program of a raw tracepoint: %w", err)
		}
	}
	tp.raw.Store(&all)
	more := int64(len(all) - len(before))
	t.listen(more, true)
	return nil
}

// RawTracepoint is called at each hit of a tracepoint that programs listen to, in handler context: trap.Arg is its
// address, trap.Data its arguments.
func (t *Tracer) RawTracepoint(trap *abi.Trap) {
	tp := t.tracepoints[trap.Arg]
	if tp == nil {
		return
	}
	all := tp.raw.Load()
	if all == nil {
		return
	}
	for _, user := range *all {
		h := t.newProgramHit(trap)
		h.Ctx = trap.Data
		user.hit(&h.Hit)
	}
}
