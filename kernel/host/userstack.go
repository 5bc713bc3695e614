package host

import (
	"encoding/binary"
	"strconv"
	"strings"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// UserRegs returns the registers of the thread of a memory that has made a call which returns to ip, with the stack pointer sp. whole says
// whether more is known than these two. It is called in handler context.
type UserRegs func(m *proc.Memory, ip, sp uint64) (r abi.Regs, whole bool)

// OnUserRegs sets who knows the registers of threads.
func (h *Host) OnUserRegs(f UserRegs) { h.userRegs.Store(&f) }

// Regs returns the registers in user space of the thread for which a task stands, if that is in a call. Without whole only IP
// and SP are known.
func (h *Host) Regs(task uint64) (r abi.Regs, whole, ok bool) {
	m := h.memoryOf(task)
	if m == nil {
		return r, false, false
	}
	defer m.Close()
	return h.regsOf(m)
}

// memoryOf opens the memory of the thread for which a task stands. It returns nil if there is none.
func (h *Host) memoryOf(task uint64) *proc.Memory {
	t := h.taskOf(task)
	if t == nil {
		return nil
	}
	m, err := proc.OpenMemory(t.tid)
	if err != nil {
		return nil
	}
	return m
}

// regsOf returns what Regs does.
func (h *Host) regsOf(m *proc.Memory) (r abi.Regs, whole, ok bool) {
	text, err := proc.Read(m.TID, "syscall")
	if err != nil {
		return r, false, false
	}
	ip, sp, ok := lastAddresses(text)
	if !ok {
		return r, false, false
	}
	if f := h.userRegs.Load(); f != nil {
		r, whole = (*f)(m, ip, sp)
		return r, whole, true
	}
	r.IP, r.SP = ip, sp
	return r, false, true
}

// lastAddresses returns the program counter and the stack pointer in /proc/PID/syscall, which are the last words; of a thread that runs
// there are none.
func lastAddresses(text string) (ip, sp uint64, ok bool) {
	words := strings.Fields(text)
	if len(words) < 3 {
		return 0, 0, false
	}
	ip, err := strconv.ParseUint(words[len(words)-1], 0, 64)
	if err != nil {
		return 0, 0, false
	}
	sp, err = strconv.ParseUint(words[len(words)-2], 0, 64)
	return ip, sp, err == nil
}

// UserStack writes where the thread for which a task stands has made its call into ips, and then where the functions return that have
// called one another, by their frame pointers: perf_callchain_user. Memory that is not in RAM ends that, as on Linux. It returns how many there are,
// 0 if the thread is in no call. It is called in handler context.
func (h *Host) UserStack(task uint64, ips []uint64) int {
	return h.walkUser(task, ips, func(abi.Regs, uint64, uint64) bool { return true })
}

// UserTrace is UserStack as stack_trace_save_user does it, for entries of the trace: it ends at a frame below the stack pointer, and at one that returns
// nowhere.
func (h *Host) UserTrace(task uint64, ips []uint64) int {
	return h.walkUser(task, ips, func(r abi.Regs, frame, ret uint64) bool { return frame >= r.SP && ret != 0 })
}

// walkUser walks a user's stack while frames and what they return to are good.
func (h *Host) walkUser(task uint64, ips []uint64, good func(r abi.Regs, frame, ret uint64) bool) (n int) {
	m := h.memoryOf(task)
	if m == nil || len(ips) == 0 {
		return 0
	}
	defer m.Close()
	r, whole, ok := h.regsOf(m)
	if !ok {
		return 0
	}
	ips[0] = r.IP
	if !whole {
		return 1
	}
	frames := userFrames{memory: m}
	return 1 + frames.walk(r.BP, ips[1:], func(frame, ret uint64) bool { return good(r, frame, ret) })
}

// UserMemory reads memory of the process for one of whose threads a task stands. It returns false if not all of it is in RAM. It is called in
// handler context.
func (h *Host) UserMemory(task, addr uint64, b []byte) bool {
	m := h.memoryOf(task)
	if m == nil {
		return false
	}
	defer m.Close()
	return len(m.Read(addr, b)) == len(b)
}

// userFrames reads the frames of a stack, most of which are near one another.
type userFrames struct {
	memory *proc.Memory
	from   uint64
	have   []byte
	room   [abi.PageSize]byte
}

// frameSize is the size of a frame pointer and a return address, in bytes.
const frameSize = 16

// walk writes what the frames from one on return to, while they are good and can be read.
func (f *userFrames) walk(frame uint64, ips []uint64, good func(frame, ret uint64) bool) int {
	for n := range ips {
		next, ret, ok := f.at(frame)
		if !ok || !good(frame, ret) {
			return n
		}
		ips[n], frame = ret, next
	}
	return len(ips)
}

func (f *userFrames) at(frame uint64) (next, ret uint64, ok bool) {
	if frame > abi.TaskSizeMax-frameSize {
		return 0, 0, false
	}
	if frame < f.from || frame+frameSize > f.from+uint64(len(f.have)) {
		f.from, f.have = frame, f.memory.Read(frame, f.room[:])
		if len(f.have) < frameSize {
			return 0, 0, false
		}
	}
	b := f.have[frame-f.from:]
	return binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), true
}
