package supervise

import (
	"encoding/binary"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/arch/x86/x86asm"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/fs/sysfs"
	"github.com/kprobefs/kprobefs/internal/exec/calls"
	"github.com/kprobefs/kprobefs/internal/exec/hostview"
	"github.com/kprobefs/kprobefs/internal/exec/notify"
	"github.com/kprobefs/kprobefs/internal/exec/perffd"
	"github.com/kprobefs/kprobefs/internal/exec/wire"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
	"github.com/kprobefs/kprobefs/kprobes/tracing/perf"
)

// perf_event_open(2) for events of ours is answered by the serving process, which sends a
// descriptor for the caller: a file of a FUSE mount that is attached nowhere (package
// anoninode). The host's kernel brings read, poll, ioctl and close there without us. Only the
// size of a mapping is not told by FUSE, so mmap(2) comes to the supervisor, too, where it
// may be about such a descriptor, and is then made by the host's kernel.

// answerPerf answers perf_event_open(2).
func (s *supervisor) answerPerf(c *notify.Caller) {
	f, errno := s.openPerf(c)
	if f != nil {
		flags := 0
		if c.Args[4]&unix.PERF_FLAG_FD_CLOEXEC != 0 {
			flags = unix.O_CLOEXEC
		}
		errno = c.Give(int(f.Fd()), flags)
		_ = f.Close()
		if errno == 0 {
			return
		}
	}
	if errno != 0 {
		c.Fail(errno)
		return
	}
	c.Proceed()
}

// openPerf asks for an event of ours. It returns neither a file nor an errno for what is the
// host's to answer.
func (s *supervisor) openPerf(c *notify.Caller) (*os.File, syscall.Errno) {
	var attr []byte
	var errno syscall.Errno
	if !c.Take(func(tid int) { attr, errno = readAttr(tid, c.Args[0]) }) {
		return nil, unix.ESRCH
	}
	switch {
	case errno == unix.E2BIG && s.refuser.isOurs(attr):
		c.Write(c.Args[0]+4, binary.NativeEndian.AppendUint32(nil, perf.KnownAttr))
		return nil, errno
	case errno != 0:
		return nil, 0 // the host's kernel fails the same way
	}
	kind, config := binary.NativeEndian.Uint32(attr), binary.NativeEndian.Uint64(attr[8:])
	pmu := s.refuser.ours[kind]
	switch {
	case kind == perf.TypeTracepoint || pmu != "":
		if !c.Capable(unix.CAP_PERFMON, unix.CAP_SYS_ADMIN) {
			return nil, unix.EACCES // kernel.perf_event_paranoid is 3 on Debian
		}
	case kind != perf.TypeSoftware || config >= perf.SoftwareMax: // whether one is ours depends on what else the caller has open
		return nil, s.refuser.refuse(c)
	}
	q := &wire.Question{Do: wire.DoPerf, Perf: &perffd.OpenArgs{
		TID: int(int32(c.Args[1])), CPU: int(int32(c.Args[2])), Group: int(int32(c.Args[3])), Flags: c.Args[4], PMU: pmu,
	}}
	if pmu == sysfs.UprobePMU && s.BPF == BPFOurs {
		q.Perf.Site = s.plantUprobe(c, attr)
	}
	f, err := wire.File(string(attr))
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
		c.Write(c.Args[0]+4, binary.NativeEndian.AppendUint32(nil, perf.KnownAttr))
	}
	return r.File, r.Errno
}

