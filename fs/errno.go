package fs

import (
	"context"
	"errors"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/sirupsen/logrus"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// fuseLogLevel is the level at which go-fuse's messages are logged.
const fuseLogLevel = logrus.DebugLevel

// maxErrno is the first errno that FUSE does not allow. The host's kernel would refuse
// the reply, and the caller would hang.
const maxErrno = 512

// errnoOf returns the errno that the caller gets for err, or 0 if err has none.
func errnoOf(err error) syscall.Errno {
	var e syscall.Errno
	switch {
	case errors.As(err, &e):
		return clamp(e)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return syscall.EINTR
	}
	return 0
}

// clamp replaces errnos that FUSE does not allow, among them ENOTSUPP, which Linux
// returns to user space from some of these files.
func clamp(e syscall.Errno) syscall.Errno {
	if e == abi.ENOTSUPP || e >= maxErrno {
		return syscall.EOPNOTSUPP
	}
	return e
}

// status is the one place where errors become errnos. An error without one is a bug of
// ours: it is logged and becomes EIO.
func (t *Tree) status(err error) fuse.Status {
	if err == nil {
		return fuse.OK
	}
	e := errnoOf(err)
	if e == 0 {
		t.log.WithFields(logrus.Fields{"err": err}).Error("an error without an errno")
		return fuse.EIO
	}
	return fuse.Status(e)
}

// errno returns the errno for err as the result of a file's operation.
func (t *Tree) errno(err error) error {
	if err == nil {
		return nil
	}
	return syscall.Errno(t.status(err))
}
