//go:build !amd64

package main

import (
	"errors"

	"golang.org/x/sys/unix"
)

var oldCalls []tracedCall

// kernelNumbers are the system call tables, the native one first.
var kernelNumbers = []kernelCalls{
	{unix.AUDIT_ARCH_AARCH64, unix.SYS_PERF_EVENT_OPEN, unix.SYS_BPF},
	{unix.AUDIT_ARCH_ARM, 364, 386},
}

// foreignCalls are the calls of answeredCalls and placeForeign in the other tables.
var foreignCalls = []foreignCall{
	{unix.AUDIT_ARCH_ARM, 103, unix.SYS_SYSLOG, unameShape{}},
	{unix.AUDIT_ARCH_ARM, 128, unix.SYS_INIT_MODULE, unameShape{}},
	{unix.AUDIT_ARCH_ARM, 379, unix.SYS_FINIT_MODULE, unameShape{}},
	{unix.AUDIT_ARCH_ARM, 129, unix.SYS_DELETE_MODULE, unameShape{}},
	{unix.AUDIT_ARCH_ARM, 122, unix.SYS_UNAME, unameShape{}},
	{unix.AUDIT_ARCH_ARM, 21, unix.SYS_MOUNT, unameShape{}},
	{unix.AUDIT_ARCH_ARM, 430, unix.SYS_FSOPEN, unameShape{}},
}

// openCalls are the calls that open files.
var openCalls = []uint64{unix.SYS_OPENAT, unix.SYS_OPENAT2}

// toldCalls are the mirrored calls of which the supervisor tells: those of tracedCalls
// that name files, but for execve.
var toldCalls = []uint64{unix.SYS_OPENAT, unix.SYS_OPENAT2, unix.SYS_CHDIR, unix.SYS_SYMLINKAT, unix.SYS_UNLINKAT, unix.SYS_MKDIRAT}

var oldEndedByStop map[int]bool

const sysFstatat, sysCreat = unix.SYS_FSTATAT, 0xffffffff // there is no creat(2)

var oldMirroredCalls []mirroredCall

// setResult sets what the call returns at whose end a thread has stopped.
func setResult(int, int64) error { return errors.ErrUnsupported }
