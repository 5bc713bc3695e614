// Package output is what kernel/trace/trace_output.c does: it makes text of an entry. The
// columns with task, CPU, flags and time (context.go), the text after them by the event's
// print format (printfmt.go) or member by member (fields.go), and symbols (symbols.go).
//
// It knows bytes and members (package field). It does not know events, arrays and
// their options: callers pass the columns to print with their values, and an Env for
// symbols, hashed addresses and memory.
package output

import (
	"fmt"
	"strconv"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
)

// Columns are the columns of a line of trace before the event's own part.
type Columns struct {
	TGID           bool // the option record-tgid
	IRQInfo        bool // the option irq-info
	MigrateDisable bool // the release shows migrate-disable
	Nanoseconds    bool // the clock counts nanoseconds
	Verbose        bool // of latency-format: the option verbose
}

// Context is what the columns show.
type Context struct {
	Comm           [abi.TaskCommLen]byte // the task's name
	PID, TGID      int32                 // TGID is 0 if it is not known
	CPU            int
	Flags, Preempt byte // as in struct trace_entry
	Time           int64

	// For latency-format.
	Index int   // of the line, from 0
	Since int64 // time since the start of the trace
	Delta int64 // time until the next entry
}

// AppendHeader is print_func_help_header and print_func_help_header_irq: the names of
// the columns.
func (c Columns) AppendHeader(b []byte) []byte {
	tgid, gap, bar := "", "", ""
	if c.TGID {
		tgid, gap, bar = "   TGID   ", "          ", "     |    "
	}
	if !c.IRQInfo {
		b = fmt.Appendf(b, "#           TASK-PID    %s CPU#     TIMESTAMP  FUNCTION\n", tgid)
		return fmt.Appendf(b, "#              | |      %s   |         |         |\n", bar)
	}
	rows, bars, time := contextColumns[:], "|||||", "  "
	if !c.MigrateDisable {
		rows, bars, time = fourColumns[:], "||||", "   "
	}
	for _, row := range rows {
		b = append(append(append(append(b, "#                            "...), gap...), row...), '\n')
	}
	b = fmt.Appendf(b, "#           TASK-PID    %s CPU#  %s%sTIMESTAMP  FUNCTION\n", tgid, bars, time)
	return fmt.Appendf(b, "#              | |      %s   |   %s%s   |         |\n", bar, bars, time)
}

var fourColumns = [...]string{
	"    _-----=> irqs-off", "   / _----=> need-resched", "  | / _---=> hardirq/softirq",
	"  || / _--=> preempt-depth", "  ||| /     delay",
}

var contextColumns = [...]string{
	"    _-----=> irqs-off/BH-disabled", "   / _----=> need-resched", "  | / _---=> hardirq/softirq",
	"  || / _--=> preempt-depth", "  ||| / _-=> migrate-disable", "  |||| /     delay",
}

// AppendLatencyHeader is print_lat_help_header: the names of the columns of
// latency-format.
func (c Columns) AppendLatencyHeader(b []byte) []byte {
	if !c.MigrateDisable {
		return append(b, fourLatencyColumns...)
	}
	return append(b, latencyColumns...)
}

const fourLatencyColumns = "" +
	"#                    _------=> CPU#            \n" +
	"#                   / _-----=> irqs-off        \n" +
	"#                  | / _----=> need-resched    \n" +
	"#                  || / _---=> hardirq/softirq \n" +
	"#                  ||| / _--=> preempt-depth   \n" +
	"#                  |||| /     delay            \n" +
	"#  cmd     pid     ||||| time  |   caller      \n" +
	"#     \\   /        |||||  \\    |   /         \n"

const latencyColumns = "" +
	"#                    _------=> CPU#            \n" +
	"#                   / _-----=> irqs-off/BH-disabled\n" +
	"#                  | / _----=> need-resched    \n" +
	"#                  || / _---=> hardirq/softirq \n" +
	"#                  ||| / _--=> preempt-depth   \n" +
	"#                  |||| / _-=> migrate-disable \n" +
	"#                  ||||| /     delay           \n" +
	"#  cmd     pid     |||||| time  |   caller     \n" +
	"#     \\   /        ||||||  \\    |    /       \n"

// AppendTask is trace_print_context: it appends the columns of a line.
func (c Columns) AppendTask(b []byte, x *Context) []byte {
	name := field.CutNUL(x.Comm[:])
	b = append(append(appendBlanks(b, 16-len(name)), name...), '-')
	begin := len(b)
	b = strconv.AppendInt(b, int64(x.PID), 10)
	b = append(appendBlanks(b, begin+7-len(b)), ' ')
	if c.TGID {
		if x.TGID != 0 {
			b = fmt.Appendf(b, "(%7d) ", x.TGID)
		} else {
			b = append(b, "(-------) "...)
		}
	}
	b = append(appendUint(append(b, '['), uint64(x.CPU), 3, '0'), "] "...)
	if c.IRQInfo {
		b = c.AppendFlags(b, x.Flags, x.Preempt)
	}
	return c.appendTime(b, x.Time)
}

