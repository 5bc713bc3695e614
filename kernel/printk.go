package kernel

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// logBytes is the size of the log: Debian sets CONFIG_LOG_BUF_SHIFT to 17.
const logBytes = 1 << 17

// LogLevels of printk, as in /dev/kmsg's first field.
const (
	LogEmerg = iota
	LogAlert
	LogCrit
	LogErr
	LogWarning
	LogNotice
	LogInfo
	LogDebug
)

// Record is one record of the kernel's log.
type Record struct {
	Seq      uint64
	Time     int64 // nanoseconds since boot
	Level    int   // 0 to 7
	Facility int   // 0 for the kernel, 1 for user space, which writes to /dev/kmsg
	Text     string

	// Subsystem and Device say which device the record is about (SUBSYSTEM= and DEVICE=);
	// they are empty if it is about none.
	Subsystem, Device string
}

// The sizes of a struct dev_printk_info's parts, bytes.
const (
	subsystemBytes = 16
	deviceBytes    = 48
)

// Log is the kernel's log (printk's ring buffer). Records are numbered from 0;
// the oldest are dropped when the buffer is full.
type Log struct {
	now func() int64

	mu     sync.Mutex
	recs   []Record // recs[i].Seq == first+i
	first  uint64
	bytes  int
	open   *Record // a line that has not ended, which readers do not see; nil if there is none
	owner  uint64  // the task that has begun it
	syslog syslogState
	levels consoleLevels
	more   chan struct{} // closed and replaced at each record
}

func newLog(now func() int64) *Log {
	l := &Log{now: now, more: make(chan struct{})}
	l.levels.boot()
	return l
}

// Printk appends a record. Its text may have several lines, as in Linux's
// printk; a newline at the end is dropped.
func (l *Log) Printk(level int, format string, args ...any) {
	l.Append(0, level, fmt.Sprintf(format, args...))
}

// Append adds a record with a facility and a level.
func (l *Log) Append(facility, level int, text string) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endLine()
	l.add(Record{Time: now, Level: level & 7, Facility: facility, Text: strings.TrimSuffix(text, "\n")})
	l.wake()
}

// maxLine is the largest text of a record that goes on (LOG_LINE_MAX), bytes.
const maxLine = 1024

// store adds what the guest's printk prints. A text that does not end its line is a
// record of its own as soon as another one is printed; until then its task may go on with
// it. flags are abi.PrintkOpen and abi.PrintkCont.
func (l *Log) store(task uint64, r Record, flags uint64) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if flags&abi.PrintkCont != 0 && l.open != nil && l.owner == task && len(l.open.Text)+len(r.Text) <= maxLine {
		l.open.Text += r.Text
	} else {
		l.endLine()
		r.Time = now
		l.open, l.owner = &r, task
	}
	if flags&abi.PrintkOpen == 0 {
		l.endLine()
	}
	l.wake()
}

// endLine makes a record of the line that has not ended. The caller holds mu.
func (l *Log) endLine() {
	if l.open != nil {
		l.add(*l.open)
		l.open = nil
	}
}

// wake wakes the readers. The caller holds mu.
func (l *Log) wake() {
	close(l.more)
	l.more = make(chan struct{})
}

func (l *Log) add(r Record) {
	r.Seq = l.first + uint64(len(l.recs))
	l.recs = append(l.recs, r)
	l.bytes += recordSize(r)
	for l.bytes > logBytes && len(l.recs) > 1 {
		l.bytes -= recordSize(l.recs[0])
		l.recs = l.recs[1:]
		l.first++
	}
}

func recordSize(r Record) int { return len(r.Text) + len(r.Subsystem) + len(r.Device) + 64 }

// Bounds returns the numbers of the oldest record and of the next one to be written.
func (l *Log) Bounds() (first, next uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first, l.first + uint64(len(l.recs))
}

// Get returns record seq. ok is false when it was overwritten (seq is below
// first) or does not exist yet; in the latter case more is closed when the next
// record arrives.
func (l *Log) Get(seq uint64) (r Record, ok bool, first uint64, more <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if seq < l.first || seq >= l.first+uint64(len(l.recs)) {
		return Record{}, false, l.first, l.more
	}
	return l.recs[seq-l.first], true, l.first, l.more
}

// since returns the records from seq on.
func (l *Log) since(seq uint64) []Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endLine()
	if seq < l.first {
		seq = l.first
	}
	return slices.Clone(l.recs[min(seq-l.first, uint64(len(l.recs))):])
}
