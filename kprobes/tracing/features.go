package tracing

import "syscall"

// Features are what another release than 6.1 does otherwise. What each field says
// was seen on Debian's kernels; its comment names the script of integration.
type Features struct {
	// OthersRead: everybody may read the files of tracing that root may, and nobody
	// may write buffer_percent and the buffer_size_kb of one CPU: per_cpu and
	// small_files of 5.10.
	OthersRead bool
	// HistPad: histograms take what they work on with preemption off, as the column
	// of preempt_count of synthetic events tells: nested_events of 6.12.
	HistPad bool
	// AssistFunc: trampolines of fentry sites call their listener by
	// ftrace_ops_assist_func, which stack traces show: stack_handlers of 5.10.
	AssistFunc bool
	// FourFlags: lines of trace have no column for migrate-disable, and do not tell
	// that BH is off: trace_header of 5.10.
	FourFlags bool
	// NoPreemptCount: the column of preempt_count is always a dot: trace_lines of
	// 5.10, which has no CONFIG_PREEMPT_COUNT.
	NoPreemptCount bool
	// NoHist: without CONFIG_HIST_TRIGGERS there are no histograms, no synthetic
	// events and no files of them: rows_triggers of 5.10.
	NoHist bool
	// NoEprobes: dynamic_events takes no e: eprobe_definitions of 5.10.
	NoEprobes bool
	// PlainNames: "-:GROUP/" deletes nothing (EINVAL), and the group of a definition is an identifier of C that ends with a
	// slash, and an event's name follows: rows_forms and events_group_names of 5.10.
	PlainNames bool
	// LateSymbols: a symbol that is not there is found out when the probe is
	// registered, behind errors of arguments, and the first of several is taken:
	// events_not_unique of 5.10.
	LateSymbols bool
	// BadVariable is what error_log says of an unknown $-variable; empty: "Invalid
	// $-variable specified".
	BadVariable string
	// NoSymstr: there is no type symstr: rows_args_types of 5.10.
	NoSymstr bool
	// OpenString: a quote alone is a string, which is empty: args_errors of 5.10.
	OpenString bool
	// AnySize: the arguments of an event may take more than 3,072 bytes: args_size of
	// 5.10.
	AnySize bool
	// SizedArrays: the file format tells how many elements an array has: args_format
	// of 5.10.
	SizedArrays bool
	// NoTAI: there is no trace clock tai: sh_clock of 5.10.
	NoTAI bool
	// NoHashPtr: there is no option hash-ptr: rows_options of 5.10.
	NoHashPtr bool
	// StrictTracer: current_tracer takes no blanks in front of a name:
	// function_tracer of 5.10.
	StrictTracer bool
	// SwapsCPU: snapshot of one CPU takes a 1: snapshot of 5.10.
	SwapsCPU bool
	// ShortCmdlines: saved_cmdlines has its memory for pids apart: small_files of 5.10.
	ShortCmdlines bool
	// OwnSwitch: the group ftrace has the files enable and filter: static_files of
	// 5.10.
	OwnSwitch bool
	// SnapshotSaysGlobally: that an instance's trigger cannot take a snapshot stops the
	// global array's recording, and is said there: snapshot_refused of 5.10.
	SnapshotSaysGlobally bool
	// BlanksNotTaken: a write to set_event_pid and its like ends with the last number;
	// where the list has numbers, nothing is taken of blanks only: set_event_pid_blank,
	// whose echo does not end on 5.10.
	BlanksNotTaken bool
	// Static is the release whose static events there are, with their numbers, fields
	// and print formats; "": 6.1's: static_formats.
	Static string
	// RawDataID is the number of the event ftrace/raw_data; 0: 18: trace_marker of 5.10.
	RawDataID uint16
	// PipesSleepOn: a reader of trace_pipe that waits is not woken when recording ends:
	// trace_pipe of 5.10 and 6.12.
	PipesSleepOn bool
	// ShortErrors: error_log has room for 255 bytes of the command's line, its ends
	// included, and keeps 8 bits of the caret's column: releases of 5.10.
	ShortErrors bool
	// Kretprobed is the function that lines show as "[unknown/kretprobe'd]":
	// stack_option of 5.10.
	Kretprobed string
	// KretprobedStart: they do at its first byte only: stack_handlers of 6.12.
	KretprobedStart bool
	// MaxPID is pid_max, from which on numbers are not for set_event_pid and its like
	// (EINVAL); 0: those from 2^30 on are not (EPERM): set_event_pid of 5.10.
	MaxPID uint64

	// SymbolEINVAL: a definition whose symbol is not there, or not unique, gives
	// EINVAL; 6.1 gives ENOENT and EADDRNOTAVAIL.
	SymbolEINVAL bool
	// MaxActiveExit: error_log says "Maxactive is only for function exit".
	MaxActiveExit bool
	// LogStringType: error_log says why $comm and \"TEXT" take no other type than
	// string; 6.1 refuses them without a word.
	LogStringType bool
	// LongArgE2BIG: an argument that is too long gives E2BIG.
	LongArgE2BIG bool
	// DerefColumn: behind a dereference the carets of error_log stand as far to the
	// right again as its offset is long.
	DerefColumn bool
	// Char: there is the type char.
	Char bool
	// ArgsE2BIG: a definition of more than 128 arguments gives E2BIG; 6.1 does not look
	// at the further ones.
	ArgsE2BIG bool
	// FieldBadVar: $NAME of an eprobe, where its event has no such field, is an
	// invalid $-variable and EINVAL.
	FieldBadVar bool
	// NotraceAtAddress: the log has the symbol at the address of a probe on a notrace
	// function, also where it was defined by a number.
	NotraceAtAddress bool
	// NoUprobeSymbols: uprobes do not have the types symbol and symstr.
	NoUprobeSymbols bool
	// Eventfs: the directories below events are made when they are looked at, so that
	// the kernel makes none when an event is defined; their mode is 0755.
	Eventfs bool
	// ReuseIDs: a new event has the lowest number that is free.
	ReuseIDs bool
	// UnsignedChar: the kernel's char is unsigned, as the format files of its own
	// events say.
	UnsignedChar bool
	// LocalClock: trace_clock begins as local.
	LocalClock bool
	// ResizeEBUSY: a buffer whose trace is being read cannot be resized with EBUSY,
	// not ENOMEM.
	ResizeEBUSY bool
	// LogTriggerFilter: error_log says what is wrong with the filter of a trigger.
	LogTriggerFilter bool
	// LongMarkers: a write to trace_marker is one entry up to what fits on a page, one to
	// trace_marker_raw too; 6.1 has 1024 and 3072.
	LongMarkers bool
	// NoHitcount: hist triggers have nohitcount.
	NoHitcount bool
	// PlainVals: values of hist triggers do not take percent and graph.
	PlainVals bool
	// SortTwo: histograms are sorted so that of equal elements others come first
	// (heapSortTwo).
	SortTwo bool
	// SubBuffers: there is buffer_subbuf_size_kb: subbuf_size of 6.12.
	SubBuffers bool
	// FieldsOption: there are the options fields and trace_printk_dest.
	FieldsOption bool
	// FunctionAddrs: there is available_filter_functions_addrs.
	FunctionAddrs bool
	// TouchedFunctions: there is that file, and enabled_functions has more columns:
	// touched_functions of 6.12.
	TouchedFunctions bool
	// RawEnds: a read of an empty trace_pipe_raw gives 0 bytes and does not wait: per_cpu
	// of 6.12.
	RawEnds bool
	// KeepFieldHists: the triggers that were made on other events for a hist trigger's
	// actions stay when it is refused: hist_trace_params of 6.12.
	KeepFieldHists bool
	// OwnExpansion: whether tracing was used, so that the buffer has its full size, is said
	// of each array alone, and of instances it is so from the start.
	OwnExpansion bool
	// CommonStacktrace: hist triggers know stacktrace as common_stacktrace, too, and show
	// it so; variables hold it, synthetic events have members for it (long[]), and there
	// is a modifier stacktrace; hitcount is a field: hist_stack of 6.12.
	CommonStacktrace bool
	// Fprobes: dynamic_events takes probes of functions without registers, f:, and of
	// tracepoints, t: fprobe_definitions and tprobe_definitions of 6.12. A pattern's '*' is
	// '_' in the name of an event.
	Fprobes bool
}

// releaseError is an error as the release tells it.
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
