package kprobes

import "syscall"

// Features are the ways in which another release differs from 6.1. Each was observed
// on Debian's kernels; a field's comment names the integration script that shows it.
type Features struct {
	Jprobes         bool  // jprobes exist: 2.6.25 and 2.6.32
	FaultHandlers   bool  // kprobe.fault_handler: up to 5.10
	StepFaults      bool  // it is also called for faults of the stepped copy: up to 4.15 (not on 5.10)
	BreakHandlers   bool  // kprobe.break_handler: up to 4.15
	TrampolineProbe bool  // hooked calls return to a nop that has a kprobe: up to 4.15
	AnyByte         bool  // the address need not be an instruction boundary: up to 4.15
	NoSwitchTo      bool  // kprobes on __switch_to are refused, too: up to 4.15
	FewInstances    bool  // without CONFIG_PREEMPTION maxactive defaults to the number of CPUs: up to 5.10, its events_maxactive
	CountNRCPUS     bool  // that number is the configured NR_CPUS: up to 4.15
	OuterAgain      bool  // a probe is optimized again when one in its region is removed: up to 4.15
	PreemptNoJumps  bool  // with CONFIG_PREEMPTION there is no jump optimization: up to 4.15
	KeepsEnabled    bool  // unregistering keeps the probe's FlagDisabled: 2.6
	NoEntryFlag     bool  // there is no FlagOnFuncEntry: up to 5.10, its probe_fields
	HideFlags       Flags // flags that kprobes/list does not show; if all, it has no such column
	// OldInstances: struct kretprobe_instance has the fields rp and task: up to 5.10, as
	// its modules see.
	OldInstances bool
	// ShortWords: kprobes/enabled looks only at the first byte, and refuses words that
	// begin with t, T, f, F, o or O: enabled_words of 5.10.
	ShortWords bool
	// BareLog: log lines about probes lack the prefix "kprobes: ", and the optimizer's
	// sysctl logs "Kprobes globally optimized" or "unoptimized": kmsg of 5.10.
	BareLog bool
	// AnyAddress: an address without a symbol is not refused with ENOENT; only the text
	// there decides: events_far_addresses of 5.10.
	AnyAddress bool
	// ReturnsIRQsOff: return handlers run with interrupts off, because the return
	// addresses of tasks are in tables with locks: args_return of 5.10.
	ReturnsIRQsOff bool
	// SilentBUG: a call that returns more often than it was made is a BUG without a
	// preceding message, as a module on 5.10 shows. (There it also leaves a lock held.)
	SilentBUG bool
	// TrampolineIP: return handlers find the trampoline in pt_regs' ip, and stack traces
	// end there: stack_option of 5.10.
	TrampolineIP bool
	// Trampoline is the name of the function that hooked calls return to. If empty, it
	// is arch_rethook_trampoline.
	Trampoline string
}

// printer is a machine's log.
type printer interface {
	Printk(level int, format string, args ...any)
}

// Printk does what pr_info and the like do in the sources of kprobes.
func (f Features) Printk(to printer, level int, format string, args ...any) {
	if !f.BareLog {
		format = "kprobes: " + format
	}
	to.Printk(level, format, args...)
}

// ParseEnabled parses a write to kprobes/enabled.
func (f Features) ParseEnabled(data []byte) (bool, error) {
	if f.ShortWords {
		switch at(data, 0) {
		case 't', 'T', 'f', 'F', 'o', 'O':
			return false, errf(syscall.EINVAL, "%.8q is neither on nor off", data)
		}
	}
	return ParseEnabled(data)
}

// errPtr is IS_ERR: an address in the last page is an errno.
func errPtr(addr uint64) error {
	const maxErrno = 4095
	if e := -addr; 0 < e && e <= maxErrno {
		return errf(syscall.Errno(e), "%#x is an error", addr)
	}
	return nil
}

// ParseEnabled is kstrtobool, which parses a write to kprobes/enabled: the first byte
// decides, and after an o the second. Anything else is EINVAL.
func ParseEnabled(data []byte) (bool, error) {
	switch at(data, 0) {
	case 'y', 'Y', 't', 'T', '1':
		return true, nil
	case 'n', 'N', 'f', 'F', '0':
		return false, nil
	case 'o', 'O':
		switch at(data, 1) {
		case 'n', 'N':
			return true, nil
		case 'f', 'F':
			return false, nil
		}
	}
	return false, errf(syscall.EINVAL, "%.8q is neither on nor off", data)
}

// at returns data[i], or 0 past the end.
func at(data []byte, i int) byte {
	if i < len(data) {
		return data[i]
	}
	return 0
}
