package tracing

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/release"
)

// errorLogSize is how many errors error_log keeps: TRACING_LOG_ERRS_MAX.
const errorLogSize = 8

// shortError is the longest command line in bytes: MAX_FILTER_STR_VAL without the NUL.
const shortError = 255

// commandPrefix stands before the command in error_log; the caret's column
// counts from its end.
const commandPrefix = "  Command: "

// errorLog is the contents of the file error_log: the errors of the last commands, each
// with a caret below the column where the error is.
type errorLog struct {
	mu      sync.Mutex // guards entries
	entries []string
}

// add appends an error. now is in nanoseconds, caret is the column in command, and
// limit is the number of bytes that the command's line may take.
func (l *errorLog) add(now int64, subsystem, text, command string, caret, limit int) {
	usec := now / 1000
	line := "\n" + commandPrefix + command + "\n"
	entry := fmt.Sprintf("[%5d.%06d] %s: error: %s%s%s^\n", usec/1e6, usec%1e6, subsystem, text,
		line[:min(len(line), limit)], strings.Repeat(" ", len(commandPrefix)+caret))
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.entries) == errorLogSize {
		l.entries = l.entries[1:]
	}
	l.entries = append(l.entries[:len(l.entries):len(l.entries)], entry)
}

// logError is tracing_log_err: it logs command with a caret below the given column.
func (a *Array) logError(subsystem, text, command string, column int) {
	limit := math.MaxInt
	if !a.tracer.conf.has[release.LongErrors] {
		limit, column = shortError, column&0xff
	}
	a.errors.add(a.tracer.conf.Machine.Now(), subsystem, text, command, column, limit)
}

// ErrorLog returns the records of the file error_log, the oldest first.
func (a *Array) ErrorLog() []string {
	a.errors.mu.Lock()
	defer a.errors.mu.Unlock()
	return a.errors.entries
}

// ErrorRecord returns record i (from 0) of error_log; ok is false if there is no such
// record.
func (a *Array) ErrorRecord(i int) (string, bool) {
	entries := a.ErrorLog()
	if i < 0 || i >= len(entries) {
		return "", false
	}
	return entries[i], true
}

// ClearErrorLog empties error_log, as an open for writing with O_TRUNC does.
func (a *Array) ClearErrorLog() {
	a.errors.mu.Lock()
	defer a.errors.mu.Unlock()
	a.errors.entries = nil
}

// probeError is one of the reasons in trace_probe.c for which a definition is
// refused: what error_log says, and the errno of the write.
type probeError struct {
	text  string
	errno syscall.Errno
}

