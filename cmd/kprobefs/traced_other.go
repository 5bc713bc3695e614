//go:build !amd64

package main

import "golang.org/x/sys/unix"

var oldCalls []tracedCall

// kernelNumbers are the system call tables, the native one first.
var kernelNumbers = []kernelCalls{
	{unix.AUDIT_ARCH_AARCH64, unix.SYS_PERF_EVENT_OPEN, unix.SYS_BPF},
	{unix.AUDIT_ARCH_ARM, 364, 386},
}
