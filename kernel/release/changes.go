package release

// Feature is something that newer kernels do or have and older ones do not: an index
// of Changes, whose row describes it.
type Feature uint8

// Features of kprobes.
const (
	NoFaultHandlers Feature = iota
	NoStepFaultHandlers
	NoBreakHandlers
	NoJprobes
	InsnBoundary
	SymbolNeeded
	ProbesSwitchTo
	UnregisterDisables
	OnFuncEntryFlag

	// Features of return probes.

	TrampolineCode
	ReturnIP
	ReturnsIRQsOn
	NoInstanceRP
	ReturnBUG
	MaxActiveTwicePerCPU
	MaxActivePresentCPUs

	// Features of jump optimization and of kprobes on ftrace.

	JumpOptimization
	JumpsWithPreempt
	OuterStaysBreakpoint
	KprobesOnFtrace

	// Features of the files of kprobes, of sysctl and of the log.

	ListFlags
	BlacklistFile
	EnabledWords
	OptimizationDash
	LogPrefix

	features // the number of features
)

// Subjects.
const (
	kprobes = "Kprobes"
	returns = "Return probes"
	jumps   = "Jump optimization, kprobes on ftrace"
	files   = "Files of kprobes, sysctl, log"
	names   = "Names of functions"
)

// Versions of Linux between our releases in which something is known to have changed.
const (
	linux2_6_34 Version = 2<<16 | 6<<8 | 34
	linux3_16   Version = 3<<16 | 16<<8
	linux4_17   Version = 4<<16 | 17<<8
	linux4_19   Version = 4<<16 | 19<<8
	linux5_8    Version = 5<<16 | 8<<8
	linux5_11   Version = 5<<16 | 11<<8
	linux5_14   Version = 5<<16 | 14<<8
	linux5_15   Version = 5<<16 | 15<<8
	linux5_18   Version = 5<<16 | 18<<8
)

