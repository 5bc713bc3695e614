package supervise

import (
	"encoding/binary"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/fs/sysfs"
	"github.com/kprobefs/kprobefs/internal/exec/calls"
	"github.com/kprobefs/kprobefs/internal/exec/notify"
)

// The files show events, ids and functions of the emulated kernel, but
// perf_event_open(2) and bpf(2) reach the host's kernel: there our ids belong to other
// events, and a probe would be set in the host. So below exec such calls fail as on a
// kernel that has neither tracepoints nor kprobes nor uprobes for perf and bpf, except for
// perf_event_open of tracepoints, kprobes and uprobes, which is answered (perfcalls.go). In
// 32-bit programs, and where the host's kernel gives us no descriptors, that fails with ENOENT, as
// for any unregistered type; so do the numbers that kprobes and uprobes have on the host if ours
// are others. Types of programs that
// attach there, and their links, fail with EINVAL, as unknown ones; and a raw tracepoint with
// ENOENT, as for an unknown name. All other events and programs are the host's, and are
// not affected.
//
// The checks read memory of the caller, which the host's kernel reads again later. A
// caller that changes it meanwhile deceives only itself: the checks protect programs from
// wrong results, and do not protect the host's kernel.

// bpfTypes are the types of programs for tracepoints and probes.
var bpfTypes = map[uint32]bool{
	unix.BPF_PROG_TYPE_KPROBE: true, unix.BPF_PROG_TYPE_TRACEPOINT: true,
	unix.BPF_PROG_TYPE_RAW_TRACEPOINT: true, unix.BPF_PROG_TYPE_RAW_TRACEPOINT_WRITABLE: true,
	unix.BPF_PROG_TYPE_TRACING: true,
}

// bpfLinks are the types of links between a program and a function or tracepoint.
var bpfLinks = map[uint32]bool{
	unix.BPF_TRACE_RAW_TP: true, unix.BPF_TRACE_FENTRY: true, unix.BPF_TRACE_FEXIT: true, unix.BPF_MODIFY_RETURN: true,
	unix.BPF_TRACE_KPROBE_MULTI: true, bpfTraceUprobeMulti: true, bpfTraceKprobeSession: true, bpfTraceUprobeSession: true,
}

// Types of links that were added after 6.1.
const (
	bpfTraceUprobeMulti   = 48
	bpfTraceKprobeSession = 56
	bpfTraceUprobeSession = 57
)

// refuser decides which calls must not reach the host's kernel.
type refuser struct {
	passed func(call string, kind uint32) // gets each call that is left to the host's kernel; may be nil
	warn   func(string)                   // gets the reason, once for each kind of call
	ours   map[uint32]string              // types that are ours, by their devices
	others map[uint32]bool                // types of the host's devices

	mu   sync.Mutex
	told map[string]bool
}

func newRefuser(warn func(string)) *refuser {
	r := &refuser{warn: warn, told: map[string]bool{}, ours: map[uint32]string{}}
	r.others = sysfs.HostPerfTypes(sysfs.EventSources)
	for name, kind := range sysfs.PerfTypes(r.others) {
		r.ours[kind] = name
	}
	return r
}

// isOurs reports whether a struct perf_event_attr is for an event of ours.
func (r *refuser) isOurs(attr []byte) bool {
	kind := binary.NativeEndian.Uint32(attr)
	return kind == unix.PERF_TYPE_TRACEPOINT || r.ours[kind] != ""
}

// refuse returns the errno of a call that must not be made, or 0 if it may be made.
func (r *refuser) refuse(n *notify.Caller) syscall.Errno {
	for _, k := range calls.KernelNumbers {
		switch {
		case n.Arch != k.Arch:
		case uint32(n.Nr) == k.Perf:
			attr := n.Read(pointer(n, 0), 8)
			return r.pass("perf_event_open", attr, r.perf(attr))
		case uint32(n.Nr) == k.BPF:
			size := min(uint32(n.Args[2]), 128)
			if size == 0 {
				return 0
			}
			attr := n.Read(pointer(n, 1), int(size))
			return r.pass("bpf", attr, r.bpf(uint32(n.Args[0]), attr))
		}
	}
	return 0
}

// pass records a call that may be made. It returns errno.
func (r *refuser) pass(call string, attr []byte, errno syscall.Errno) syscall.Errno {
	if errno == 0 && r.passed != nil && len(attr) >= 4 {
		r.passed(call, binary.NativeEndian.Uint32(attr))
	}
	return errno
}

// pointer returns an argument as an address; in a 32-bit program it has 32 bits.
func pointer(n *notify.Caller, i int) uint64 {
	if n.Arch != calls.KernelNumbers[0].Arch {
		return n.Args[i] & 0xffffffff
	}
	return n.Args[i]
}

// perf checks struct perf_event_attr: type, size.
func (r *refuser) perf(attr []byte) syscall.Errno {
	const tail = "the events shown here are of the emulated kernel, and the host's would answer with its own; " +
		"count and record with the files of /sys/kernel/tracing"
	if len(attr) < 4 {
		return 0 // EFAULT
	}
	const dynamic = 6 // PERF_TYPE_MAX
	switch kind := binary.NativeEndian.Uint32(attr); {
	case kind == unix.PERF_TYPE_TRACEPOINT:
		r.tell("perf_event_open(2) of a tracepoint is refused: " + tail)
	case r.ours[kind] != "", kind >= dynamic && !r.others[kind]:
		r.tell("perf_event_open(2) of a kprobe or uprobe is refused: " + tail)
	default:
		return 0
	}
	return unix.ENOENT
}

// bpf checks union bpf_attr.
func (r *refuser) bpf(command uint32, attr []byte) syscall.Errno {
	word := func(at int) uint32 {
		if len(attr) < at+4 {
			return 0 // the kernel treats missing fields as 0
		}
		return binary.NativeEndian.Uint32(attr[at:])
	}
	errno := unix.EINVAL
	switch command {
	case unix.BPF_PROG_LOAD:
		const attachType = 68
		if kind := word(0); !bpfTypes[kind] || kind == unix.BPF_PROG_TYPE_TRACING && word(attachType) == unix.BPF_TRACE_ITER {
			return 0
		}
	case unix.BPF_RAW_TRACEPOINT_OPEN:
		errno = unix.ENOENT
	case unix.BPF_LINK_CREATE:
		const attachType = 8
		if !bpfLinks[word(attachType)] {
			return 0
		}
	default:
		return 0
	}
	r.tell("bpf(2) with a program for tracepoints or probes is refused: the functions and events shown here are of the emulated kernel, and the program would run in the host's")
	return errno
}

func (r *refuser) tell(why string) {
	r.mu.Lock()
	said := r.told[why]
	r.told[why] = true
	r.mu.Unlock()
	if !said {
		r.warn(why)
	}
}
