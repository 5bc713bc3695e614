package tracing

import (
	"encoding/binary"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// maxStack is how many addresses of a stack are recorded.
const maxStack = 128

// unwind is the stack of the hit that trap is of, in atomic Go: it begins with the
// function that the hit is in, or, for a return probe's, the one that is returned
// to. The result is the vCPU's until its next hit.
func (t *Tracer) unwind(trap *abi.Trap, past uint64) []uint64 {
	if t.conf.Unwind == nil {
		return nil
	}
	ips := t.cpus[trap.CPU].stack[:]
	return ips[:t.conf.Unwind(trap.Task, trap.Regs.IP, past, trap.Regs.SP, ips, nil)]
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
// own, in atomic Go. past is as in unwind; flags and preempt are those of the hit's entry.
func (a *Array) recordStack(trap *abi.Trap, past uint64, time int64, flags, preempt byte) {
	t := a.tracer
	ips := t.unwind(trap, past)
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
