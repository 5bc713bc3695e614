package tracing

import (
	"fmt"
	"math"
	"strings"
	"sync"

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
