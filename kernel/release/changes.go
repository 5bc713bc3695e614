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
	Int3NMI
	AddrErrno
	NoTrapProbes
	BoostGroups
	StepsByInt3

	// Features of return probes.

	TrampolineCode
	ReturnIP
	ReturnsIRQsOn
	ReturnsOutsideTrap
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

	// Features of oopses and stack traces in the log.

	TraceTaskMarks
	FaultWords
	CPULine
	OopsNumberSign
	NoOopsID
	LockupLine

	// Features of modules.

	CompressedModules
	EndbrFunctions

	// Features of tracefs.

	RootOnlyFiles
	MountOwner
	NoFtraceGroupSwitch
	Eventfs
	FunctionAddrs
	TouchedFunctions
	SubBuffers
	ClockTAI
	LocalClock
	GraphInstances
	PollNeedsEntry
	SpliceParts
	GraphDepthFirst
	GraphInList
	HashPtrOption
	FieldsOption
	TracerAfterBlanks
	WholeIndex
	BlanksTaken

	// Features of definitions of events.

	Eprobes
	Fprobes
	BTFArgs
	GroupNames
	EarlySymbols
	SymbolEINVAL
	Symstr
	CharType
	NoUprobeSymbols
	ClosedStrings
	ArgsSizeLimit
	ArgsE2BIG
	LongArgE2BIG
	FieldBadVar
	UnsizedArrays
	UnsignedChar
	ReuseIDs

	// Features of error_log.

	LongErrors
	MaxActiveExit
	LogStringType
	LogTriggerFilter
	UserStringFilters
	FunctionFilters
	DerefColumn
	NotraceAtAddress

	// Features of trace, its pipes and buffers.

	MigrateDisableColumn
	PreemptCount
	NoAssistFunc
	KretprobedFirstByte
	CmdlinesWithPIDs
	LongMarkers
	PipesWake
	PipesSleepOn
	RawEnds
	ResizeEBUSY
	OwnExpansion
	NoCPUSnapshots
	SnapshotSaysInArray
	InvalidFunctions

	// Features of histograms.

	HistTriggers
	HistHoldsPreempt
	NoHitcount
	PlainVals
	SortTwo
	KeepFieldHists
	CommonStacktrace

	// Features of bpf(2).

	BPFCalls
	BPFByDescriptor
	BPFVerifier612

	features // the number of features
)

// Subjects.
const (
	kprobes = "Kprobes"
	returns = "Return probes"
	jumps   = "Jump optimization, kprobes on ftrace"
	modules = "Modules"
	files   = "Files of kprobes, sysctl, log"
	oopses  = "Oopses and stack traces in the log"
	names   = "Names of functions"
	tracefs = "Files of tracefs"
	defs    = "Definitions of events"
	errlog  = "error_log and the log"
	trace   = "trace, its pipes and buffers"
	hist    = "Histograms"
	bpf     = "bpf(2)"
)

