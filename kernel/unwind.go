package kernel

import "github.com/kprobefs/kprobefs/kernel/abi"

// Unwind is the task's kernel stack as arch_stack_walk gives it: ip, then the
// return addresses of the functions that are being executed, the innermost first;
// sps gets the stack pointer in each, nil: nobody asks. It begins with the
// stack pointer sp at the instruction that begins past bytes before ip, and ends
// where user mode would be, at a task's first function, or where memory or code
// tell no more. It is atomic Go and allocates nothing.
func (m *Machine) Unwind(task, ip, past, sp uint64, ips, sps []uint64) (n int) {
	entered := true // ip is an instruction that was come to, not one to return to
	shown := ip     // in the place of ip
	for n < len(ips) {
		ips[n] = shown
		if sps != nil {
			sps[n] = sp
		}
		n++
		h := m.handlers.Load()
		if h.EndAtTrampoline && m.inTrampoline(shown) {
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
			size = 8 // code without frame information: as if it had just been entered
		default:
			return n
		}
		slot := sp + size - 8
		ret, err := m.mem.ReadU64(slot)
		if err != nil {
			return n
		}
		shown = 0
		if h.RealReturn != nil && (ret == m.rethookTrampoline || ret == h.Trampoline && ret != 0) {
			if ret == h.Trampoline || h.EndAtTrampoline {
				shown = ret
			}
			ret, _ = h.RealReturn(task, slot, ret)
		}
		if !m.returnsTo(ret - 1) {
			return n
		}
		if ip, sp, entered = ret, sp+size, false; shown == 0 {
			shown = ip
		}
	}
	return n
}

// UnwindCallback is Unwind from where the guest's code calls the machine, as it does
// from a detour, an fentry site or the trampoline of return probes: the function
// that makes the call comes first. It is for handlers, on the vCPU that they run on.
func (m *Machine) UnwindCallback(cpu int, task uint64, ips []uint64) int {
	v := m.cpus[cpu]
	return m.Unwind(task, v.cpu.RIP, 0, v.cpu.R[rsp], ips, nil)
}

// inTrampoline says whether addr is in the function that hooked calls return to.
func (m *Machine) inTrampoline(addr uint64) bool {
	s, _, ok := m.syms.Lookup(addr)
	return ok && s.Addr == m.rethookTrampoline
}

// returnsTo says whether a stack may lead to an address: what has booted the kernel
// may still be on its way out of init text, and trampolines, detours and copies of
// instructions have code, too. Stacks end in the latter two, as on Linux, which has
// no ORC entries for them.
func (m *Machine) returnsTo(addr uint64) bool {
	return m.tab.KernelText(addr) || m.img.InitText.Contains(addr) || addr >= abi.SlotsBase && addr < abi.ModulesEnd
}

// interrupted finds what an exception or interrupt came over: the gates in entry
// text call their handlers with the stack pointer at pt_regs. False: it was user
// mode, or ip is the way into a system call, which comes from there.
func (m *Machine) interrupted(ip, sp uint64) (at, newSP uint64, ok bool) {
	const ipOff, csOff, spOff = 128, 136, 152
	if s, _, ok := m.syms.Lookup(ip); !ok || s.Addr == m.syscallEntry {
		return 0, 0, false
	}
	cs, err := m.mem.ReadU64(sp + csOff)
	if err != nil || cs != abi.KernelCS {
		return 0, 0, false
	}
	at, err = m.mem.ReadU64(sp + ipOff)
	if err != nil || !m.returnsTo(at) {
		return 0, 0, false
	}
	newSP, err = m.mem.ReadU64(sp + spOff)
	return at, newSP, err == nil
}