// AppendLatency is trace_print_lat_context: it appends the columns of latency-format.
func (c Columns) AppendLatency(b []byte, x *Context) []byte {
	name, since, delta := string(field.CutNUL(x.Comm[:])), x.Since, x.Delta
	if c.Nanoseconds {
		since, delta = usecs(since), usecs(delta)
	}
	if c.Verbose {
		b = fmt.Appendf(b, "%16s %7d %3d %d %08x %08x ", name, x.PID, x.CPU, x.Flags, x.Preempt, x.Index)
		if c.Nanoseconds {
			return fmt.Appendf(b, "[%08x] %d.%03dms (+%d.%03dms): ",
				usecs(x.Time), since/1000, since%1000, delta/1000, delta%1000)
		}
		return fmt.Appendf(b, "[%016x] %d (+%d): ", uint64(x.Time), since, delta)
	}
	b = fmt.Appendf(b, "%8.8s-%-7d %3d", name, x.PID, x.CPU)
	b = c.AppendFlags(b, x.Flags, x.Preempt)
	if !c.Nanoseconds {
		return fmt.Appendf(b, " %4d: ", since)
	}
	return fmt.Appendf(b, " %4dus%c: ", since, DelayMark(x.Delta))
}

func usecs(ns int64) int64 { return (ns + 500) / 1000 }

// DelayMark is trace_find_mark: a mark for a time of so many nanoseconds; ' ' if it is short.
func DelayMark(ns int64) byte {
	for _, m := range delayMarks {
		if ns > m.longer {
			return m.mark
		}
	}
	return ' '
}

var delayMarks = [...]struct {
	longer int64
	mark   byte
}{{1e9, '$'}, {1e8, '@'}, {1e7, '*'}, {1e6, '#'}, {1e5, '!'}, {1e4, '+'}}

// AppendFlags is trace_print_lat_fmt: the columns of one character each.
func (c Columns) AppendFlags(b []byte, flags, preempt byte) []byte {
	has := func(bits byte) bool { return flags&bits == bits }
	irqs, resched, irq := byte('.'), byte('.'), byte('.')
	switch {
	case has(field.FlagIRQsOff | field.FlagBHOff):
		irqs = 'D'
	case has(field.FlagIRQsOff):
		irqs = 'd'
	case has(field.FlagBHOff):
		irqs = 'b'
	}
	switch {
	case has(field.FlagNeedResched | field.FlagPreemptNeeded):
		resched = 'N'
	case has(field.FlagNeedResched):
		resched = 'n'
	case has(field.FlagPreemptNeeded):
		resched = 'p'
	}
	switch {
	case has(field.FlagNMI | field.FlagHardirq):
		irq = 'Z'
	case has(field.FlagNMI):
		irq = 'z'
	case has(field.FlagHardirq | field.FlagSoftirq):
		irq = 'H'
	case has(field.FlagHardirq):
		irq = 'h'
	case has(field.FlagSoftirq):
		irq = 's'
	}
	b = append(b, irqs, resched, irq, nibble(preempt&0xf))
	if !c.MigrateDisable {
		return b
	}
	return append(b, nibble(preempt>>4))
}

func nibble(n byte) byte {
	if n == 0 {
		return '.'
	}
	return "0123456789abcdef"[n]
}

// appendTime is trace_print_time.
func (c Columns) appendTime(b []byte, time int64) []byte {
	if !c.Nanoseconds {
		return append(appendUint(append(b, ' '), uint64(time), 12, ' '), ": "...)
	}
	return append(AppendSeconds(append(b, ' '), time), ": "...)
}

// AppendSeconds appends a time in nanoseconds as seconds, 5 columns wide.
func AppendSeconds(b []byte, ns int64) []byte {
	usec := (uint64(ns) + 500) / 1000
	return appendUint(append(appendUint(b, usec/1e6, 5, ' '), '.'), usec%1e6, 6, '0')
}

// appendUint is %*d, padded with blanks or zeroes.
func appendUint(b []byte, v uint64, width int, pad byte) []byte {
	var digits [20]byte
	d := strconv.AppendUint(digits[:0], v, 10)
	for n := len(d); n < width; n++ {
		b = append(b, pad)
	}
	return append(b, d...)
}

func appendBlanks(b []byte, n int) []byte {
	for range n {
		b = append(b, ' ')
	}
	return b
}