var (
	errMaxActNoKprobe  = probeError{"Maxactive is not for kprobe", syscall.EINVAL}
	errBadMaxAct       = probeError{"Invalid maxactive number", syscall.EINVAL}
	errMaxActTooBig    = probeError{"Maxactive is too big", syscall.EINVAL}
	errBadProbeAddr    = probeError{"Invalid probed address or symbol", syscall.EINVAL}
	errNoProbeAddr     = probeError{"Invalid probed address or symbol", syscall.ENOENT}
	errBadAddrSuffix   = probeError{"Invalid probed address suffix", syscall.EINVAL}
	errBadRetprobe     = probeError{"Retprobe address must be an function entry", syscall.EINVAL}
	errNonUniqSymbol   = probeError{"The symbol is not unique", syscall.EADDRNOTAVAIL}
	errNoGroupName     = probeError{"Group name is not specified", syscall.EINVAL}
	errGroupTooLong    = probeError{"Group name is too long", syscall.EINVAL}
	errBadGroupName    = probeError{"Group name must follow the same rules as C identifiers", syscall.EINVAL}
	errNoEventName     = probeError{"Event name is not specified", syscall.EINVAL}
	errEventTooLong    = probeError{"Event name is too long", syscall.EINVAL}
	errBadEventName    = probeError{"Event name must follow the same rules as C identifiers", syscall.EINVAL}
	errDiffProbeType   = probeError{"Probe type is different from existing probe", syscall.EEXIST}
	errSameProbe       = probeError{"There is already the exact same probe event", syscall.EEXIST}
	errEventExists     = probeError{"Given group/event name is already used by another event", syscall.EEXIST}
	errBadInsnBoundary = probeError{"Probe point is not an instruction boundary", syscall.EILSEQ}
	errFailRegProbe    = probeError{"Failed to register probe event", syscall.EINVAL}
	errDiffArgType     = probeError{"Argument type or name is different from existing probe", syscall.EEXIST}
	errArgNameTooLong  = probeError{"Argument name is too long", syscall.EINVAL}
	errNoArgName       = probeError{"Argument name is not specified", syscall.EINVAL}
	errBadArgName      = probeError{"Argument name must follow the same rules as C identifiers", syscall.EINVAL}
	errUsedArgName     = probeError{"This argument name is already used", syscall.EINVAL}
	errArgTooLong      = probeError{"Argument expression is too long", syscall.EINVAL}
	errNoArgBody       = probeError{"No argument expression", syscall.EINVAL}
	errArrayNoClose    = probeError{"Array is not closed", syscall.EINVAL}
	errEventTooBig     = probeError{"Event too big (too many fields?)", syscall.E2BIG}
	errBadArraySuffix  = probeError{"Array has wrong suffix", syscall.EINVAL}
	errBadArrayNum     = probeError{"Invalid array size", syscall.EINVAL}
	errArrayTooBig     = probeError{"Array number is too big", syscall.EINVAL}
	errBadType         = probeError{"Unknown type is specified", syscall.EINVAL}
	errBadString       = probeError{"String accepts only memory argument", syscall.EINVAL}
	errStringType      = probeError{"$comm and immediate-string only accepts string type", syscall.EINVAL}
	errBadSymString    = probeError{"Symbol String doesn't accept data/userdata", syscall.EINVAL}
	errBadBitfield     = probeError{"Invalid bitfield", syscall.EINVAL}
	errTooManyOps      = probeError{"Dereference is too much nested", syscall.EINVAL}
	errBadRegName      = probeError{"Invalid register name", syscall.EINVAL}
	errBadVar          = probeError{"Invalid $-variable specified", syscall.EINVAL} // "valiable" until 6.1.176
	errRetvalOnProbe   = probeError{"$retval is not available on probe", syscall.EINVAL}
	errBadStackNum     = probeError{"Invalid stack number", syscall.EINVAL}
	errBadArgNum       = probeError{"Invalid argument number", syscall.EINVAL}
	errBadMemAddr      = probeError{"Invalid memory address", syscall.EINVAL}
	errBadFileOffs     = probeError{"Invalid file offset value", syscall.EINVAL}
	errSymOnUprobe     = probeError{"Symbol is not available with uprobe", syscall.EINVAL}
	errFileNotFound    = probeError{"Failed to find the given file", syscall.ENOENT}
	errNoRegularFile   = probeError{"Not a regular file", syscall.EINVAL}
	errBadUprobeOffs   = probeError{"Invalid uprobe offset", syscall.EINVAL}
	errBadRefCnt       = probeError{"Invalid reference counter offset", syscall.EINVAL}
	errRefCntOpen      = probeError{"Reference counter brace is not closed", syscall.EINVAL}
	errBadRefCntSuffix = probeError{"Reference counter has wrong suffix", syscall.EINVAL}
	errNoEventInfo     = probeError{"This requires both group and event name to attach", syscall.EINVAL}
	errBadAttachEvent  = probeError{"Attached event does not exist", syscall.ENODEV}
	errBadAttachArg    = probeError{"Attached event does not have this field", syscall.ENOENT}
	errNoEventFilter   = probeError{"No filter rule after 'if'", syscall.EINVAL}
	errFileOnKprobe    = probeError{"File offset is not available with kprobe", syscall.EINVAL}
	errDerefNeedBrace  = probeError{"Dereference needs a brace", syscall.EINVAL}
	errBadDerefOffs    = probeError{"Invalid dereference offset", syscall.EINVAL}
	errDerefOpenBrace  = probeError{"Dereference brace is not closed", syscall.EINVAL}
	errCommCantDeref   = probeError{"$comm can not be dereferenced", syscall.EINVAL}
	errImmStrNoClose   = probeError{"String is not closed with '\"'", syscall.EINVAL}
	errBadImm          = probeError{"Invalid immediate value", syscall.EINVAL}
	errNotAtEntry      = probeError{"$arg* can be used only on function entry or exit", syscall.EINVAL}
	errDoubleArgs      = probeError{"$arg* can be used only once in the parameters", syscall.EINVAL}
	errNoSupBTFArg     = probeError{"BTF is not available or not supported", syscall.EINVAL}
	errNoBTFArg        = probeError{"This variable is not found at this probe point", syscall.ENOENT}
	errNoBTFEntry      = probeError{"No BTF entry for this probe point", syscall.ENOENT}
	errBadVarENOENT    = probeError{"Invalid $-variable specified", syscall.ENOENT}
	errBadHyphen       = probeError{"Failed to parse single hyphen. Forgot '>'?", syscall.EINVAL}
	errNoBTFField      = probeError{"This field is not found.", syscall.ENOENT}
	errBadBTFType      = probeError{"Failed to get BTF type info.", syscall.EINVAL}
	errBadTypeString   = probeError{"This type does not fit for string.", syscall.EINVAL}
	errNoPtrStruct     = probeError{"This is not a pointer to union/structure.", syscall.EINVAL}
	errNoSupDot        = probeError{"Non pointer structure/union argument is not supported.", syscall.EOPNOTSUPP}
	errNoRetval        = probeError{"This function returns 'void' type", syscall.ENOENT}
	errBadTPName       = probeError{"Invalid character in tracepoint name", syscall.EINVAL}
	errBadFetchArg     = probeError{"Invalid fetch argument", syscall.EINVAL}
)

// definitionError says where the error is in a command: the index of the word in argv
// and the offset in that word. The index after the last word means that something is
// missing.
type definitionError struct {
	probeError
	index, offset int
}

func (e *definitionError) Error() string {
	return fmt.Sprintf("%s (word %d, offset %d): %v", e.text, e.index, e.offset, e.errno)
}

func (e *definitionError) Unwrap() error { return e.errno }

// caret returns the command as error_log shows it, with one blank between its words,
// and the column of the error.
func (e *definitionError) caret(argv []string) (command string, column int) {
	command = strings.Join(argv, " ")
	if e.index >= len(argv) {
		return command, len(command) + 1
	}
	for _, word := range argv[:e.index] {
		column += len(word) + 1
	}
	return command, column + e.offset
}

// releaseError returns the error as the release reports it.
func (c *config) releaseError(e probeError) probeError {
	switch {
	case c.has[release.MaxActiveExit] && e == errMaxActNoKprobe:
		e.text = "Maxactive is only for function exit"
	case c.has[release.SymbolEINVAL] && e == errNonUniqSymbol:
		e.errno = syscall.EINVAL
	case c.has[release.LongArgE2BIG] && e == errArgTooLong:
		e.errno = syscall.E2BIG
	case e == errBadVar:
		e.text = release.BadVariable.Of(c.Linux)
	}
	return e
}
