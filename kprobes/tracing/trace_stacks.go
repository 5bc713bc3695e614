package tracing

import (
	"encoding/binary"
	"strings"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/cmdlines"
	"github.com/kprobefs/kprobefs/kprobes/tracing/dynevent"
)

// maxStack is the maximum number of recorded addresses of a stack.
const maxStack = 128

// unwindRegs returns the stack of a hit. It starts with the function that was hit, or,
// for a return probe, with the function that it returns to. It runs in handler context.
// The result is valid until the vCPU's next hit.
func (t *Tracer) unwindRegs(trap *abi.Trap) []uint64 {
	ips := t.cpus[trap.CPU].stack[:]
	return ips[:t.conf.Unwinder.Unwind(trap.Task, trap.Regs.IP, ipPast(trap), trap.Regs.SP, ips, nil)]
}

// userStack returns the stack of user space below the call in which a hit is, as perf has it. It runs in handler context. The
// result is valid until the vCPU's next hit.
func (t *Tracer) userStack(trap *abi.Trap) []uint64 {
	ips := t.cpus[trap.CPU].user[:]
	return ips[:t.conf.Host.UserStack(trap.Task, ips)]
}

// unwindEvent returns the stack that the option stacktrace shows for a hit of e: for
// kprobes and fprobes the one of the pt_regs which their handler got. It runs in handler
// context.
func (t *Tracer) unwindEvent(trap *abi.Trap, e *Event) []uint64 {
	switch e.kind {
	case dynevent.Kprobe, dynevent.Kretprobe, dynevent.Fentry, dynevent.Fexit:
		return t.unwindRegs(trap)
	default:
		return t.unwindHandler(trap, e)
	}
}

// staticHandler begins the name of the guest's function that records a static event.
const staticHandler = "trace_event_raw_event_"

// unwindPerf returns the stack that perf and programs get of a hit of e: perf_fetch_caller_regs. The stack of a static event
// begins with the function that has the tracepoint. For an event of the group syscalls the registers are user space's, so
// the kernel's stack is empty. It runs in handler context.
func (t *Tracer) unwindPerf(trap *abi.Trap, e *Event) []uint64 {
	ips := t.unwindEvent(trap, e)
	if _, dynamic := recordedBy[e.kind]; dynamic {
		return ips
	}
	if e.Group == syscallGroup {
		return nil
	}
	if len(ips) > 0 {
		if s, _, _ := t.conf.Symbols.Lookup(ips[0]); strings.HasPrefix(s.Name, staticHandler) {
			return ips[1:]
		}
	}
	return ips
}

// unwindHandler returns the stack of the handler of a hit of e: first the kernel's
// functions that handle the hit (renderedFrames), then the guest's stack. It runs in
// handler context. The result is valid until the vCPU's next hit.
func (t *Tracer) unwindHandler(trap *abi.Trap, e *Event) []uint64 {
	ips, n := t.cpus[trap.CPU].stack[:], 0
	if r, ok := recordedBy[e.kind]; ok {
		n = t.appendRendered(ips, n, r)
	}
	if e.kind == dynevent.Kprobe || e.kind == dynevent.Kretprobe {
		if r, ok := renderingOf[t.conf.Kprobes.Via(trap)]; ok {
			n = t.appendRendered(ips, n, r)
		}
	}
	return ips[:n+t.unwindOwn(trap, ips[n:])]
}

// unwindOwn writes the part of that stack that the guest has into ips, as far as it
// fits.
func (t *Tracer) unwindOwn(trap *abi.Trap, ips []uint64) int {
	if trap.RegsAddr == 0 {
		return t.conf.Unwinder.Unwind(trap.Task, trap.Regs.IP, ipPast(trap), trap.Regs.SP, ips, nil)
	}
	m := t.conf.Unwinder.UnwindCallback(trap.CPU, trap.Task, ips)
	if !t.conf.has[release.NoAssistFunc] && m > 1 && m < len(ips) {
		if s, _, _ := t.conf.Symbols.Lookup(ips[0]); s.Name == "kprobe_ftrace_handler" {
			copy(ips[2:], ips[1:m])
			t.appendRendered(ips, 1, byTrampoline510)
			m++
		}
	}
	return m
}

// inside returns an address in a function that could be a return address.
func inside(s abi.Symbol) uint64 {
	const callLen = 5
	return s.Addr + min(callLen, max(s.Size, 1)-1)
}

// unwindFunction returns the stack of a traced function, with the trampoline first. It
// runs in handler context.
func (t *Tracer) unwindFunction(trap *abi.Trap) []uint64 {
	ips := t.cpus[trap.CPU].stack[:]
	ips = ips[:t.conf.Unwinder.UnwindCallback(trap.CPU, trap.Task, ips)]
	if !t.conf.has[release.NoAssistFunc] && len(ips) > 0 {
		t.appendRendered(ips, 0, byTrampoline510) // for the listener itself, which the kernel leaves out
		return ips
	}
	return ips[min(1, len(ips)):]
}

// ipPast returns how far Regs.IP is past the instruction of the hit: for a probe's
// handler, it is one past the probed address.
func ipPast(trap *abi.Trap) uint64 {
	if trap.Data != nil {
		return 0 // a tracepoint
	}
	return 1
}

// recordStack is __ftrace_trace_stack: it records the stack of a hit as an entry of its
// own. flags and preempt are the hit's entry's. It runs in handler context.
func (a *Array) recordStack(trap *abi.Trap, ips []uint64, time int64, flags, preempt byte) {
	t := a.tracer
	en := t.newEntry(trap, typeStack)
	if en == nil {
		return
	}
	defer t.discard(trap)
	en.Buf[2], en.Buf[3] = flags, preempt
	binary.LittleEndian.PutUint32(en.Buf[4:], uint32(cmdlines.PID(trap)))
	en.Word(uint64(len(ips)))
	for _, ip := range ips {
		en.Word(ip)
	}
	a.buffer.Commit(trap.CPU, time, en.Buf[:en.N])
}

// recordUserStack is ftrace_trace_userstack: it records the stack of the task in user space, which a kernel
// thread has not. An int3's hit counts as an NMI, which has no user stack. It runs in handler context.
func (a *Array) recordUserStack(trap *abi.Trap, time int64, flags, preempt byte) {
	t := a.tracer
	if trap.Preempt&abi.NMIMask != 0 {
		return
	}
	en := t.newEntry(trap, typeUserStack)
	if en == nil {
		return
	}
	defer t.discard(trap)
	en.Buf[2], en.Buf[3] = flags, preempt
	binary.LittleEndian.PutUint32(en.Buf[4:], uint32(cmdlines.PID(trap)))
	tgid, _ := trap.Mem.ReadU64(trap.Task + abi.TaskTGID)
	en.Word(uint64(uint32(tgid)))
	var ips [stackCallers]uint64
	t.conf.Host.UserTrace(trap.Task, ips[:])
	for _, ip := range ips {
		en.Word(ip)
	}
	a.buffer.Commit(trap.CPU, time, en.Buf[:en.N])
}
