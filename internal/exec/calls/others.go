package calls

import (
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// Arch returns the architecture's number in filters, and whether it is known.
func Arch() (uint32, bool) {
	switch runtime.GOARCH {
	case "amd64":
		return unix.AUDIT_ARCH_X86_64, true
	case "arm64":
		return unix.AUDIT_ARCH_AARCH64, true
	}
	return 0, false
}

// KernelCalls are the numbers of perf_event_open(2) and bpf(2) in one of the kernel's
// system call tables.
type KernelCalls struct {
	Arch      uint32
	Perf, BPF uint32
}

// PlaceCalls are the calls about file systems that may be about ours.
var PlaceCalls = []uint32{unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_FSOPEN, unix.SYS_STATFS, unix.SYS_FSTATFS}

// A 32-bit program, and a 64-bit one that makes calls in the way of 32-bit ones (int 0x80), makes
// the calls that are answered by other numbers. They are answered as the native ones, whose
// arguments they have, in 32 bits.

// Foreign is a call in another of the kernel's system call tables.
type Foreign struct {
	Arch, Nr uint32
	Native   uint32 // the number of the call that does the same
	// Shape is how the names are written that uname(2) writes, if it is another one than the native call's.
	Shape UnameShape
}

// UnameShape is how uname(2) writes names.
type UnameShape struct {
	Length int // of each name, with its final zero, bytes
	Names  int
}

// Shapes of uname(2): struct new_utsname, old_utsname and oldold_utsname.
var (
	NewUname    = UnameShape{65, 6}
	oldUname    = UnameShape{65, 5}
	oldoldUname = UnameShape{9, 5}
)

// PlaceForeign are the calls of PlaceCalls that ForeignCalls has.
var PlaceForeign = []uint32{unix.SYS_MOUNT, unix.SYS_FSOPEN}

// EndedByStop reports whether a stop of the thread ends a call with EINTR.
func EndedByStop(nr uint64) bool {
	row := Rows[nr]
	return row != nil && row.Stops || nr == unix.SYS_IO_URING_ENTER // which the guest does not make
}

// BPFCommands are the commands of bpf(2) that attach a program to the kernel.
var BPFCommands = []uint32{unix.BPF_PROG_LOAD, unix.BPF_RAW_TRACEPOINT_OPEN, unix.BPF_LINK_CREATE}

// UserProbeCall is a number that no kernel has: a planted uprobe makes a call with it.
const UserProbeCall = 0x6b7066

// Notified reports whether the supervisor is notified of a call, whatever its arguments are.
func Notified(nr uint64) bool {
	row := Rows[nr]
	return row != nil && row.Told() || slices.Contains(PlaceCalls, uint32(nr)) || nr == unix.SYS_LSEEK || nr == unix.SYS_PRCTL
}
