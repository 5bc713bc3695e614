package supervise

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/internal/exec/calls"
	"github.com/kprobefs/kprobefs/internal/exec/doorbell"
)

// perfMapFilter notifies of mmap(2) of a file, MAP_SHARED, if it is readable and writable, or a page
// and a power of two of them. Few other mappings are so.
func perfMapFilter() []unix.SockFilter {
	const (
		load   = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		answer = unix.BPF_RET | unix.BPF_K
		and    = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
		sub    = unix.BPF_ALU | unix.BPF_SUB | unix.BPF_K
		arg    = 16
	)
	return []unix.SockFilter{
		{Code: equal, K: unix.SYS_MMAP, Jf: 15},
		{Code: load, K: arg + 8*4},               // fd
		{Code: equal, K: 1<<32 - 1, Jt: 12},      // allow
		{Code: load, K: arg + 8*3},               // flags
		{Code: and, K: 3},                        // MAP_SHARED, MAP_PRIVATE
		{Code: equal, K: unix.MAP_SHARED, Jf: 9}, // allow
		{Code: load, K: arg + 8*2},               // prot
		{Code: equal, K: unix.PROT_READ | unix.PROT_WRITE, Jt: 6},
		{Code: load, K: arg + 8*1}, // length
		{Code: sub, K: 4096},
		{Code: unix.BPF_MISC | unix.BPF_TAX},
		{Code: sub, K: 1},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_X},
		{Code: equal, K: 0, Jf: 1},
		{Code: answer, K: unix.SECCOMP_RET_USER_NOTIF},
		{Code: answer, K: unix.SECCOMP_RET_ALLOW},
	}
}

// openFilter notifies of a call that opens a file, unless that is quiet (calls.Row.Quiet).
func openFilter(c *calls.Row) []unix.SockFilter {
	const (
		load   = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		anyBit = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
		answer = unix.BPF_RET | unix.BPF_K
		arg    = 16
	)
	ask := unix.SockFilter{Code: answer, K: unix.SECCOMP_RET_USER_NOTIF}
	allow := unix.SockFilter{Code: answer, K: unix.SECCOMP_RET_ALLOW}
	f := []unix.SockFilter{
		{Code: load, K: arg + 8*uint32(c.Arg(calls.IsOpenFlags))},
		{Code: anyBit, K: unix.O_DIRECTORY, Jf: 1},
		allow,
	}
	if dir := c.Arg(calls.IsDir); dir >= 0 {
		f = append(f,
			unix.SockFilter{Code: anyBit, K: unix.O_NOFOLLOW, Jf: 3},
			unix.SockFilter{Code: load, K: arg + 8*uint32(dir)},
			unix.SockFilter{Code: equal, K: 1<<32 + unix.AT_FDCWD, Jt: 1},
			allow)
	}
	f = append(f, ask)
	return append([]unix.SockFilter{{Code: equal, K: uint32(c.Host), Jf: uint8(len(f))}}, f...)
}

// ringFilter leaves the numbers by which programs ring to the tracer.
func ringFilter() []unix.SockFilter {
	const atLeast = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	return []unix.SockFilter{
		{Code: atLeast, K: doorbell.Base, Jf: 2},
		{Code: atLeast, K: doorbell.Base + doorbell.Calls, Jt: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_TRACE},
	}
}

// Notified says of which calls the filter notifies, as the fields of Supervised do.
type Notified struct{ Quiet, Plain, Maps bool }

