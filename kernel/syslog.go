package kernel

import (
	"context"
	"fmt"
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/wait"
)

// Actions of syslog(2) (SYSLOG_ACTION_*).
const (
	syslogClose = iota
	syslogOpen
	syslogRead
	syslogReadAll
	syslogReadClear
	syslogClear
	syslogConsoleOff
	syslogConsoleOn
	syslogConsoleLevel
	syslogSizeUnread
	syslogSizeBuffer
)

// syslogState is what syslog(2) remembers of the log. Log.mu guards it.
type syslogState struct {
	cleared uint64 // the first record after the last clear
	next    uint64 // the first record that SYSLOG_ACTION_READ has not returned
	partial int    // how many bytes of its text were returned
	saved   int32  // console_loglevel before the console was switched off, or 0
}

// Syslog is syslog(2) without the check of permissions: it returns what is to be copied
// to the caller's buffer, and the call's result, which is the number of bytes of that
// text if there is one. size is the call's length in bytes, null says that its buffer is
// NULL. It fails with EINVAL for an unknown action or a length out of range, and, while
// SYSLOG_ACTION_READ waits for a record, with EINTR if ctx ends. The levels of the
// console are kernel.printk's.
func (l *Log) Syslog(ctx context.Context, action, size int, null bool) (text []byte, ret int, err error) {
	switch action {
	case syslogClose, syslogOpen:
	case syslogConsoleOff, syslogConsoleOn:
		l.setConsole(action, 0)
	case syslogRead, syslogReadAll, syslogReadClear:
		if null || size < 0 {
			return nil, 0, fmt.Errorf("a buffer of %d bytes: %w", size, syscall.EINVAL)
		}
		if size == 0 {
			return nil, 0, nil
		}
		if action == syslogRead {
			text, err = l.readNext(ctx, size)
			return text, len(text), err
		}
		text = l.readAll(size, action == syslogReadClear)
		return text, len(text), nil
	case syslogClear:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.syslog.cleared = l.first + uint64(len(l.recs))
	case syslogConsoleLevel:
		if size < 1 || size > 8 {
			return nil, 0, fmt.Errorf("console level %d: %w", size, syscall.EINVAL)
		}
		l.setConsole(action, size)
	case syslogSizeUnread:
		return nil, l.unread(), nil
	case syslogSizeBuffer:
		return nil, logBytes, nil
	default:
		return nil, 0, fmt.Errorf("action %d: %w", action, syscall.EINVAL)
	}
	return nil, 0, nil
}

// Cleared returns the number of the first record after the last clear.
func (l *Log) Cleared() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.syslog.cleared
}

// readAll is syslog_print_all: the last records since the last clear that fit into size
// bytes, each as a whole.
func (l *Log) readAll(size int, clear bool) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := len(l.recs)
	oldest := int(max(l.syslog.cleared, l.first) - l.first)
	for n := 0; from > oldest; from-- {
		if n += len(appendSyslog(nil, l.recs[from-1])); n > size {
			break
		}
	}
	var text []byte
	for _, r := range l.recs[from:] {
		text = appendSyslog(text, r)
	}
	if clear {
		l.syslog.cleared = l.first + uint64(len(l.recs))
	}
	return text
}

// readNext is syslog_print: it waits for a record that was not read, and returns at most
// size bytes of those. Only the first record may be returned in part.
func (l *Log) readNext(ctx context.Context, size int) ([]byte, error) {
	for {
		text, more := l.takeNext(size)
		if len(text) > 0 {
			return text, nil
		}
		if !wait.For(ctx, more) {
			return nil, fmt.Errorf("waiting for a record: %w", syscall.EINTR)
		}
	}
}

func (l *Log) takeNext(size int) (text []byte, more <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.unreadRecords() {
		line := appendSyslog(nil, r)[l.syslog.partial:]
		if len(line) > size-len(text) {
			if len(text) == 0 {
				text = line[:size]
				l.syslog.partial += size
			}
			break
		}
		text = append(text, line...)
		l.syslog.next, l.syslog.partial = r.Seq+1, 0
	}
	return text, l.more
}

func (l *Log) unread() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, r := range l.unreadRecords() {
		n += len(appendSyslog(nil, r))
	}
	return n - l.syslog.partial
}

// unreadRecords returns the records that SYSLOG_ACTION_READ has not returned as a whole.
func (l *Log) unreadRecords() []Record {
	if l.syslog.next < l.first {
		l.syslog.next, l.syslog.partial = l.first, 0
	}
	return l.recs[l.syslog.next-l.first:]
}

// appendSyslog appends a record as record_print_text does: before each line its priority
// and its time.
func appendSyslog(b []byte, r Record) []byte {
	for line := range strings.SplitSeq(r.Text, "\n") {
		b = fmt.Appendf(b, "<%d>[%5d.%06d] %s\n", r.Facility<<3|r.Level, r.Time/1e9, r.Time%1e9/1e3, line)
	}
	return b
}
