package supervise

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/internal/exec/calls"
	"github.com/kprobefs/kprobefs/internal/exec/doorbell"
)

// TestCallFilter: the filter notifies the supervisor of native lseek with SEEK_CUR,
// prctl with PR_SET_NAME or PR_SET_MEMORY_MERGE, splice, mount, perf_event_open, bpf commands
// that attach, and the traced calls, and of no others.
func TestCallFilter(t *testing.T) {
	arch, ok := calls.Arch()
	if !ok {
		t.Skip("no filter for this architecture")
	}
	type call struct {
		name     string
		arch, nr uint32
		arg0     uint32
		arg2     uint32
		Ready    bool
	}
	last := calls.KernelNumbers[len(calls.KernelNumbers)-1]
	cases := []call{
		{"position", arch, unix.SYS_LSEEK, 0, unix.SEEK_CUR, true},
		{"set", arch, unix.SYS_LSEEK, 0, unix.SEEK_SET, false},
		{"end", arch, unix.SYS_LSEEK, 0, unix.SEEK_END, false},
		{"name", arch, unix.SYS_PRCTL, unix.PR_SET_NAME, 0, true},
		{"merge", arch, unix.SYS_PRCTL, unix.PR_SET_MEMORY_MERGE, 1, true},
		{"another prctl", arch, unix.SYS_PRCTL, unix.PR_GET_NAME, unix.SEEK_CUR, false},
		{"mount", arch, unix.SYS_MOUNT, 0, 0, true},
		{"splice", arch, unix.SYS_SPLICE, 0, 0, true},
		{"read", arch, unix.SYS_READ, unix.PR_SET_NAME, unix.SEEK_CUR, false},
		{"write", arch, unix.SYS_WRITE, 0, unix.SEEK_CUR, false},
		{"32 bit", 0x40000003, unix.SYS_LSEEK, 0, unix.SEEK_CUR, false},
		{"perf", arch, unix.SYS_PERF_EVENT_OPEN, 0, 0, true},
		{"a map of bpf", arch, unix.SYS_BPF, unix.BPF_MAP_CREATE, unix.SEEK_CUR, true},
		{"a program of bpf", arch, unix.SYS_BPF, unix.BPF_PROG_LOAD, 0, true},
		{"a raw tracepoint of bpf", arch, unix.SYS_BPF, unix.BPF_RAW_TRACEPOINT_OPEN, 0, true},
		{"a link of bpf", arch, unix.SYS_BPF, unix.BPF_LINK_CREATE, 0, true},
		{"32 bit perf", last.Arch, last.Perf, 0, 0, true},
		{"32 bit map of bpf", last.Arch, last.BPF, unix.BPF_MAP_CREATE, 0, false},
		{"32 bit program of bpf", last.Arch, last.BPF, unix.BPF_PROG_LOAD, 0, true},
		{"perf's number elsewhere", 0x40000028 ^ 0xff, last.Perf, 0, 0, false},
		{"32 bit open", 0x40000003, unix.SYS_OPENAT, 0, 0, false},
	}
	for _, c := range calls.Told {
		cases = append(cases, call{"traced", arch, uint32(c.Host), 0, 0, true})
	}
	for _, tt := range cases {
		data := map[uint32]uint32{0: tt.nr, 4: tt.arch, 16: tt.arg0, 32: tt.arg2}
		if got := runFilter(callFilter(arch, calls.Told, Identity{}.numbers(), Notified{}), data) == unix.SECCOMP_RET_USER_NOTIF; got != tt.Ready {
			t.Errorf("%s (%d): asks %v, want %v", tt.name, tt.nr, got, tt.Ready)
		}
	}
}

