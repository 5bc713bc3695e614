package tracing

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/probe"
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

// releaseError returns the error as the release reports it.
func (c *config) releaseError(e probe.Reason) probe.Reason {
	switch {
	case c.has[release.MaxActiveExit] && e == errMaxActNoKprobe:
		e.Text = "Maxactive is only for function exit"
	case c.has[release.SymbolEINVAL] && e == errNonUniqSymbol:
		e.Errno = syscall.EINVAL
	}
	return c.rules().ReleaseReason(e)
}

// The reasons for which the place or the name of a probe is refused; package probe has
// those about names and arguments.
var (
	errMaxActNoKprobe  = probe.Reason{Text: "Maxactive is not for kprobe", Errno: syscall.EINVAL}
	errBadMaxAct       = probe.Reason{Text: "Invalid maxactive number", Errno: syscall.EINVAL}
	errMaxActTooBig    = probe.Reason{Text: "Maxactive is too big", Errno: syscall.EINVAL}
	errBadProbeAddr    = probe.Reason{Text: "Invalid probed address or symbol", Errno: syscall.EINVAL}
	errNoProbeAddr     = probe.Reason{Text: "Invalid probed address or symbol", Errno: syscall.ENOENT}
	errBadAddrSuffix   = probe.Reason{Text: "Invalid probed address suffix", Errno: syscall.EINVAL}
	errBadRetprobe     = probe.Reason{Text: "Retprobe address must be an function entry", Errno: syscall.EINVAL}
	errNonUniqSymbol   = probe.Reason{Text: "The symbol is not unique", Errno: syscall.EADDRNOTAVAIL}
	errDiffProbeType   = probe.Reason{Text: "Probe type is different from existing probe", Errno: syscall.EEXIST}
	errSameProbe       = probe.Reason{Text: "There is already the exact same probe event", Errno: syscall.EEXIST}
	errEventExists     = probe.Reason{Text: "Given group/event name is already used by another event", Errno: syscall.EEXIST}
	errBadInsnBoundary = probe.Reason{Text: "Probe point is not an instruction boundary", Errno: syscall.EILSEQ}
	errFailRegProbe    = probe.Reason{Text: "Failed to register probe event", Errno: syscall.EINVAL}
	errDiffArgType     = probe.Reason{Text: "Argument type or name is different from existing probe", Errno: syscall.EEXIST}
	errFileNotFound    = probe.Reason{Text: "Failed to find the given file", Errno: syscall.ENOENT}
	errNoRegularFile   = probe.Reason{Text: "Not a regular file", Errno: syscall.EINVAL}
	errBadUprobeOffs   = probe.Reason{Text: "Invalid uprobe offset", Errno: syscall.EINVAL}
	errBadRefCnt       = probe.Reason{Text: "Invalid reference counter offset", Errno: syscall.EINVAL}
	errRefCntOpen      = probe.Reason{Text: "Reference counter brace is not closed", Errno: syscall.EINVAL}
	errBadRefCntSuffix = probe.Reason{Text: "Reference counter has wrong suffix", Errno: syscall.EINVAL}
	errNoEventInfo     = probe.Reason{Text: "This requires both group and event name to attach", Errno: syscall.EINVAL}
	errBadAttachEvent  = probe.Reason{Text: "Attached event does not exist", Errno: syscall.ENODEV}
	errNoEventFilter   = probe.Reason{Text: "No filter rule after 'if'", Errno: syscall.EINVAL}
	errBadTPName       = probe.Reason{Text: "Invalid character in tracepoint name", Errno: syscall.EINVAL}
)