// Versions of Linux between our releases in which something is known to have changed.
const (
	linux2_6_34 Version = 2<<16 | 6<<8 | 34
	linux3_16   Version = 3<<16 | 16<<8
	linux3_18   Version = 3<<16 | 18<<8
	linux4_17   Version = 4<<16 | 17<<8
	linux4_19   Version = 4<<16 | 19<<8
	linux5_8    Version = 5<<16 | 8<<8
	linux5_11   Version = 5<<16 | 11<<8
	linux5_17   Version = 5<<16 | 17<<8
	linux5_14   Version = 5<<16 | 14<<8
	linux5_15   Version = 5<<16 | 15<<8
	linux5_18   Version = 5<<16 | 18<<8
	linux6_2    Version = 6<<16 | 2<<8
	linux6_5    Version = 6<<16 | 5<<8
	linux6_6    Version = 6<<16 | 6<<8
	linux6_8    Version = 6<<16 | 8<<8
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
	NoTrapProbes: {
		Subject: kprobes, Since: Linux6_12,
		What:   "int, int1, int3, into, ud0, ud1 and ud2 take no probe (EILSEQ); before, int3 is EINVAL and the others take one",
		Source: "`verdicts.TestPlaces`, of 20,000 addresses of Debian's kernel",
	},
	BoostGroups: {
		Subject: kprobes, Since: Linux6_12,
		What:   "shifts, test, not, neg, mul, div, inc and dec can be in the region of a jump",
		Source: "`verdicts.TestPlaces`, of 20,000 addresses of Debian's kernel",
	},
	StepsByInt3: {
		Subject: kprobes, Since: Linux6_1,
		What:   "calls, jumps and returns are emulated and never boosted; before, returns are boosted",
		Source: "`verdicts.TestPlaces`, of 20,000 addresses of Debian's kernel",
	},
	SymbolNeeded: {
		Subject: kprobes, Since: Linux6_1, Documented: true,
		What:   "an address without a symbol is refused with ENOENT; before, only the text there decides (EINVAL), and an address in the last page is an errno",
		Source: "`5.10/events_far_addresses.txtar`; documents 000 to 002 know EINVAL only: `integration.TestOldErrors`",
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
	Int3NMI: {
		Subject: kprobes, Since: Linux5_10, Linux: linux5_8,
		What:   "a breakpoint counts as an NMI: handlers find NMI and hardirq in preempt_count, and a fault in one that no fault_handler handles panics; before, preemption is off, and the fault is an oops that ends the task",
		Source: "documents 000, 001 and 002, which know handlers with preemption disabled: `integration.TestOldContexts`, `integration.TestOldFaults`",
	},
	AddrErrno: {
		Subject: kprobes, Since: Linux4_15,
		What:   "register_kprobe takes an address in the last page for an errno and returns it, up to 5.10; before, it is EINVAL as all that is not text",
		Source: "kernel/kprobes.c of 2.6 knows no error pointers: `integration.TestOldErrors`",
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
	ReturnsOutsideTrap: {
		Subject: returns, Since: Linux4_15,
		What:   "return handlers run without interrupts disabled; before, in the trap of the trampoline's probe, as all handlers of breakpoints",
		Source: "document 001 excepts return handlers on x86, documents 000 and 002 have them called in a trap: `integration.TestOldContexts`",
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
		Subject: files, Since: Linux6_1, Documented: true,
		What:   "log lines about probes begin with \"kprobes: \"; before, they do not, and the optimizer's sysctl logs \"Kprobes globally optimized\" or \"unoptimized\"",
		Source: "`5.10/kmsg.txtar`; `5.10/optimization_log.txtar`",
	},

	TraceTaskMarks: {
		Subject: oopses, Since: Linux6_1, Documented: true,
		What:   "stack traces have the lines <TASK> and </TASK>; before, only <IRQ> and </IRQ> are marked, and up to 2.6.32 <IRQ> and <EOI>, at the beginning of a line",
		Source: "`integration.TestOldTraces`: what Debian's 5.10 prints; logs on linux-mm of 4.15.0-rc7 and 2.6.32-rc4",
	},
	FaultWords: {
		Subject: oopses, Since: Linux5_10,
		What:   "a page fault's oops begins with \"BUG: kernel NULL pointer dereference, address: \" or \"BUG: unable to handle page fault for address: \", and two lines #PF; before, \"BUG: unable to handle kernel NULL pointer dereference at \" or \"... paging request at \", and a line IP",
		Source: "logs of 4.15.0-rc8 and 2.6.25-rc2 on linux-mm, of Debian's 2.6.32-5 on linux-media: `integration.TestOldFaults`",
	},
	CPULine: {
		Subject: oopses, Since: Linux4_15,
		What:   "reports name the task as in \"CPU: 0 PID: 1 Comm: sh\", and functions alone; before, \"Pid: 1, comm: sh\", each function with its address in [<>], and oopses have the lines CPU, Process and Stack, and end with RIP and RSP",
		Source: "logs of 2.6.25-mm1 (Message-Id 20080417160331.b4729f0c.akpm@linux-foundation.org) and 2.6.25-rc2 on linux-mm, of Debian's 2.6.32-5 on linux-media: `integration.TestOldTraces`",
	},
	NoOopsID: {
		Subject: oopses, Since: Linux6_1, Documented: true,
		What:   "the last line of an oops is \"---[ end trace 0000000000000000 ]---\"; before, it has a random number that grows by one with each",
		Source: "logs of 5.10, 4.15, 2.6.32 and 2.6.25 on mailing lists: `integration.TestOldFaults`",
	},
	OopsNumberSign: {
		Subject: oopses, Since: Linux2_6_32,
		What:   "the number of an oops is [#1]; before, [1], and a line without text precedes \"Call Trace:\"",
		Source: "logs of 2.6.25-rc2 and 2.6.25-mm1 on linux-mm: `integration.TestOldFaults`",
	},

	LockupLine: {
		Subject: oopses, Since: Linux6_12,
		What:   "a hard lockup is reported as \"watchdog: CPUN: Watchdog detected hard LOCKUP on cpu N\"; before, as \"NMI watchdog: Watchdog detected hard LOCKUP on cpu N\"",
		Source: "`kernel.TestHardLockupLine`",
	},

	CompressedModules: {
		Subject: modules, Since: Linux6_1, Linux: linux5_17,
		What:   "finit_module knows MODULE_INIT_COMPRESSED_FILE, which Debian's kernel does not support (EOPNOTSUPP); before, it is EINVAL",
		Source: `"module: add in-kernel support for decompressing"; ` + "`integration.TestOddCalls`",
	},
	EndbrFunctions: {
		Subject: modules, Since: Linux6_12,
		What:   "the kernel and its modules are built with CONFIG_X86_KERNEL_IBT: functions that are called through pointers begin with endbr64",
		Source: "`kprobefs.TestEndbrFunctions`; `6.12/entry_place.txtar`",
	},

	RootOnlyFiles: {
		Subject: tracefs, Since: Linux6_1,
		What:   "only root may read the files of tracing, and root may write buffer_percent and the buffer_size_kb of a single CPU; before, everybody may read what root may, and nobody may write these",
		Source: "`5.10/per_cpu.txtar`; `5.10/small_files.txtar`",
	},
	MountOwner: {
		Subject: tracefs, Since: Linux6_12,
		What:   "the mount option uid= is for all files of tracefs, and an option that it does not know is EINVAL; before, it is for the top directory, and such an option is ignored",
		Source: "`6.12/mount_options.txtar`",
	},
	NoFtraceGroupSwitch: {
		Subject: tracefs, Since: Linux6_1,
		What:   "the group events/ftrace has no files enable and filter",
		Source: "`5.10/releases.txtar`",
	},
	Eventfs: {
		Subject: tracefs, Since: Linux6_12, Linux: linux6_6,
		What:   "the directories below events are created on lookup, with mode 0755; before, when an event is defined, with mode 0750",
		Source: "`6.12/event_files_io.txtar`",
	},
	FunctionAddrs: {
		Subject: tracefs, Since: Linux6_12, Linux: linux6_5,
		What:   "there is available_filter_functions_addrs",
		Source: `"ftrace: Show all functions with addresses in available_filter_functions_addrs"; ` + "`6.12/releases_newer.txtar`",
	},
	TouchedFunctions: {
		Subject: tracefs, Since: Linux6_12,
		What:   "there is touched_functions, and enabled_functions has more columns",
		Source: "`6.12/touched_functions.txtar`",
	},
	SubBuffers: {
		Subject: tracefs, Since: Linux6_12, Linux: linux6_8,
		What:   "there is buffer_subbuf_size_kb",
		Source: `"tracing: Update subbuffer with kilobytes not page order"; ` + "`6.12/subbuf_size.txtar`",
	},
	ClockTAI: {
		Subject: tracefs, Since: Linux6_1,
		What:   "there is the trace clock tai",
		Source: "`5.10/sh_clock.txtar`",
	},
	LocalClock: {
		Subject: tracefs, Since: Linux6_12,
		What:   "trace_clock is local at first; before, global",
		Source: "`6.12/sh_clock.txtar`",
	},
	GraphInstances: {
		Subject: tracefs, Since: Linux6_12,
		What:   "instances have the tracer function_graph",
		Source: "`6.12/graph_files.txtar`",
	},
	PollNeedsEntry: {
		Subject: tracefs, Since: Linux6_12,
		What:   "poll(2) of an empty trace_pipe_raw is not ready, however low buffer_percent is",
		Source: "`6.12/raw_ready.txtar`",
	},
	SpliceParts: {
		Subject: tracefs, Since: Linux6_12,
		What:   "splice(2) from trace_pipe_raw takes a length of less than a page; before, EINVAL",
		Source: "`6.12/raw_ready.txtar`",
	},
	GraphInList: {
		Subject: tracefs, Since: Linux6_1,
		What:   "function_graph is one of the listeners at a function's entry; before, it came after all of them",
		Source: "`5.10/graph_events.txtar`",
	},
	GraphDepthFirst: {
		Subject: tracefs, Since: Linux6_1,
		What:   "in funcgraph_exit, depth is behind func; before, at the end",
		Source: "`5.10/graph_files.txtar`",
	},
	HashPtrOption: {
		Subject: tracefs, Since: Linux6_1,
		What:   "there is the option hash-ptr, and the trace shows hashed pointers; before, addresses",
		Source: "`5.10/hash_ptr.txtar`",
	},
	FieldsOption: {
		Subject: tracefs, Since: Linux6_12,
		What:   "there are the options fields and trace_printk_dest",
		Source: "`6.12/options_fields.txtar`",
	},
	TracerAfterBlanks: {
		Subject: tracefs, Since: Linux6_1,
		What:   "current_tracer skips blanks before a name",
		Source: "`5.10/function_tracer.txtar`",
	},
	WholeIndex: {
		Subject: tracefs, Since: Linux6_12,
		What:   "a number in set_ftrace_filter is a function's index only if nothing follows it",
		Source: "`6.12/function_index.txtar`",
	},
	BlanksTaken: {
		Subject: tracefs, Since: Linux6_1,
		What:   "a write to set_event_pid or a file like it consumes the blanks after the last number; before, where the list is not empty, a write of nothing but blanks consumes nothing",
		Source: "`5.10/set_event_pid_blank.txtar`",
	},

	Eprobes: {
		Subject: defs, Since: Linux6_1, Linux: linux5_15,
		What:   "dynamic_events takes event probes (e:)",
		Source: `"tracing: Add a probe that attaches to trace events"; ` + "`5.10/eprobe_definitions.txtar`",
	},
	Fprobes: {
		Subject: defs, Since: Linux6_12, Linux: linux6_5,
		What:   "dynamic_events takes probes of functions without registers (f:) and of tracepoints (t:); a generated name has _ for each * of the pattern",
		Source: `"tracing/probes: Add fprobe events for tracing function entry and exit."; ` + "`6.12/fprobe_definitions.txtar`; `6.12/tprobe_definitions.txtar`",
	},
	BTFArgs: {
		Subject: defs, Since: Linux6_12,
		What:   "definitions know the types of functions: arguments by name, members of structures (NAME->FIELD), $arg*, %pd, %pD, and an argument's own type",
		Source: "`6.12/args_btf.txtar`; `6.12/args_btf_hits.txtar`",
	},
	GroupNames: {
		Subject: defs, Since: Linux6_1,
		What:   "the head of a definition may be GROUP/, GROUP/EVENT or GROUP.EVENT, a group may have dashes, and -:GROUP/ deletes the group; before, only GROUP/EVENT, both C identifiers, and -:GROUP/ is EINVAL",
		Source: "`5.10/rows_forms.txtar`; `5.10/events_group_names.txtar`",
	},
	EarlySymbols: {
		Subject: defs, Since: Linux6_1,
		What:   "a symbol that is missing or not unique is an error of the definition; before, a missing one is found when the probe is registered, after errors in the arguments, and the first of several is used",
		Source: "`5.10/events_not_unique.txtar`",
	},
	SymbolEINVAL: {
		Subject: defs, Since: Linux6_12,
		What:   "a symbol that is missing or not unique is EINVAL, also of a return probe that is not at the entry; before, ENOENT or EADDRNOTAVAIL, and the return probe's place is looked at first",
		Source: "`6.12/releases.txtar`; `6.12/events_not_unique.txtar`",
	},
	Symstr: {
		Subject: defs, Since: Linux6_1,
		What:   "there is the type symstr",
		Source: "`5.10/rows_args_types.txtar`",
	},
	CharType: {
		Subject: defs, Since: Linux6_12,
		What:   "there is the type char",
		Source: "`6.12/rows_args_types.txtar`",
	},
	NoUprobeSymbols: {
		Subject: defs, Since: Linux6_12,
		What:   "uprobes do not have the types symbol and symstr",
		Source: "`6.12/uprobe_definitions.txtar`",
	},
	ClosedStrings: {
		Subject: defs, Since: Linux6_1,
		What:   "a string must end with a quote; before, a lone quote is an empty string",
		Source: "`5.10/args_errors.txtar`",
	},
	ArgsSizeLimit: {
		Subject: defs, Since: Linux6_1,
		What:   "the arguments of an event may take at most 3,072 bytes",
		Source: "`5.10/args_size.txtar`",
	},
	ArgsE2BIG: {
		Subject: defs, Since: Linux6_12,
		What:   "a definition of more than 128 arguments is E2BIG; before, the arguments after the 128th are ignored",
		Source: "`6.12/releases_newer.txtar`",
	},
	LongArgE2BIG: {
		Subject: defs, Since: Linux6_12,
		What:   "an argument that is too long is E2BIG; before, EINVAL",
		Source: "`6.12/rows_errors_args.txtar`",
	},
	FieldBadVar: {
		Subject: defs, Since: Linux6_12,
		What:   "if the event of an event probe has no field NAME, $NAME is an invalid variable (EINVAL); before, an attached event without this field (ENOENT)",
		Source: "`6.12/eprobe_definitions.txtar`",
	},
	UnsizedArrays: {
		Subject: defs, Since: Linux6_1,
		What:   "the file format shows an array without the number of its elements",
		Source: "`5.10/args_format.txtar`",
	},
	UnsignedChar: {
		Subject: defs, Since: Linux6_12, Linux: linux6_2,
		What:   "the kernel's char is unsigned, as the format files of static events show",
		Source: `"kbuild: treat char as always unsigned"; ` + "`6.12/static_formats.txtar`",
	},
	ReuseIDs: {
		Subject: defs, Since: Linux6_12,
		What:   "a new event gets the lowest free ID; before, the next one",
		Source: "`6.12/rows_event_ids.txtar`",
	},

	LongErrors: {
		Subject: errlog, Since: Linux6_1,
		What:   "error_log stores the whole line of the command; before, 255 bytes with prefix and newline, and 8 bits of the caret's column",
		Source: "`5.10/releases.txtar`",
	},
	MaxActiveExit: {
		Subject: errlog, Since: Linux6_12,
		What:   "error_log's text for maxactive on an entry probe is \"Maxactive is only for function exit\"",
		Source: "`6.12/events_maxactive.txtar`",
	},
	LogStringType: {
		Subject: errlog, Since: Linux6_12,
		What:   "error_log has an entry where $comm or a text has a type other than string; before, the write fails without one",
		Source: "`6.12/args_errors.txtar`",
	},
	UserStringFilters: {
		Subject: trace, Since: Linux6_1,
		What:   "filters have FIELD.ustring, the string at an address of user memory",
		Source: "`filter.TestForms`",
	},
	FunctionFilters: {
		Subject: trace, Since: Linux6_12,
		What:   "filters compare an address with a function (FIELD.function == NAME), and a CPU with a list of them (FIELD & CPUS{LIST})",
		Source: "`filter.TestForms`",
	},
	LogTriggerFilter: {
		Subject: errlog, Since: Linux6_12,
		What:   "error_log has an entry for errors in the filter of a trigger",
		Source: "`6.12/trigger_commands.txtar`",
	},
	DerefColumn: {
		Subject: errlog, Since: Linux6_12,
		What:   "after a dereference, the carets of error_log are too far to the right by the length of its offset",
		Source: "`6.12/args_errors.txtar`",
	},
	NotraceAtAddress: {
		Subject: errlog, Since: Linux6_12,
		What:   "the log names the symbol at the address of a probe on a notrace function, even if the definition has a number",
		Source: "`6.12/events_far_addresses.txtar`",
	},

	MigrateDisableColumn: {
		Subject: trace, Since: Linux6_1,
		What:   "lines of trace have a column for migrate-disable and show that bottom halves are disabled",
		Source: "`5.10/trace_header.txtar`",
	},
	PreemptCount: {
		Subject: trace, Since: Linux6_1,
		What:   "the column preempt-depth shows preempt_count; 5.10 is without CONFIG_PREEMPT_COUNT, its column is a dot",
		Source: "`5.10/trace_lines.txtar`",
	},
	NoAssistFunc: {
		Subject: trace, Since: Linux6_1,
		What:   "trampolines of fentry sites call the listener itself; before, ftrace_ops_assist_func, which stack traces show",
		Source: "`5.10/stack_handlers.txtar`",
	},
	KretprobedFirstByte: {
		Subject: trace, Since: Linux6_12,
		What:   "only the first byte's address of the trampoline is shown as \"[unknown/kretprobe'd]\"; before, each address in it",
		Source: "`6.12/stack_handlers.txtar`",
	},
	CmdlinesWithPIDs: {
		Subject: trace, Since: Linux6_1,
		What:   "saved_cmdlines has its pids in the same memory as the names, which leaves room for other numbers of names",
		Source: "`5.10/small_files.txtar`",
	},
	LongMarkers: {
		Subject: trace, Since: Linux6_12, Linux: linux6_8,
		What:   "a write to trace_marker or trace_marker_raw is one entry up to what fits on a page; before, up to 1,024 and 3,072 bytes",
		Source: `"tracing: Allow for max buffer data size trace_marker writes"; ` + "`6.12/trace_marker.txtar`",
	},
	PipesWake: {
		Subject: trace, Since: Linux6_1,
		What:   "a blocked reader of trace_pipe is woken when recording stops",
		Source: "`5.10/trace_pipe.txtar`",
	},
	PipesSleepOn: {
		Subject: trace, Since: Linux6_12,
		What:   "a blocked reader of trace_pipe is no longer woken when recording stops",
		Source: "`6.12/trace_pipe.txtar`",
	},
	RawEnds: {
		Subject: trace, Since: Linux6_12,
		What:   "a read of an empty trace_pipe_raw returns 0 bytes; before, it waits",
		Source: "`6.12/per_cpu.txtar`",
	},
	ResizeEBUSY: {
		Subject: trace, Since: Linux6_12,
		What:   "resizing a buffer whose trace is being read is EBUSY; before, ENOMEM",
		Source: "`6.12/buffer_sizes.txtar`",
	},
	OwnExpansion: {
		Subject: trace, Since: Linux6_12,
		What:   "each array records by itself whether its buffer has its full size, and instances have it from the start; before, an event in an instance gives the global array its full size",
		Source: "Debian's 6.12 from its boot on: `tracing.TestExpansion`",
	},
	NoCPUSnapshots: {
		Subject: trace, Since: Linux6_1,
		What:   "the snapshot file of a single CPU does not take a 1; before, it does",
		Source: "`5.10/snapshot.txtar`",
	},
	SnapshotSaysInArray: {
		Subject: trace, Since: Linux6_1,
		What:   "if a trigger of an instance cannot take a snapshot, the instance stops recording and gets the message; before, the global array",
		Source: "`5.10/snapshot_refused.txtar`",
	},

	InvalidFunctions: {
		Subject: trace, Since: Linux6_1,
		What:   "available_filter_functions has __ftrace_invalid_address___OFFSET for the fentry site of a weak function that another one has replaced; before, the function that is before it",
		Source: "Debian's kernels: `ftracer.TestInvalidFunctions`",
	},

	HistTriggers: {
		Subject: hist, Since: Linux6_1,
		What:   "there are histograms, synthetic events and their files; 5.10 is without CONFIG_HIST_TRIGGERS",
		Source: "`5.10/rows_triggers.txtar`",
	},
	HistHoldsPreempt: {
		Subject: hist, Since: Linux6_12,
		What:   "hist triggers run with preemption disabled, as the column preempt-depth of synthetic events shows",
		Source: "`6.12/nested_events.txtar`",
	},
	NoHitcount: {
		Subject: hist, Since: Linux6_12,
		What:   "hist triggers have nohitcount",
		Source: "`6.12/hist_params.txtar`",
	},
	PlainVals: {
		Subject: hist, Since: Linux6_12,
		What:   "values do not take the modifiers percent and graph",
		Source: "`6.12/hist_vals.txtar`",
	},
	SortTwo: {
		Subject: hist, Since: Linux6_12,
		What:   "sorting leaves equal elements in another order",
		Source: "`6.12/hist_tables.txtar`",
	},
	KeepFieldHists: {
		Subject: hist, Since: Linux6_12,
		What:   "if a hist trigger is refused, the triggers that were created on other events for its actions stay",
		Source: "`6.12/hist_trace_params.txtar`",
	},
	CommonStacktrace: {
		Subject: hist, Since: Linux6_12,
		What:   "common_stacktrace is accepted for stacktrace and shown for it; variables can hold it, synthetic events have members for it (long[]), there is a modifier stacktrace, and hitcount is a field",
		Source: "`6.12/hist_stack.txtar`",
	},

	BPFCalls: {
		Subject: bpf, Since: Linux4_15, Linux: linux3_18,
		What:   "there are bpf(2) and a bpffs; before, ENOSYS",
		Source: "bpf(2), the manual page: `integration.TestBPFOfReleases`",
	},
	BPFByDescriptor: {
		Subject: bpf, Since: Linux6_1, Documented: true,
		What:   "who has a descriptor of a map, a program or a link, or may open its file, needs no capability to use it; before, EPERM",
		Source: "Debian's kernels, with kernel.unprivileged_bpf_disabled=2: `integration.TestBPFOfReleases`",
	},
	BPFVerifier612: {
		Subject: bpf, Since: Linux6_12,
		What:   "programs of type syscall may store constants into their context, sleepable programs may have queues and stacks and may not be a tracepoint's, and the verifier says otherwise that a helper is for other types and which numbers may be returned; numbers, stacks, callbacks and the precision of numbers are followed as 6.12 does, with its words for states; there are the instructions of `-mcpu=v4` that 6.1 refuses (loads and moves that extend a sign, `bswap`, quotients with a sign)",
		Source: "Debian's kernels: `clients.TestClients`, sections bpf-6.12, bpf-verifier-6.12, bpf-v4 and bpf-v4-6.12",
	},
}