// TestRings: the numbers by which programs ring are the tracer's.
func TestRings(t *testing.T) {
	if arch, ok := calls.Arch(); !ok || arch != unix.AUDIT_ARCH_X86_64 {
		t.Skip("nothing rings here")
	}
	filter := callFilter(unix.AUDIT_ARCH_X86_64, calls.Told, Identity{}.numbers(), Notified{Quiet: true})
	for nr, want := range map[uint32]uint32{
		doorbell.Base - 1: unix.SECCOMP_RET_ALLOW, doorbell.Base: unix.SECCOMP_RET_TRACE,
		doorbell.Base + doorbell.Calls - 1: unix.SECCOMP_RET_TRACE, doorbell.Base + doorbell.Calls: unix.SECCOMP_RET_ALLOW,
		1<<31 + doorbell.Base: unix.SECCOMP_RET_ALLOW,
	} {
		if got := runFilter(filter, map[uint32]uint32{0: nr, 4: unix.AUDIT_ARCH_X86_64}); got != want {
			t.Errorf("call %#x: %#x, want %#x", nr, got, want)
		}
	}
}

// TestMaps: the filter notifies of the calls that may follow the mapping of a ring only if its descriptor is exchanged.
func TestMaps(t *testing.T) {
	arch, ok := calls.Arch()
	if !ok {
		t.Skip("no filter")
	}
	for _, maps := range []bool{false, true} {
		filter := callFilter(arch, calls.Told, Identity{}.numbers(), Notified{Maps: maps})
		for _, c := range []struct{ nr, arg1 uint32 }{{unix.SYS_EPOLL_CTL, unix.EPOLL_CTL_ADD}, {unix.SYS_IOCTL, unix.PERF_EVENT_IOC_ENABLE}} {
			if asks := runFilter(filter, map[uint32]uint32{0: c.nr, 4: arch, 24: c.arg1}) == unix.SECCOMP_RET_USER_NOTIF; asks == maps {
				t.Errorf("maps %v, call %d: asks %v", maps, c.nr, asks)
			}
		}
		if runFilter(filter, map[uint32]uint32{0: unix.SYS_IOCTL, 4: arch, 24: unix.PERF_EVENT_IOC_SET_BPF}) != unix.SECCOMP_RET_USER_NOTIF {
			t.Errorf("maps %v: PERF_EVENT_IOC_SET_BPF is not asked for", maps)
		}
	}
}

// TestQuietOpens: the filter notifies of the opens that calls.Row.Quiet does not name, and of no others.
func TestQuietOpens(t *testing.T) {
	arch, ok := calls.Arch()
	if !ok {
		t.Skip("no filter")
	}
	filter := callFilter(arch, calls.Told, Identity{}.numbers(), Notified{Quiet: true})
	cwd := uint64(1<<64 + unix.AT_FDCWD)
	for _, c := range calls.Told {
		if !c.OpensFile() {
			continue
		}
		for _, dir := range []uint64{3, cwd, cwd & (1<<32 - 1)} {
			for _, flags := range []uint64{0, unix.O_WRONLY | unix.O_CREAT, unix.O_DIRECTORY, unix.O_NOFOLLOW, unix.O_NOFOLLOW | unix.O_DIRECTORY} {
				var args [6]uint64
				args[c.Name()+1] = flags
				if dirArg := c.Arg(calls.IsDir); dirArg >= 0 {
					args[dirArg] = dir
				}
				data := map[uint32]uint32{0: uint32(c.Host), 4: arch}
				for i, v := range args {
					data[16+8*uint32(i)] = uint32(v)
				}
				asks := runFilter(filter, data) == unix.SECCOMP_RET_USER_NOTIF
				if quiet := c.Quiet(args); asks == quiet {
					t.Errorf("call %d with %x: asks %v, quiet %v", c.Host, args, asks, quiet)
				}
			}
		}
	}
	if !calls.Rows[unix.SYS_OPENAT].Quiet([6]uint64{3, 0, unix.O_NOFOLLOW}) || calls.Rows[unix.SYS_OPENAT].Quiet([6]uint64{cwd, 0, unix.O_NOFOLLOW}) {
		t.Error("links in a directory that is named by its descriptor")
	}
}