// callFilter notifies of lseek(2) with SEEK_CUR, of prctl(2) with PR_SET_NAME and
// PR_SET_MEMORY_MERGE, of splice(2), of PlaceCalls, of told, with Quiet without those that are quiet (calls.Row.Quiet), of kernel, which are numbers of kernelCalls,
// of perf_event_open(2), of mmap(2) where that may be of what it has returned, of PERF_EVENT_IOC_SET_BPF,
// of what may follow such an mmap(2) (perfcalls.go) unless Maps is set, of UserProbeCall, of prlimit(2) of RLIMIT_MEMLOCK, and of
// bpf(2), and of readlink(2) (procnames.go), and allows everything else. In the other system call tables that
// programs on this machine may use it knows only perf_event_open(2), bpf(2) with one of BPFCommands, and ForeignCalls. Offsets are in
// struct seccomp_data: 0 nr, 4 arch, 16+8n the arguments.
func callFilter(arch uint32, told []*calls.Row, kernel []uint32, of Notified) []unix.SockFilter {
	const (
		load   = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		answer = unix.BPF_RET | unix.BPF_K
	)
	ask := unix.SockFilter{Code: answer, K: unix.SECCOMP_RET_USER_NOTIF}
	allow := unix.SockFilter{Code: answer, K: unix.SECCOMP_RET_ALLOW}
	// only notifies when the call has the number nr, and its argument is one of the values, if there are any.
	only := func(f []unix.SockFilter, nr uint32, argument int, values ...uint32) []unix.SockFilter {
		if len(values) == 0 {
			return append(f, unix.SockFilter{Code: equal, K: nr, Jf: 1}, ask)
		}
		n := uint8(len(values))
		f = append(f, unix.SockFilter{Code: equal, K: nr, Jf: n + 3}, unix.SockFilter{Code: load, K: 16 + 8*uint32(argument)})
		for i, v := range values {
			f = append(f, unix.SockFilter{Code: equal, K: v, Jt: n - uint8(i)})
		}
		return append(f, allow, ask)
	}
	f := []unix.SockFilter{{Code: load, K: 4}, {Code: equal, K: arch, Jt: 1}, {Code: unix.BPF_JMP | unix.BPF_JA}, {Code: load, K: 0}}
	const skip = 2 // the jump to the other tables
	if arch == unix.AUDIT_ARCH_X86_64 {
		f = append(f, ringFilter()...)
	}
	for _, c := range told {
		if of.Quiet && c.Arg(calls.IsOpenFlags) >= 0 {
			f = append(f, openFilter(c)...)
		} else {
			f = only(f, uint32(c.Host), 0)
		}
	}
	for _, nr := range append(slices.Clone(kernel), calls.PlaceCalls...) {
		f = only(f, nr, 0)
	}
	f = only(f, unix.SYS_PRCTL, 0, unix.PR_SET_NAME, unix.PR_SET_MEMORY_MERGE)
	f = only(f, unix.SYS_LSEEK, 2, unix.SEEK_CUR)
	f = only(f, unix.SYS_SPLICE, 0)
	ioctls := []uint32{unix.PERF_EVENT_IOC_SET_BPF}
	if !of.Maps {
		ioctls = append(ioctls, swapBackIoctls...)
		f = only(f, unix.SYS_EPOLL_CTL, 1, unix.EPOLL_CTL_ADD)
	}
	f = only(f, unix.SYS_IOCTL, 1, ioctls...)
	f = only(f, calls.UserProbeCall, 0)
	for _, nr := range calls.ReadlinkCalls {
		f = only(f, nr, 0)
	}
	f = only(f, unix.SYS_PRLIMIT64, 1, unix.RLIMIT_MEMLOCK)
	f = append(f, perfMapFilter()...)
	others := []unix.SockFilter{}
	foreign := func(f []unix.SockFilter, arch uint32) []unix.SockFilter {
		for _, c := range calls.ForeignCalls {
			if c.Arch == arch && (slices.Contains(kernel, c.Native) || slices.Contains(calls.PlaceForeign, c.Native)) {
				f = only(f, c.Nr, 0)
			}
		}
		return f
	}
	for i, k := range calls.KernelNumbers {
		if k.Arch == arch {
			f = only(only(f, k.Perf, 0), k.BPF, 0)
			if i == 0 {
				f = foreign(f, arch)
			}
			continue
		}
		of := foreign(only(only([]unix.SockFilter{{Code: load, K: 0}}, k.Perf, 0), k.BPF, 0, calls.BPFCommands...), k.Arch)
		others = append(others, unix.SockFilter{Code: load, K: 4}, unix.SockFilter{Code: equal, K: k.Arch, Jf: uint8(len(of))})
		others = append(others, of...)
	}
	f = append(f, allow)
	f[skip].K = uint32(len(f) - skip - 1)
	return append(append(f, others...), allow)
}

// FilterSelf installs the filter on this thread, which will execute the command, and
// sends the listener. It notifies of no open that is quiet (calls.Row.Quiet) if Quiet is set, and of no plain call
// (calls.Row.Plain) unless Plain is set.
func FilterSelf(kernel Identity, of Notified) error {
	arch, ok := calls.Arch()
	if !ok {
		return fmt.Errorf("no filter for %s: %w", runtime.GOARCH, errors.ErrUnsupported)
	}
	told := calls.Told
	if !of.Plain {
		told = slices.DeleteFunc(slices.Clone(told), (*calls.Row).Plain)
	}
	filter := callFilter(arch, told, kernel.numbers(), of)
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	// A call that has been reported must not be reported again because of a signal.
	const waitKillable = 1 << 5 // SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, since Linux 5.19
	listener, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|waitKillable, uintptr(unsafe.Pointer(&prog)))
	if errno == unix.EINVAL {
		listener, _, errno = unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
			unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&prog)))
	}
	if errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	defer unix.Close(int(listener))
	return unix.Sendmsg(3, []byte{0}, unix.UnixRights(int(listener)), nil, 0)
}
