package kernel

import "github.com/kprobefs/kprobefs/kernel/abi"

// Unwind stores the task's kernel stack as arch_stack_walk reports it: ip, then the
// return addresses of the calling functions, the innermost first. If sps is not nil,
// it gets the stack pointer in each. The walk begins with the stack pointer sp at the
// instruction that begins past bytes before ip. It ends at the entry from user mode,
// at a task's first function, or where memory or code give no more information.
// It may be called from a handler: it takes no locks and allocates nothing.
func (m *Machine) Unwind(task, ip, past, sp uint64, ips, sps []uint64) (n int) {
	entered := true // ip was reached by execution: it is not a return address
	shown := ip     // reported in place of ip
	for n < len(ips) {
		ips[n] = shown
		if sps != nil {
			sps[n] = sp
		}
		n++
		h := m.handlers.Load()
		if h.Last != nil && h.Last(shown) {
			return n
		}
		at := m.original(ip - past)
		past = 1 // a call may be a function's last instruction
		size, ok := m.tab.FrameSize(at)
		switch {
		case ok:
		case m.img.EntryText.Contains(at):
			if ip, sp, ok = m.interrupted(ip, sp); !ok {
				return n
			}
			shown, entered, past = ip, true, 0
			continue
		case entered && m.tab.KernelText(at):
			size = 8 // code without frame information is treated as if it had just been entered
		default:
			return n
		}
		slot := sp + size - 8
		ret, err := m.mem.ReadU64(slot)
		if err != nil {
			return n
		}
		shown = ret
		if h.Return != nil {
			shown, ret = h.Return(task, slot, ret)
		}
		if !m.returnsTo(ret - 1) {
			return n
		}
		ip, sp, entered = ret, sp+size, false
	}
	return n
}

// UnwindCallback is Unwind from the place where guest code calls the machine: a
// detour, an fentry site or the trampoline of return probes. The function that makes
// the call comes first. Handlers call it, for the vCPU that they run on.
func (m *Machine) UnwindCallback(cpu int, task uint64, ips []uint64) int {
	v := m.cpus[cpu]
	return m.Unwind(task, v.cpu.RIP, 0, v.cpu.R[rsp], ips, nil)
}

// returnsTo reports whether addr can be a return address: in text, in init text (the
// boot code may still be returning through it), or in trampolines, detours and copies
// of instructions. Stack walks end in the latter two, as on Linux, which has no ORC
// entries for them.
func (m *Machine) returnsTo(addr uint64) bool {
	return m.tab.KernelText(addr) || m.img.InitText.Contains(addr) || addr >= abi.SlotsBase && addr < abi.ModulesEnd
}

// interrupted finds the context that an exception or interrupt interrupted: the entry
// code calls the handlers with the stack pointer at pt_regs. ok is false when that was
// user mode, or when ip is the entry of a system call, which comes from there.
func (m *Machine) interrupted(ip, sp uint64) (at, newSP uint64, ok bool) {
	if s, _, ok := m.syms.Lookup(ip); !ok || s.Addr == m.syscallEntry {
		return 0, 0, false
	}
	cs, err := m.mem.ReadU64(sp + abi.RegsCS)
	if err != nil || cs != abi.KernelCS {
		return 0, 0, false
	}
	at, err = m.mem.ReadU64(sp + abi.RegsIP)
	if err != nil || !m.returnsTo(at) {
		return 0, 0, false
	}
	newSP, err = m.mem.ReadU64(sp + abi.RegsSP)
	return at, newSP, err == nil
}
