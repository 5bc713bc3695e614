package tracing

import "syscall"

// Features are what another release than 6.1 does otherwise.
type Features struct {
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
	// CommonStacktrace: keys of hist triggers know stacktrace as common_stacktrace, too,
	// and are shown so; hitcount is a field.
	CommonStacktrace bool
}

// releaseError is an error as the release tells it.
func (f *Features) releaseError(e probeError) probeError {
	switch {
	case f.MaxActiveExit && e == errMaxActNoKprobe:
		e.text = "Maxactive is only for function exit"
	case f.LongArgE2BIG && e == errArgTooLong:
		e.errno = syscall.E2BIG
	}
	return e
}
