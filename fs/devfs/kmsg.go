// Package devfs is the part of /dev in the tree: kmsg, the kernel's log, which returns
// one record for each read.
package devfs

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kernel"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/wait"
)

// Log is the kernel's log: *kernel.Log.
type Log interface {
	Bounds() (first, next uint64)
	Get(seq uint64) (r kernel.Record, ok bool, first uint64, more <-chan struct{})
	Append(facility, level int, text string)
	Cleared() uint64
}

// The priority of a write without a prefix, and the maximum length of a write.
const (
	facilityUser = 1
	defaultLevel = kernel.LogWarning
	lineMax      = 992 // LOG_LINE_MAX, bytes
)

// Dev is the directory that stands for /dev.
func Dev(log Log) *seqfile.Row {
	return &seqfile.Row{
		Name: "dev", Mode: 0o755, Kind: seqfile.Devtmpfs, At: "/dev", UsableAfterPanic: true,
		Dir: seqfile.Table{
			{Name: "kmsg", Mode: 0o644, FOps: abi.FOpsDev, Open: openKmsg(log)},
		},
	}
}

// openKmsg is devkmsg_open. Reading requires CAP_SYSLOG, because kernel.dmesg_restrict
// is 1 on Debian.
func openKmsg(log Log) func(context.Context, *seqfile.OpenInfo) (seqfile.File, error) {
	return func(_ context.Context, o *seqfile.OpenInfo) (seqfile.File, error) {
		if o.Flags&syscall.O_ACCMODE != syscall.O_WRONLY && !o.Capable(seqfile.CapSyslog) {
			return nil, fmt.Errorf("kmsg needs CAP_SYSLOG: %w", syscall.EPERM)
		}
		first, _ := log.Bounds()
		return &kmsg{log: log, seq: first, reads: o.Flags&syscall.O_ACCMODE != syscall.O_WRONLY}, nil
	}
}

// kmsg is an open /dev/kmsg.
type kmsg struct {
	log   Log
	reads bool

	mu  sync.Mutex
	seq uint64 // the next record to read
	pos int64  // the position according to the host's kernel
}

var (
	_ seqfile.File   = (*kmsg)(nil)
	_ seqfile.Seeker = (*kmsg)(nil)
	_ seqfile.Poller = (*kmsg)(nil)
)

// Read is devkmsg_read: it returns one record. It fails with EINVAL if the record does
// not fit, and once with EPIPE if records were overwritten before they were read. The
// position has no meaning, except that a position of 0 after another one means
// lseek(SEEK_SET).
func (k *kmsg) Read(ctx context.Context, p []byte, off int64) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if off == 0 && k.pos != 0 {
		k.seq, _ = k.log.Bounds()
	}
	k.pos = off
	text, err := k.next(ctx)
	if err != nil {
		return 0, err
	}
	if len(text) > len(p) {
		return 0, fmt.Errorf("a record of %d bytes: %w", len(text), syscall.EINVAL)
	}
	k.seq++
	n := copy(p, text)
	k.pos += int64(n)
	return n, nil
}

// next waits for the next record and returns its text.
func (k *kmsg) next(ctx context.Context) ([]byte, error) {
	for {
		r, ok, first, more := k.log.Get(k.seq)
		if ok {
			return AppendRecord(nil, r), nil
		}
		if k.seq < first {
			k.seq = first
			return nil, fmt.Errorf("records were overwritten: %w", syscall.EPIPE)
		}
		if seqfile.CallerOf(ctx).FileFlags&syscall.O_NONBLOCK != 0 {
			return nil, fmt.Errorf("no record yet: %w", syscall.EAGAIN)
		}
		if err := k.wait(ctx, more); err != nil {
			return nil, err
		}
	}
}

// wait releases the lock while it waits, so that others can use the file.
func (k *kmsg) wait(ctx context.Context, more <-chan struct{}) error {
	k.mu.Unlock()
	defer k.mu.Lock()
	if !wait.For(ctx, more) {
		return fmt.Errorf("waiting for a record: %w", syscall.EINTR)
	}
	return nil
}

// Poll is devkmsg_poll: the file is readable if there is a record, and has an error too
// if one was overwritten before it was read.
func (k *kmsg) Poll() (ready uint32, changed <-chan struct{}, end func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok, first, more := k.log.Get(k.seq)
	switch {
	case !k.reads:
		ready = seqfile.PollNone
	case ok:
		ready = seqfile.PollIn
	case k.seq < first:
		ready = seqfile.PollIn | seqfile.PollLost
	}
	return ready, more, func() {}
}

// Seek is devkmsg_llseek: SEEK_END goes to the end, SEEK_DATA to the first record after
// the last clear (syslog(2)).
func (k *kmsg) Seek(off int64, whence int) (int64, error) {
	if off != 0 {
		return 0, fmt.Errorf("kmsg has no offsets: %w", syscall.ESPIPE)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch whence {
	case seqfile.SeekEnd:
		_, k.seq = k.log.Bounds()
	case seqfile.SeekData:
		first, _ := k.log.Bounds()
		k.seq = max(first, k.log.Cleared())
	default:
		return 0, fmt.Errorf("whence %d: %w", whence, syscall.EINVAL)
	}
	k.pos = 0
	return 0, nil
}

// Write is devkmsg_write.
func (k *kmsg) Write(_ context.Context, p []byte, _ int64) (int, error) {
	if len(p) > lineMax {
		return 0, fmt.Errorf("a line of %d bytes: %w", len(p), syscall.EINVAL)
	}
	facility, level, text := ParsePrefix(string(p))
	k.log.Append(facility, level, text)
	return len(p), nil
}

// Release does nothing.
func (k *kmsg) Release() {}

// ParsePrefix takes "<N>" from the front of a line: N is facility*8+level.
// User space cannot speak for the kernel, facility 0.
func ParsePrefix(line string) (facility, level int, text string) {
	facility, level = facilityUser, defaultLevel
	number, rest, ok := strings.Cut(line, ">")
	if !ok || !strings.HasPrefix(number, "<") {
		return facility, level, line
	}
	n, err := strconv.ParseUint(number[1:], 10, 31)
	if err != nil {
		return facility, level, line
	}
	if n>>3 != 0 {
		facility = int(n >> 3)
	}
	return facility, int(n & 7), rest
}

// AppendRecord appends a record in the format of /dev/kmsg: priority, number,
// microseconds, no flags, and the text with unprintable bytes as \xNN. Lines that begin
// with a space say which device it is about.
func AppendRecord(b []byte, r kernel.Record) []byte {
	b = fmt.Appendf(b, "%d,%d,%d,-;", r.Facility<<3|r.Level, r.Seq, r.Time/1000)
	b = append(appendEscaped(b, r.Text), '\n')
	if r.Subsystem != "" {
		b = append(appendEscaped(append(b, " SUBSYSTEM="...), r.Subsystem), '\n')
	}
	if r.Device != "" {
		b = append(appendEscaped(append(b, " DEVICE="...), r.Device), '\n')
	}
	return b
}

func appendEscaped(b []byte, text string) []byte {
	for i := range len(text) {
		c := text[i]
		if c < ' ' || c >= 127 || c == '\\' {
			b = fmt.Appendf(b, `\x%02x`, c)
			continue
		}
		b = append(b, c)
	}
	return b
}
