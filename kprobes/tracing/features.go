package tracing

import "syscall"

// Features are the differences of the other releases from 6.1. Each was observed on
// Debian's kernels; most comments name the integration script that shows it.
type Features struct {
	// OthersRead: everybody may read the files of tracing that root may read, and
	// nobody may write buffer_percent and the buffer_size_kb of a single CPU: per_cpu
	// and small_files of 5.10.
	OthersRead bool
	// HistPad: histogram triggers run with preemption disabled, as the preempt_count
	// column of synthetic events shows: nested_events of 6.12.
	HistPad bool
	// AssistFunc: trampolines of fentry sites call their ftrace_ops through
	// ftrace_ops_assist_func, which stack traces show: stack_handlers of 5.10.
	AssistFunc bool
	// FourFlags: lines of trace have no migrate-disable column and do not show that BH
	// is disabled: trace_header of 5.10.
	FourFlags bool
	// NoPreemptCount: the column of preempt_count is always a dot: trace_lines of
	// 5.10, which has no CONFIG_PREEMPT_COUNT.
	NoPreemptCount bool
	// NoHist: without CONFIG_HIST_TRIGGERS there are no histograms, no synthetic events
	// and none of their files: rows_triggers of 5.10.
	NoHist bool
	// NoEprobes: dynamic_events does not accept event probes (e:): eprobe_definitions
	// of 5.10.
	NoEprobes bool
	// PlainNames: "-:GROUP/" deletes nothing (EINVAL); the group of a definition is a C
	// identifier followed by a slash and the event's name: rows_forms and
	// events_group_names of 5.10.
	PlainNames bool
	// LateSymbols: a missing symbol is only detected when the probe is registered,
	// after errors in the arguments, and the first of several symbols of one name is
	// used: events_not_unique of 5.10.
	LateSymbols bool
	// BadVariable is the error_log text for an unknown $-variable. An empty string
	// means "Invalid $-variable specified".
	BadVariable string
	// NoSymstr: there is no type symstr: rows_args_types of 5.10.
	NoSymstr bool
	// OpenString: a lone quote is an empty string: args_errors of 5.10.
	OpenString bool
	// AnySize: the arguments of an event may take more than 3,072 bytes: args_size of
	// 5.10.
	AnySize bool
	// SizedArrays: the file format shows the number of elements of an array:
	// args_format of 5.10.
	SizedArrays bool
	// NoTAI: there is no trace clock tai: sh_clock of 5.10.
	NoTAI bool
	// NoHashPtr: there is no option hash-ptr, and the trace shows the addresses that
	// later releases print with %p, hashed: rows_options and hash_ptr of 5.10.
	NoHashPtr bool
	// StrictTracer: current_tracer does not skip blanks before a name: function_tracer
	// of 5.10.
	StrictTracer bool
	// SwapsCPU: the per-CPU file snapshot accepts a 1: snapshot of 5.10.
	SwapsCPU bool
	// ShortCmdlines: saved_cmdlines allocates the memory for its pids separately:
	// small_files of 5.10.
	ShortCmdlines bool
	// OwnSwitch: the group ftrace has the files enable and filter: static_files of
	// 5.10.
	OwnSwitch bool
	// SnapshotSaysGlobally: if a trigger of an instance cannot take a snapshot, the
	// global array stops recording and gets the message: snapshot_refused of 5.10.
	SnapshotSaysGlobally bool
	// BlanksNotTaken: a write to set_event_pid or a file like it consumes up to the
	// last number only. If the list is not empty, a write of nothing but blanks
	// consumes nothing: set_event_pid_blank, whose echo never ends on 5.10.
	BlanksNotTaken bool
	// Static is the release whose static events exist, with their IDs, fields and print
	// formats. An empty string means 6.1: static_formats.
	Static string
	// RawDataID is the ID of the event ftrace/raw_data. 0 means 18: trace_marker of
	// 5.10.
	RawDataID uint16
	// PipesSleepOn: a blocked reader of trace_pipe is not woken when recording stops:
	// trace_pipe of 5.10 and 6.12.
	PipesSleepOn bool
	// ShortErrors: error_log stores 255 bytes of the command's line, prefix and newline
	// included, and 8 bits of the caret's column: releases of 5.10.
	ShortErrors bool
	// Kretprobed is the function that trace lines show as "[unknown/kretprobe'd]":
	// stack_option of 5.10.
	Kretprobed string
	// KretprobedStart: only the address of its first byte is shown so: stack_handlers
	// of 6.12.
	KretprobedStart bool
	// MaxPID is pid_max: set_event_pid and files like it refuse numbers from there on
	// (EINVAL). 0 means that they refuse numbers from 2^30 on (EPERM): set_event_pid of
	// 5.10.
	MaxPID uint64

	// SymbolEINVAL: a definition whose symbol does not exist or is not unique fails
	// with EINVAL. On 6.1 it fails with ENOENT or EADDRNOTAVAIL.
	SymbolEINVAL bool
	// MaxActiveExit: error_log says "Maxactive is only for function exit".
	MaxActiveExit bool
	// LogStringType: error_log says that $comm and \"TEXT" accept no type but string.
	// On 6.1 the write fails without an entry.
	LogStringType bool
	// LongArgE2BIG: an argument that is too long fails with E2BIG.
	LongArgE2BIG bool
	// DerefColumn: after a dereference, the carets of error_log are too far to the
	// right by the length of its offset.
	DerefColumn bool
	// Char: there is the type char.
	Char bool
	// ArgsE2BIG: a definition of more than 128 arguments fails with E2BIG; 6.1 ignores
	// the arguments after the 128th.
	ArgsE2BIG bool
	// FieldBadVar: if the event of an eprobe has no field NAME, $NAME is an invalid
	// $-variable (EINVAL).
	FieldBadVar bool
	// NotraceAtAddress: error_log names the symbol at the address of a probe on a
	// notrace function, even if the definition has a numeric address.
	NotraceAtAddress bool
	// NoUprobeSymbols: uprobes do not have the types symbol and symstr.
	NoUprobeSymbols bool
	// Eventfs: the directories below events are created on lookup, not when an event is
	// defined; their mode is 0755.
	Eventfs bool
	// ReuseIDs: a new event gets the lowest free ID.
	ReuseIDs bool
	// UnsignedChar: the kernel's char is unsigned, as the format files of its static
	// events show.
	UnsignedChar bool
	// LocalClock: trace_clock is local at first.
	LocalClock bool
	// ResizeEBUSY: resizing a buffer whose trace is being read fails with EBUSY, not
	// ENOMEM.
	ResizeEBUSY bool
	// LogTriggerFilter: error_log describes errors in the filter of a trigger.
	LogTriggerFilter bool
	// LongMarkers: a write to trace_marker or trace_marker_raw is one entry up to what
	// fits on a page; the limits of 6.1 are 1024 and 3072 bytes.
	LongMarkers bool
	// NoHitcount: hist triggers have nohitcount.
	NoHitcount bool
	// PlainVals: values of hist triggers do not accept percent and graph.
	PlainVals bool
	// SortTwo: heapSortTwo sorts histograms, which leaves equal elements in another
	// order.
	SortTwo bool
	// SubBuffers: there is buffer_subbuf_size_kb: subbuf_size of 6.12.
	SubBuffers bool
	// FieldsOption: there are the options fields and trace_printk_dest.
	FieldsOption bool
	// FunctionAddrs: there is available_filter_functions_addrs.
	FunctionAddrs bool
	// WholeIndex: a number in set_ftrace_filter is an index of a function only if
	// nothing follows it: function_index of 6.12.
	WholeIndex bool
	// TouchedFunctions: there is the file touched_functions, and enabled_functions has
	// more columns: touched_functions of 6.12.
	TouchedFunctions bool
	// RawEnds: a read of an empty trace_pipe_raw returns 0 bytes instead of waiting:
	// per_cpu of 6.12.
	RawEnds bool
	// KeepFieldHists: if a hist trigger is refused, the triggers that were created on
	// other events for its actions stay: hist_trace_params of 6.12.
	KeepFieldHists bool
	// OwnExpansion: each array records by itself whether its buffer was expanded to its
	// full size, and the buffers of instances are expanded from the start.
	OwnExpansion bool
	// CommonStacktrace: hist triggers accept common_stacktrace for stacktrace and show
	// it so; variables can hold it, synthetic events have members for it (long[]), and
	// there is a modifier stacktrace; hitcount is a field: hist_stack of 6.12.
	CommonStacktrace bool
	// Fprobes: dynamic_events accepts probes of functions without registers (f:) and of
	// tracepoints (t:): fprobe_definitions and tprobe_definitions of 6.12. The name of
	// an event has '_' for each '*' of the pattern.
	Fprobes bool
}

// releaseError returns the error as the release reports it.
func (f *Features) releaseError(e probeError) probeError {
	switch {
	case f.MaxActiveExit && e == errMaxActNoKprobe:
		e.text = "Maxactive is only for function exit"
	case f.SymbolEINVAL && e == errNonUniqSymbol:
		e.errno = syscall.EINVAL
	case f.LongArgE2BIG && e == errArgTooLong:
		e.errno = syscall.E2BIG
	case f.BadVariable != "" && e == errBadVar:
		e.text = f.BadVariable
	}
	return e
}