// Changes are all features.
var Changes = [features]Change{
	NoFaultHandlers: {
		Subject: kprobes, Since: Linux6_1, Linux: linux5_14, Documented: true,
		What:   "struct kprobe has no fault_handler; before, it is called for faults of the probe's handlers",
		Source: `"kprobes: Remove kprobe::fault_handler"; a module on 5.10: ` + "`kprobes.TestFault510`; document 001: `kprobes.TestFaultHandler`",
	},
	NoStepFaultHandlers: {
		Subject: kprobes, Since: Linux5_10,
		What:   "fault_handler is not called for faults of the stepped copy",
		Source: "a module on 5.10: `kprobes.TestFault510`; document 001: `kprobes.TestFaultHandler`",
	},
	NoBreakHandlers: {
		Subject: kprobes, Since: Linux5_10, Linux: linux4_19,
		What:   "struct kprobe has no break_handler; before, it is called for breakpoints that are no probe's",
		Source: "document 001: `kprobes.TestBreakHandler`",
	},
	NoJprobes: {
		Subject: kprobes, Since: Linux4_15, Linux: Linux4_15,
		What:   "there are no jprobes",
		Source: `"kprobes: Disable the jprobes APIs"; documents 000 and 002: ` + "`kprobes.TestJprobe`",
	},
	InsnBoundary: {
		Subject: kprobes, Since: Linux5_10,
		What:   "an instruction must begin at the address (EILSEQ); before, any byte takes a probe",
		Source: "document 001: `kprobes.TestOldAddresses`",
	},
	SymbolNeeded: {
		Subject: kprobes, Since: Linux6_1,
		What:   "an address without a symbol is refused with ENOENT; before, only the text there decides, and an address in the last page is an errno",
		Source: "`5.10/events_far_addresses.txtar`",
	},
	ProbesSwitchTo: {
		Subject: kprobes, Since: Linux5_10,
		What:   "`__switch_to` takes kprobes; before, they are EINVAL there, as return probes are",
		Source: "document 001: `kprobes.TestOldAddresses`",
	},
	UnregisterDisables: {
		Subject: kprobes, Since: Linux4_15,
		What:   "a probe that is unregistered keeps KPROBE_FLAG_DISABLED set; before, only one that was disabled has it",
		Source: "`modules/kprobe_fields.2.6`",
	},
	OnFuncEntryFlag: {
		Subject: kprobes, Since: Linux6_1, Documented: true,
		What:   "a probe at a function's entry has KPROBE_FLAG_ON_FUNC_ENTRY",
		Source: "`modules/kprobe_fields.5.10`",
	},

	TrampolineCode: {
		Subject: returns, Since: Linux5_10,
		What:   "hooked calls return to code that calls the handlers; before, to a nop with a kprobe, whose address the handlers find in ip",
		Source: "document 001: `kprobes.TestTrampolineProbe`",
	},
	ReturnIP: {
		Subject: returns, Since: Linux6_1,
		What:   "return handlers find the caller's address in pt_regs' ip, and stack traces show it and go on to the caller; before, both have the trampoline",
		Source: "`5.10/stack_option.txtar`; `kprobes.TestReturns510`",
	},
	ReturnsIRQsOn: {
		Subject: returns, Since: Linux6_1, Linux: linux5_11,
		What:   "return handlers run with interrupts on; before, with interrupts off, as the instances of tasks are in tables with locks",
		Source: `"kprobes: Remove kretprobe hash"; ` + "`5.10/args_return.txtar`",
	},
	NoInstanceRP: {
		Subject: returns, Since: Linux6_1, Linux: linux5_11, Documented: true,
		What:   "struct kretprobe_instance has no fields rp and task",
		Source: `"kprobes: Remove kretprobe hash"; ` + "`modules/kprobe_fields.5.10`",
	},
	ReturnBUG: {
		Subject: returns, Since: Linux6_1, Linux: linux5_18,
		What:   "a call that returns more often than it was made logs a message before its BUG",
		Source: `"x86,rethook,kprobes: Replace kretprobe with rethook on x86"; ` + "`kprobes.TestKretprobeBUGOnMachine`",
	},
	MaxActiveTwicePerCPU: {
		Subject: returns, Since: Linux6_1, Documented: true,
		What:   "maxactive defaults to max(10, 2*CPUs); before, without CONFIG_PREEMPTION, to the number of CPUs",
		Source: "`5.10/events_maxactive.txtar`; document 001: `kprobes.TestOldMaxActive`",
	},
	MaxActivePresentCPUs: {
		Subject: returns, Since: Linux5_10,
		What:   "that number is of the CPUs that there are; before, CONFIG_NR_CPUS",
		Source: "document 001: `kprobes.TestOldMaxActive`",
	},

	JumpOptimization: {
		Subject: jumps, Since: Linux4_15, Linux: linux2_6_34,
		What:   "there is CONFIG_OPTPROBES, jump optimization",
		Source: `"kprobes: Introduce kprobes jump optimization"; documents 000 and 002: ` + "`kprobefs.TestOldFiles`",
	},
	JumpsWithPreempt: {
		Subject: jumps, Since: Linux5_10,
		What:   "there is jump optimization with CONFIG_PREEMPTION, too",
		Source: "document 001: `kprobefs.TestOldFiles`",
	},
	OuterStaysBreakpoint: {
		Subject: jumps, Since: Linux5_10,
		What:   "a probe whose region had another probe stays a breakpoint when that is removed; before, it is optimized again",
		Source: "`inner_probe.txtar`; document 001: `kprobes.TestOldInnerProbe`",
	},
	KprobesOnFtrace: {
		Subject: jumps, Since: Linux4_15,
		What:   "there is CONFIG_KPROBES_ON_FTRACE: a probe at a function's entry is a call of ftrace",
		Source: "documents 000 and 002: `kprobefs.TestOldFiles`",
	},

	ListFlags: {
		Subject: files, Since: Linux2_6_32,
		What:   "lines of kprobes/list end with the probe's flags, [GONE] and [DISABLED]",
		Source: "document 002: `kprobes.TestOldList`",
	},
	BlacklistFile: {
		Subject: files, Since: Linux4_15, Linux: linux3_16,
		What:   "there is kprobes/blacklist",
		Source: `"kprobes: Show blacklist entries via debugfs"; documents 000 and 002: ` + "`kprobefs.TestOldFiles`",
	},
	EnabledWords: {
		Subject: files, Since: Linux6_1, Documented: true,
		What:   "kprobes/enabled takes on, off and words that begin with t or f; before, a word that begins with o, t or f is EINVAL",
		Source: "`5.10/enabled_words.txtar`",
	},
	OptimizationDash: {
		Subject: files, Since: Linux5_10,
		What:   "the sysctl is debug.kprobes-optimization and takes numbers; 4.15 has debug.kprobes_optimization, too, and both take y and n",
		Source: "document 001: `integration.TestOldShell`",
	},
	LogPrefix: {
		Subject: files, Since: Linux6_1,
		What:   "log lines about probes begin with \"kprobes: \"; before, they do not, and the optimizer's sysctl logs \"Kprobes globally optimized\" or \"unoptimized\"",
		Source: "`5.10/kmsg.txtar`; `5.10/optimization_log.txtar`",
	},
}
