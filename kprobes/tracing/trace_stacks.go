package tracing

import (
	"encoding/binary"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// maxStack is how many addresses of a stack are recorded.
const maxStack = 128

// unwindRegs is the stack of the hit that trap is of, in atomic Go: it begins with
// the function that the hit is in, or, for a return probe's, the one that is returned
// to. The result is the vCPU's until its next hit.
func (t *Tracer) unwindRegs(trap *abi.Trap) []uint64 {
	if t.conf.Unwind == nil {
		return nil
	}
	ips := t.cpus[trap.CPU].stack[:]
	return ips[:t.conf.Unwind(trap.Task, trap.Regs.IP, ipPast(trap), trap.Regs.SP, ips, nil)]
}

// What stands on Linux between the handler that is called for an event and the
// function that the handler is, the innermost first.
var (
	wayOfKprobe    = []string{"kprobe_trace_func", "kprobe_dispatcher"}
	wayOfKretprobe = []string{"kretprobe_trace_func", "kretprobe_dispatcher"}
	wayOfFentry    = []string{"fentry_trace_func", "fentry_dispatcher"}
	wayOfFexit     = []string{"fexit_trace_func", "fexit_dispatcher", "fprobe_exit_handler", "rethook_trampoline_handler"}
	wayOfEprobe    = []string{"eprobe_trigger_func", "event_triggers_call", "trace_event_buffer_commit"}
)

// unwindEvent is the stack that the option stacktrace shows of a hit of e: for
// kprobes and fprobes that of the pt_regs which their handler got, in atomic Go.
func (t *Tracer) unwindEvent(trap *abi.Trap, e *Event) []uint64 {
	switch e.class.(type) {
	case *kprobeEvent, *fprobeEvent:
		return t.unwindRegs(trap)
	}
	return t.unwindHandler(trap, e)
}

// unwindHandler is the stack of the handler which is called for a hit of e, in
// atomic Go: the kernel's functions that deal with the hit are its first. The result
// is the vCPU's until its next hit.
func (t *Tracer) unwindHandler(trap *abi.Trap, e *Event) []uint64 {
	if t.conf.Unwind == nil {
		return nil
	}
	ips := t.cpus[trap.CPU].stack[:]
	switch c := e.class.(type) {
	case *kprobeEvent:
		way := wayOfKprobe
		if c.ret {
			way = wayOfKretprobe
		}
		return t.unwindWay(trap, ips, way, t.conf.Kprobes.Callers(trap))
	case *fprobeEvent:
		way := wayOfFentry
		if c.ret {
			way = wayOfFexit
		}
		return t.unwindWay(trap, ips, way)
	case eprobeClass:
		return t.unwindWay(trap, ips, wayOfEprobe)
	}
	return t.unwindWay(trap, ips)
}

// unwindWay puts functions of these names before the stack that leads to the trap.
func (t *Tracer) unwindWay(trap *abi.Trap, ips []uint64, ways ...[]string) []uint64 {
	n := 0
	for _, way := range ways {
		for _, name := range way {
			if s := t.conf.Symbols.LookupName(name); len(s) > 0 && n < len(ips) {
				ips[n] = inside(s[0])
				n++
			}
		}
	}
	rest := ips[n:]
	if trap.RegsAddr == 0 {
		return ips[:n+t.conf.Unwind(trap.Task, trap.Regs.IP, ipPast(trap), trap.Regs.SP, rest, nil)]
	}
	m := t.conf.UnwindCallback(trap.CPU, trap.Task, rest)
	if t.conf.AssistFunc && m > 1 && m < len(rest) {
		if s, _, _ := t.conf.Symbols.Lookup(rest[0]); s.Name == "kprobe_ftrace_handler" {
			copy(rest[2:], rest[1:m])
			rest[1] = t.assistFunc()
			m++
		}
	}
	return ips[:n+m]
}

// assistFunc is where trampolines call their listener, with Features.AssistFunc.
func (t *Tracer) assistFunc() uint64 {
	if s := t.conf.Symbols.LookupName("ftrace_ops_assist_func"); len(s) > 0 {
		return inside(s[0])
	}
	return 0
}

// inside is an address in a function that might be returned to.
func inside(s abi.Symbol) uint64 {
	const callLen = 5
	return s.Addr + min(callLen, max(s.Size, 1)-1)
}

// unwindFunction is the stack of a function that is traced, in atomic Go: the
// trampoline comes first.
func (t *Tracer) unwindFunction(trap *abi.Trap) []uint64 {
	if t.conf.UnwindCallback == nil {
		return nil
	}
	ips := t.cpus[trap.CPU].stack[:]
	ips = ips[:t.conf.UnwindCallback(trap.CPU, trap.Task, ips)]
	if t.conf.AssistFunc && len(ips) > 0 {
		ips[0] = t.assistFunc() // for the listener itself, which is left out
		return ips
	}
	return ips[min(1, len(ips)):]
}

// ipPast is how far Regs.IP is past the instruction that an event's hit is at: a
// probe's handler sees it one past the probed address.
func ipPast(trap *abi.Trap) uint64 {
	if trap.Data != nil {
		return 0 // a tracepoint's record
	}
	return 1
}

// recordStack is __ftrace_trace_stack: the stack of a hit becomes an entry of its
// own, in atomic Go. flags and preempt are those of the hit's entry.
func (a *Array) recordStack(trap *abi.Trap, ips []uint64, time int64, flags, preempt byte) {
	t := a.tracer
	en := t.newEntry(trap, typeStack)
	if en == nil {
		return
	}
	defer t.discard(trap)
	en.buf[2], en.buf[3] = flags, preempt
	binary.LittleEndian.PutUint32(en.buf[4:], uint32(t.currentPID(trap)))
	en.word(uint64(len(ips)))
	for _, ip := range ips {
		en.word(ip)
	}
	a.buffer.commit(trap.CPU, time, en.buf[:en.n])
}

// recordUserStack is ftrace_trace_userstack, in atomic Go: where the task entered
// the kernel. What called that code is the host's to know. An int3's hit, which
// counts as an NMI, has none.
func (a *Array) recordUserStack(trap *abi.Trap, time int64, flags, preempt byte) {
	const userIP = 128 // of ip in pt_regs
	t := a.tracer
	if trap.Preempt&abi.NMIMask != 0 {
		return
	}
	en := t.newEntry(trap, typeUserStack)
	if en == nil {
		return
	}
	defer t.discard(trap)
	en.buf[2], en.buf[3] = flags, preempt
	binary.LittleEndian.PutUint32(en.buf[4:], uint32(t.currentPID(trap)))
	tgid, _ := trap.Mem.ReadU64(trap.Task + abi.TaskTGID)
	en.word(uint64(uint32(tgid)))
	stack, err := trap.Mem.ReadU64(trap.Task + abi.TaskStack)
	ip, err2 := trap.Mem.ReadU64(stack + abi.ThreadSize - abi.RegsSize + userIP)
	if err != nil || err2 != nil || ip >= taskSize {
		ip = 0 // a kernel thread
	}
	en.word(ip)
	for range stackCallers - 1 {
		en.word(0)
	}
	a.buffer.commit(trap.CPU, time, en.buf[:en.n])
}