// TestPerfMapFilter: of the calls of mmap(2) those come to the supervisor that may map a ring.
func TestPerfMapFilter(t *testing.T) {
	arch, ok := calls.Arch()
	if !ok {
		t.Skip("no filter for this architecture")
	}
	const read, rw, shared, private = unix.PROT_READ, unix.PROT_READ | unix.PROT_WRITE, unix.MAP_SHARED, unix.MAP_PRIVATE
	for _, tt := range []struct {
		length, prot, flags, fd uint32
		Ready                   bool
	}{
		{528384, rw, shared, 3, true},
		{12345, rw, shared, 3, true},
		{528384, read, shared, 3, true},
		{4096, read, shared, 3, true},
		{8192, read, shared, 3, true},
		{12288, read, shared, 3, true},
		{16384, read, shared, 3, false},
		{27028, read, shared, 3, false},
		{528384, rw, private, 3, false},
		{528384, rw, shared | unix.MAP_ANONYMOUS, 1<<32 - 1, false},
		{8192, read, private | unix.MAP_FIXED | unix.MAP_DENYWRITE, 3, false},
	} {
		data := map[uint32]uint32{0: unix.SYS_MMAP, 4: arch, 24: tt.length, 32: tt.prot, 40: tt.flags, 48: tt.fd}
		if got := runFilter(callFilter(arch, calls.Told, Identity{}.numbers(), Notified{}), data) == unix.SECCOMP_RET_USER_NOTIF; got != tt.Ready {
			t.Errorf("%+v: asks %v", tt, got)
		}
	}
}

// runFilter interprets the part of BPF that the filter uses.
func runFilter(prog []unix.SockFilter, data map[uint32]uint32) uint32 {
	var a, x uint32
	for pc := 0; ; pc++ {
		in := prog[pc]
		switch in.Code & 7 {
		case unix.BPF_LD:
			a = data[in.K]
		case unix.BPF_RET:
			return in.K
		case unix.BPF_MISC: // TAX
			x = a
		case unix.BPF_ALU:
			operand := in.K
			if in.Code&unix.BPF_X != 0 {
				operand = x
			}
			if in.Code&0xf0 == unix.BPF_SUB {
				a -= operand
			} else {
				a &= operand
			}
		case unix.BPF_JMP:
			yes := a == in.K
			switch in.Code & 0xf0 {
			case unix.BPF_JA:
				pc += int(in.K)
				continue
			case unix.BPF_JGE:
				yes = a >= in.K
			case unix.BPF_JSET:
				yes = a&in.K != 0
			}
			if yes {
				pc += int(in.Jt)
			} else {
				pc += int(in.Jf)
			}
		}
	}
}

// TestSwapBackFilter: of what may follow an mmap(2) of a ring, those calls come to the supervisor by which a descriptor
// is used, and no others.
func TestSwapBackFilter(t *testing.T) {
	arch, ok := calls.Arch()
	if !ok {
		t.Skip("no filter for this architecture")
	}
	for _, tt := range []struct {
		nr, argument uint32
		ask          bool
	}{
		{unix.SYS_IOCTL, unix.PERF_EVENT_IOC_ENABLE, true},
		{unix.SYS_IOCTL, unix.PERF_EVENT_IOC_SET_OUTPUT, true},
		{unix.SYS_IOCTL, unix.TCGETS, false},
		{unix.SYS_EPOLL_CTL, unix.EPOLL_CTL_ADD, true},
		{unix.SYS_EPOLL_CTL, unix.EPOLL_CTL_MOD, false},
	} {
		data := map[uint32]uint32{0: tt.nr, 4: arch, 24: tt.argument}
		if got := runFilter(callFilter(arch, calls.Told, Identity{}.numbers(), Notified{}), data) == unix.SECCOMP_RET_USER_NOTIF; got != tt.ask {
			t.Errorf("%+v: asks %v", tt, got)
		}
	}
}