// plantUprobe makes room for the uprobe of an attr in the caller's program. It returns what plant does.
func (s *supervisor) plantUprobe(c *notify.Caller, attr []byte) uint64 {
	const path, offset = 56, 64 // uprobe_path, probe_offset
	if len(attr) < offset+8 {
		return 0
	}
	var text string
	addr := binary.NativeEndian.Uint64(attr[path:])
	if !c.Take(func(tid int) { text = string(hostview.ReadString(tid, addr)) }) {
		return 0
	}
	return plant(c, text, binary.NativeEndian.Uint64(attr[offset:]))
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

// answerPerfMap prepares an mmap(2) of such a descriptor, or of one of bpf(2), and lets the host's kernel make it.
func (s *supervisor) answerPerfMap(c *notify.Caller) {
	fd := int(int32(c.Args[4]))
	if name := c.FileName(fd); !strings.HasSuffix(name, perffd.PerfName) && !perffd.IsBPF(name) {
		c.Proceed()
		return
	}
	q := &wire.Question{Do: wire.DoMap, FD: fd, Length: c.Args[1], Offset: c.Args[5], Writable: c.Args[2]&unix.PROT_WRITE != 0}
	r := s.askOf(c, q, nil)
	if r.Errno != 0 && !r.Host {
		c.Fail(r.Errno)
		return
	}
	if r.File != nil {
		errno := s.swapIn(c, fd, r.File)
		_ = r.File.Close()
		if errno != 0 {
			c.Fail(errno)
			return
		}
	}
	c.Proceed()
}

// Where a file of FUSE cannot be a passthrough to memory (an ordinary user's cannot, nor one before Linux 6.9), a
// mapping of a ring or of a map is made so: the caller's descriptor refers to the memory's own file while the
// host's kernel makes its mmap(2), and to our file again before the next call of the thread that comes here: those by which
// such a descriptor is used do. The supervisor keeps our file open meanwhile.

// swapBackIoctls are the ioctls that come to the supervisor because a program makes them after it has mapped an event, as
// epoll_ctl(2) does.
var swapBackIoctls = []uint32{
	unix.PERF_EVENT_IOC_ENABLE, unix.PERF_EVENT_IOC_DISABLE, unix.PERF_EVENT_IOC_RESET, unix.PERF_EVENT_IOC_ID,
	unix.PERF_EVENT_IOC_SET_OUTPUT, unix.PERF_EVENT_IOC_SET_FILTER,
}

// swap is a descriptor that refers to memory until its thread's next call.
type swap struct {
	tid   int
	fd    int
	ours  int // our file
	flags uint32
}

// swaps are the exchanges of all threads.
type swaps struct {
	any atomic.Bool
	mu  sync.Mutex
	all []swap
}

// swapIn makes the caller's descriptor refer to memory.
func (s *supervisor) swapIn(c *notify.Caller, fd int, memory *os.File) unix.Errno {
	ours, err := c.Borrow(fd)
	if err != nil {
		return unix.ENODEV
	}
	w := swap{fd: fd, ours: ours}
	if !c.Take(func(tid int) { w.tid, w.flags = tid, hostview.CloseOnExec(tid, fd) }) {
		_ = unix.Close(ours)
		return unix.ESRCH
	}
	if errno := c.Replace(fd, int(memory.Fd()), w.flags); errno != 0 {
		_ = unix.Close(ours)
		return unix.ENODEV
	}
	s.swaps.mu.Lock()
	defer s.swaps.mu.Unlock()
	s.swaps.all = append(s.swaps.all, w)
	s.swaps.any.Store(true)
	return 0
}

// swapBack makes the caller's descriptors refer to our files again, and drops the exchanges of threads that have ended.
func (s *supervisor) swapBack(c *notify.Caller) {
	if !s.swaps.any.Load() {
		return
	}
	s.swaps.mu.Lock()
	defer s.swaps.mu.Unlock()
	left := s.swaps.all[:0]
	for _, w := range s.swaps.all {
		switch {
		case c.Is(w.tid):
			_ = c.Replace(w.fd, w.ours, w.flags) // fails only if the caller has been killed
		case hostview.Exists(proc.Path(w.tid, "")):
			left = append(left, w)
			continue
		}
		_ = unix.Close(w.ours)
	}
	s.swaps.all = left
	s.swaps.any.Store(len(left) > 0)
}

// A uprobe of perf_event_open(2) is hit in the program that has opened it, if it is at a function that does
// nothing but return: a place that programs have to tell of something, as bpftrace's BEGIN_trigger. The ret and the
// padding after it make room for a system call of a number that no kernel has, which the filter notifies
// of. All other uprobes have no hits.

// userProbe is what stands at the probe: push %rax; mov $UserProbeCall, %eax; syscall; pop %rax; ret. As in any
// function, rcx and r11, which the call changes, are not the caller's.
var userProbe = append(binary.LittleEndian.AppendUint32([]byte{0x50, 0xb8}, calls.UserProbeCall), 0x0f, 0x05, 0x58, 0xc3)

// afterUserCall is the offset in userProbe of the instruction after the call.
const afterUserCall = perffd.PlantedCall

// plant makes room for a uprobe at an offset of the caller's own program, if that is what path
// names. It returns the address of the instruction after the system call, or 0 if there are no hits here.
func plant(c *notify.Caller, path string, offset uint64) (ip uint64) {
	var mem *os.File
	at := uint64(0)
	waits := c.Take(func(tid int) {
		root := proc.Path(tid, "root")
		if !strings.HasPrefix(path, "/") {
			root = proc.Path(tid, "cwd")
		}
		if path == "/proc/self/exe" {
			path = proc.Path(tid, "exe")
			root = ""
		}
		var named, own unix.Stat_t
		if unix.Stat(root+"/"+path, &named) != nil || unix.Stat(proc.Path(tid, "exe"), &own) != nil || named.Dev != own.Dev || named.Ino != own.Ino {
			return
		}
		maps, err := proc.Read(tid, "maps")
		if err != nil {
			return
		}
		if at = hostview.MappedAt(maps, own.Ino, offset); at != 0 {
			mem, _ = os.OpenFile(proc.Path(tid, "mem"), os.O_RDWR, 0)
		}
	})
	if mem == nil {
		return 0
	}
	defer mem.Close()
	b := make([]byte, len(userProbe))
	if n, _ := mem.ReadAt(b, int64(at)); !waits || n < len(b) {
		return 0
	}
	if string(b) != string(userProbe) {
		if !empty(b) {
			return 0
		}
		if n, err := mem.WriteAt(userProbe, int64(at)); err != nil || n < len(userProbe) {
			return 0
		}
	}
	return at + afterUserCall
}

// empty reports whether code is a ret, and after it instructions that do nothing: the padding before the next
// function. The last one may go on after the end.
func empty(code []byte) bool {
	const ret = 0xc3
	if code[0] != ret {
		return false
	}
	padding := append(append([]byte{}, code[1:]...), make([]byte, 16)...)
	for at := 0; at < len(code)-1; {
		prefixes := at
		for padding[prefixes] == 0x66 || padding[prefixes] == 0x2e {
			prefixes++
		}
		i, err := x86asm.Decode(padding[prefixes:], 64)
		nop := err == nil && (i.Op == x86asm.NOP || i.Op == x86asm.INT || i.Op == x86asm.XCHG && padding[prefixes] == 0x90)
		if padding[prefixes] == 0xcc {
			nop = true
		}
		if !nop {
			return false
		}
		at = prefixes + i.Len
	}
	return true
}

// answerUserProbe answers the call of a planted uprobe: its programs have run when the caller goes on.
func (s *supervisor) answerUserProbe(c *notify.Caller) {
	r := s.askOf(c, &wire.Question{Do: wire.DoUserProbe, Site: c.IP}, nil)
	if r.Errno != 0 {
		c.Fail(unix.ENOSYS)
		return
	}
	c.Succeed()
}
