package fs

import (
	"context"
	"errors"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/sirupsen/logrus"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// fuseLogLevel is where go-fuse's own lines go.
const fuseLogLevel = logrus.DebugLevel

// maxErrno is the first number that a FUSE reply cannot carry: the host's kernel
// refuses the reply, and the caller would hang.
const maxErrno = 512

// errnoOf gives the number that the caller sees for err; 0 when err has none.
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

// clamp keeps Linux's internal numbers from user space, as a system call's
// return to user space does with ENOTSUPP.
func clamp(e syscall.Errno) syscall.Errno {
	if e == abi.ENOTSUPP || e >= maxErrno {
		return syscall.EOPNOTSUPP
	}
	return e
}

// status is the one place where errors become numbers. An error that has none is
// our own bug: EIO, and a line in the log.
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

// leafError gives a leaf's error the form that a guest can return.
func (t *Tree) leafError(err error) error {
	if err == nil {
		return nil
	}
	return syscall.Errno(t.status(err))
}
