package procfs

import (
	"context"
	"fmt"
	"syscall"

	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kernel"
)

// Log is the kernel's log: *kernel.Log.
type Log interface {
	Bounds() (first, next uint64)
	Get(seq uint64) (r kernel.Record, ok bool, first uint64, more <-chan struct{})
	Syslog(ctx context.Context, action, size int, null bool) (text []byte, ret int, err error)
}

// The actions of syslog(2) that /proc/kmsg does.
const (
	syslogRead       = 2
	syslogSizeUnread = 9
)

// openKmsg is kmsg_open, which needs CAP_SYSLOG.
func openKmsg(log Log) func(context.Context, *seqfile.OpenInfo) (seqfile.File, error) {
	return func(_ context.Context, o *seqfile.OpenInfo) (seqfile.File, error) {
		if !o.Capable(seqfile.CapSyslog) {
			return nil, fmt.Errorf("kmsg needs CAP_SYSLOG: %w", syscall.EPERM)
		}
		return kmsg{log}, nil
	}
}

// kmsg is an open /proc/kmsg. All share what has been read with syslog(2).
type kmsg struct{ log Log }

var (
	_ seqfile.File   = kmsg{}
	_ seqfile.Poller = kmsg{}
)

// Read is kmsg_read: it returns records that were not read, and waits for one. It fails with
// EAGAIN, with O_NONBLOCK, if there is none.
func (k kmsg) Read(ctx context.Context, p []byte, _ int64) (int, error) {
	if seqfile.CallerOf(ctx).FileFlags&syscall.O_NONBLOCK != 0 && k.unread() == 0 {
		return 0, fmt.Errorf("no record yet: %w", syscall.EAGAIN)
	}
	text, _, err := k.log.Syslog(ctx, syslogRead, len(p), false)
	return copy(p, text), err
}

func (k kmsg) unread() int {
	_, n, _ := k.log.Syslog(context.Background(), syslogSizeUnread, 0, true)
	return n
}

// Poll is kmsg_poll: the file is readable if there is a record that was not read.
func (k kmsg) Poll() (ready uint32, changed <-chan struct{}, end func()) {
	_, next := k.log.Bounds()
	_, _, _, more := k.log.Get(next)
	if k.unread() > 0 {
		ready = seqfile.PollIn
	}
	return ready, more, func() {}
}

// Write fails with EIO: Linux's file has no write.
func (kmsg) Write(context.Context, []byte, int64) (int, error) {
	return 0, fmt.Errorf("kmsg cannot be written: %w", syscall.EIO)
}

// Release does nothing.
func (kmsg) Release() {}
