package main

import (
	"encoding/binary"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
	"github.com/kprobefs/kprobefs/kprobes/tracing/perf"
)

// perf_event_open(2) for events of ours is answered by the serving process, which sends a
// descriptor for the caller: a file of a FUSE mount that is attached nowhere (package
// anoninode). The host's kernel brings read, poll, ioctl and close there without us. Only the
// size of a mapping is not told by FUSE, so mmap(2) comes to the supervisor, too, where it
// may be about such a descriptor, and is then made by the host's kernel.

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

// answerPerf answers perf_event_open(2).
func (s *supervisor) answerPerf(c *caller) {
	f, errno := s.openPerf(c)
	if f != nil {
		flags := 0
		if c.args[4]&unix.PERF_FLAG_FD_CLOEXEC != 0 {
			flags = unix.O_CLOEXEC
		}
		errno = c.give(int(f.Fd()), flags)
		_ = f.Close()
		if errno == 0 {
			return
		}
	}
	if errno != 0 {
		c.fail(errno)
		return
	}
	c.proceed()
}

// answeredClocks are the software events that may be ours: it depends on what else the caller has open.
var answeredClocks = map[uint64]bool{perf.SoftwareDummy: true, perf.SoftwareBPFOutput: true, perf.SoftwareCPUClock: true, perf.SoftwareTaskClock: true}

// openPerf asks for an event of ours. It returns neither a file nor an errno for what is the
// host's to answer.
func (s *supervisor) openPerf(c *caller) (*os.File, syscall.Errno) {
	var attr []byte
	var errno syscall.Errno
	if !c.take(func(tid int) { attr, errno = readAttr(tid, c.args[0]) }) {
		return nil, unix.ESRCH
	}
	switch {
	case errno == unix.E2BIG && s.refuser.isOurs(attr):
		c.write(c.args[0]+4, binary.NativeEndian.AppendUint32(nil, perf.KnownAttr))
		return nil, errno
	case errno != 0:
		return nil, 0 // the host's kernel fails the same way
	}
	kind, config := binary.NativeEndian.Uint32(attr), binary.NativeEndian.Uint64(attr[8:])
	pmu := s.refuser.ours[kind]
	switch {
	case kind == perf.TypeTracepoint || pmu != "":
		if !c.capable(unix.CAP_PERFMON, unix.CAP_SYS_ADMIN) {
			return nil, unix.EACCES // kernel.perf_event_paranoid is 3 on Debian
		}
	case kind != perf.TypeSoftware || !answeredClocks[config]:
		return nil, s.refuser.refuse(c)
	}
	q := &question{Do: doPerf, Perf: &kprobefs.PerfOpen{
		TID: int(int32(c.args[1])), CPU: int(int32(c.args[2])), Group: int(int32(c.args[3])), Flags: c.args[4], PMU: pmu,
	}}
	if pmu == kprobefs.UprobePMU && s.bpf == bpfOurs {
		q.Perf.Site = s.plantUprobe(c, attr)
	}
	f, err := questionFile(string(attr))
	if err != nil {
		return nil, unix.ENOMEM
	}
	defer f.Close()
	r := s.askOf(c, q, f)
	switch {
	case r.Host:
		return nil, s.refuser.pass("perf_event_open", attr, 0)
	case r.Errno == unix.ENXIO: // there are no descriptors
		return nil, s.refuser.perf(attr)
	case r.Errno == unix.E2BIG:
		c.write(c.args[0]+4, binary.NativeEndian.AppendUint32(nil, perf.KnownAttr))
	}
	return r.file, r.Errno
}

// plantUprobe makes room for the uprobe of an attr in the caller's program. It returns what plant does.
func (s *supervisor) plantUprobe(c *caller, attr []byte) uint64 {
	const path, offset = 56, 64 // uprobe_path, probe_offset
	if len(attr) < offset+8 {
		return 0
	}
	var text string
	addr := binary.NativeEndian.Uint64(attr[path:])
	if !c.take(func(tid int) { text = string(readString(tid, addr)) }) {
		return 0
	}
	return c.plant(text, binary.NativeEndian.Uint64(attr[offset:]))
}

// readAttr reads a struct perf_event_attr, as long as it says it is. It fails with EFAULT, and
// with E2BIG for a size that cannot be; then it returns the type and size.
func readAttr(tid int, addr uint64) ([]byte, syscall.Errno) {
	head := proc.ReadMemory(tid, addr, make([]byte, 8))
	if len(head) < 8 {
		return nil, unix.EFAULT
	}
	size, err := perf.AttrSize(head)
	if err != nil {
		return head, unix.E2BIG
	}
	b := proc.ReadMemory(tid, addr, make([]byte, size))
	if len(b) < size {
		return nil, unix.EFAULT
	}
	return b, 0
}

// answerPerfMap prepares an mmap(2) of such a descriptor, and lets the host's kernel make it.
func (s *supervisor) answerPerfMap(c *caller) {
	fd := int(int32(c.args[4]))
	if !strings.HasSuffix(c.fileName(fd), kprobefs.PerfName) {
		c.proceed()
		return
	}
	q := &question{Do: doMap, FD: fd, Length: c.args[1], Offset: c.args[5], Writable: c.args[2]&unix.PROT_WRITE != 0}
	if r := s.askOf(c, q, nil); r.Errno != 0 && !r.Host {
		c.fail(r.Errno)
		return
	}
	c.proceed()
}
