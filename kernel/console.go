package kernel

import (
	"fmt"
	"io"
	"strings"
	"sync/atomic"
)

// The numbers of kernel.printk.
const (
	consoleLevel        = iota // console_loglevel: messages below it come to a console
	messageLevel               // default_message_loglevel
	minimumConsoleLevel        // the lowest that syslog(2) sets
	defaultConsoleLevel        // what console_loglevel is at boot
	printkLevels
)

// consoleLevels are kernel.printk's numbers.
type consoleLevels [printkLevels]atomic.Int32

// bootLevels are Linux's defaults (CONFIG_CONSOLE_LOGLEVEL_DEFAULT, and
// CONFIG_MESSAGE_LOGLEVEL_DEFAULT).
var bootLevels = [printkLevels]int32{7, 4, 1, 7}

func (c *consoleLevels) boot() {
	for i, v := range bootLevels {
		c[i].Store(v)
	}
}

// ConsoleLevels returns the numbers of kernel.printk: console_loglevel,
// default_message_loglevel, minimum_console_loglevel, default_console_loglevel.
func (l *Log) ConsoleLevels() []int {
	levels := make([]int, printkLevels)
	for i := range levels {
		levels[i] = int(l.levels[i].Load())
	}
	return levels
}

// SetConsoleLevels sets the first of these numbers.
func (l *Log) SetConsoleLevels(levels []int) {
	for i, v := range levels[:min(len(levels), printkLevels)] {
		l.levels[i].Store(int32(v))
	}
}

// setConsole does what syslog(2) does with the console: it switches it off and on, or sets
// its level.
func (l *Log) setConsole(action, level int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := &l.levels[consoleLevel]
	switch action {
	case syslogConsoleOff:
		if l.syslog.saved == 0 {
			l.syslog.saved = at.Load()
		}
		at.Store(l.levels[minimumConsoleLevel].Load())
	case syslogConsoleOn:
		if l.syslog.saved != 0 {
			at.Store(l.syslog.saved)
			l.syslog.saved = 0
		}
	case syslogConsoleLevel:
		at.Store(max(int32(level), l.levels[minimumConsoleLevel].Load()))
		l.syslog.saved = 0
	}
}

// console writes the records of the log whose level is below console_loglevel to w, as a
// console shows them, until done is closed and all are written.
func (l *Log) console(w io.Writer, done <-chan struct{}) {
	last := false
	for seq := uint64(0); ; {
		r, ok, first, more := l.Get(seq)
		switch {
		case ok:
			seq++
			if r.Level < int(l.levels[consoleLevel].Load()) {
				_, _ = io.WriteString(w, consoleText(r)) // a console that takes nothing is no reason to stop
			}
		case seq < first: // they were overwritten
			seq = first
		case last:
			return
		default:
			select {
			case <-more:
			case <-done:
				last = true
			}
		}
	}
}

// consoleText formats a record as a console shows it, a line for each of its own.
func consoleText(r Record) string {
	var b strings.Builder
	for line := range strings.SplitSeq(strings.TrimSuffix(r.Text, "\n"), "\n") {
		fmt.Fprintf(&b, "[%5d.%06d] %s\n", r.Time/1e9, r.Time%1e9/1e3, line)
	}
	return b.String()
}
