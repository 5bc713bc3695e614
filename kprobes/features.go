package kprobes

import "syscall"

// Features are what another release than 6.1 does otherwise. What each field says
// was seen on Debian's kernels; its comment names the script of integration.
type Features struct {
	Jprobes         bool  // there are jprobes: 2.6.25 and 2.6.32
	FaultHandlers   bool  // kprobe.fault_handler: up to 5.10
	StepFaults      bool  // it is asked about the stepped copy too: up to 4.15 (5.10 was seen not to)
	BreakHandlers   bool  // kprobe.break_handler: up to 4.15
	TrampolineProbe bool  // hooked calls return to a nop with a probe of its own: up to 4.15
	AnyByte         bool  // whether an instruction begins at the address is not looked at: up to 4.15
	NoSwitchTo      bool  // __switch_to takes no kprobes either: up to 4.15
	FewInstances    bool  // without CONFIG_PREEMPTION the default of maxactive is the number of CPUs: up to 5.10, its events_maxactive
	CountNRCPUS     bool  // that number is NR_CPUS as configured, however many there are: up to 4.15
	OuterAgain      bool  // a probe is optimized again when one in its region goes: up to 4.15
	PreemptNoJumps  bool  // with CONFIG_PREEMPTION there is no jump optimization: up to 4.15
	HideFlags       Flags // those that kprobes/list does not show; all: it has no such column
	// ShortWords: kprobes/enabled takes words by their first byte, and none that
	// begin with t, T, f, F, o or O: enabled_words of 5.10.
	ShortWords bool
	// BareLog: what the log says of probes does not begin with "kprobes: ", and the
	// knob of the optimizer says "Kprobes globally optimized" or "unoptimized": kmsg
	// of 5.10.
	BareLog bool
	// AnyAddress: that there is no symbol at an address is no reason to refuse it
	// (ENOENT); what is there is, or is not: events_far_addresses of 5.10.
	AnyAddress bool
	// ReturnsIRQsOff: return handlers run with interrupts off, since the return
	// addresses of tasks are kept in tables with locks: args_return of 5.10.
	ReturnsIRQsOff bool
	// SilentBUG: a call that returns more often than it was made is a BUG without a
	// word before; a module on 5.10 saw it. (There it takes a lock with it.)
	SilentBUG bool
	// TrampolineIP: return handlers find the trampoline in pt_regs' ip, and stacks end
	// there: stack_option of 5.10.
	TrampolineIP bool
	// Trampoline is the name of the function that hooked calls return to; empty:
	// arch_rethook_trampoline.
	Trampoline string
}

// printer is a machine's log.
type printer interface {
	Printk(level int, format string, args ...any)
}

// Printk is pr_info and the like in the sources of kprobes.
func (f Features) Printk(to printer, level int, format string, args ...any) {
	if !f.BareLog {
		format = "kprobes: " + format
	}
	to.Printk(level, format, args...)
}

// ParseEnabled is what is read of a write to kprobes/enabled.
func (f Features) ParseEnabled(data []byte) (bool, error) {
	if f.ShortWords {
		switch at(data, 0) {
		case 't', 'T', 'f', 'F', 'o', 'O':
			return false, errf(syscall.EINVAL, "%.8q is neither on nor off", data)
		}
	}
	return ParseEnabled(data)
}

// errPtr is IS_ERR: the last page of addresses is no place but an errno.
func errPtr(addr uint64) error {
	const maxErrno = 4095
	if e := -addr; 0 < e && e <= maxErrno {
		return errf(syscall.Errno(e), "%#x is an error", addr)
	}
	return nil
}
