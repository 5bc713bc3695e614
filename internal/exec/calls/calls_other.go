//go:build !amd64

package calls

import "golang.org/x/sys/unix"

// ReadlinkCalls are readlinkat(2): there is no readlink(2).
var ReadlinkCalls = []uint32{unix.SYS_READLINKAT}

// KernelNumbers are the system call tables, the native one first.
var KernelNumbers = []KernelCalls{
	{unix.AUDIT_ARCH_AARCH64, unix.SYS_PERF_EVENT_OPEN, unix.SYS_BPF},
	{unix.AUDIT_ARCH_ARM, 364, 386},
}

// ForeignCalls are the calls about the kernel, and of PlaceForeign, in the other tables.
var ForeignCalls = []Foreign{
	{unix.AUDIT_ARCH_ARM, 103, unix.SYS_SYSLOG, UnameShape{}},
	{unix.AUDIT_ARCH_ARM, 128, unix.SYS_INIT_MODULE, UnameShape{}},
	{unix.AUDIT_ARCH_ARM, 379, unix.SYS_FINIT_MODULE, UnameShape{}},
	{unix.AUDIT_ARCH_ARM, 129, unix.SYS_DELETE_MODULE, UnameShape{}},
	{unix.AUDIT_ARCH_ARM, 122, unix.SYS_UNAME, UnameShape{}},
	{unix.AUDIT_ARCH_ARM, 21, unix.SYS_MOUNT, UnameShape{}},
	{unix.AUDIT_ARCH_ARM, 430, unix.SYS_FSOPEN, UnameShape{}},
}

const sysFstatat = unix.SYS_FSTATAT

// SysCreat is the number of creat(2), which this machine does not have.
const SysCreat = 0xffffffff

var oldRows []Row
