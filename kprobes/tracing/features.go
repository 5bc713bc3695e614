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
	// function, also where it was defined by a number, and the last of several names.
	NotraceAtAddress bool
}

// releaseError is an error as the release tells it.
func (f *Features) releaseError(e probeError) probeError {
	switch {
	case f.SymbolEINVAL && (e == errNoProbeAddr || e == errNonUniqSymbol):
		e.errno = syscall.EINVAL
	case f.MaxActiveExit && e == errMaxActNoKprobe:
		e.text = "Maxactive is only for function exit"
	case f.LongArgE2BIG && e == errArgTooLong:
		e.errno = syscall.E2BIG
	}
	return e
}
