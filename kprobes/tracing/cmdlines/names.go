// Package cmdlines has what the kernel remembers of tasks that hit events, for the lines
// that show the events later: their names (saved_cmdlines) and their thread group IDs
// (saved_tgids).
//
// It knows pids and names. It does not know events, options and files, nor when a task is
// to be remembered. Load and Save run in handler context and wait for nothing.
package cmdlines

import (
	"bytes"
	"encoding/binary"
	"iter"
	"sync"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

const (
	// Default is SAVED_CMDLINES_DEFAULT: how many names are requested at first. The
	// allocated pages hold more (RoomFor).
	Default = 128
	// Max is PID_MAX_DEFAULT: how many names may be requested.
	Max = 32768

	namesFixed = 131096              // bytes of struct saved_cmdlines_buffer without the names
	nameSize   = abi.TaskCommLen + 4 // bytes of a name and its pid
)

// Comm is a task's name, up to its first NUL.
type Comm [abi.TaskCommLen]byte

// Names is saved_cmdlines: the names of tasks by pid; when it is full, the oldest are
// replaced. The zero Names has no room: call Resize first. The kernel saves a task's name when the task is switched out after an
// event; here it is saved with the event and again when it changes.
type Names struct {
	mu    sync.Mutex  // guards all below; held for one look-up
	byPID [Max]uint32 // 1 + index of the entry, by pid modulo pidMapSize
	pids  []int32
	names []Comm
	next  int
}

// RoomFor returns how many names the kernel's buffer holds if n are requested: it fills a
// power of two of whole pages, with the pids or, on older releases, without.
func RoomFor(n int, withPIDs bool) int {
	each := nameSize
	if !withPIDs {
		each = abi.TaskCommLen
	}
	size := abi.PageSize
	for size < namesFixed+n*each {
		size *= 2
	}
	return (size - namesFixed) / each
}

// Resize makes room for n names and forgets the present ones.
func (c *Names) Resize(n int) {
	pids, names := make([]int32, n), make([]Comm, n)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pids, c.names, c.next = pids, names, 0
	clear(c.byPID[:])
}

// Save is trace_save_cmdline. It runs in handler context: if the lock is taken it does
// not wait, does not save the name and returns false.
func (c *Names) Save(pid int32, name *Comm) bool {
	if pid <= 0 {
		return true // pid 0 is always shown as <idle>
	}
	if !c.mu.TryLock() {
		return false
	}
	defer c.mu.Unlock()
	slot := &c.byPID[pid%Max]
	if *slot == 0 {
		if old := c.pids[c.next]; old != 0 {
			c.byPID[old%Max] = 0
		}
		*slot = uint32(c.next + 1)
		c.next = (c.next + 1) % len(c.pids)
	}
	c.pids[*slot-1], c.names[*slot-1] = pid, *name
	return true
}

// Renamed updates the name of a task if one is saved.
func (c *Names) Renamed(pid int32, name string) {
	if pid <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.known(pid); n != nil {
		*n = Comm{}
		copy(n[:abi.TaskCommLen-1], name)
	}
}

// known returns the saved name of a task with a pid above 0, or nil. The caller holds
// mu.
func (c *Names) known(pid int32) *Comm {
	slot := c.byPID[pid%Max]
	if slot == 0 || c.pids[slot-1] != pid {
		return nil
	}
	return &c.names[slot-1]
}

// Find is trace_find_cmdline: it returns the name of a task, or "<...>" if none is saved.
func (c *Names) Find(pid int32) (name Comm) {
	switch {
	case pid == 0:
		copy(name[:], "<idle>")
		return name
	case pid < 0:
		copy(name[:], "<XXX>")
		return name
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.known(pid); n != nil {
		return *n
	}
	copy(name[:], "<...>")
	return name
}

// Load reads the name of the task of a hit, in handler context. It reads two words,
// which is faster than bytes.
func (n *Comm) Load(trap *abi.Trap) {
	low, err := trap.Mem.ReadU64(trap.Task + abi.TaskComm)
	high, err2 := trap.Mem.ReadU64(trap.Task + abi.TaskComm + 8)
	if err != nil || err2 != nil {
		low, high = 0, 0
	}
	binary.LittleEndian.PutUint64(n[:], low)
	binary.LittleEndian.PutUint64(n[8:], high)
}

// PID returns the pid of the task of a hit, in handler context; 0 if its memory cannot be read.
func PID(trap *abi.Trap) int32 {
	v, err := trap.Mem.ReadU64(trap.Task + abi.TaskPID)
	if err != nil {
		return 0
	}
	return int32(uint32(v))
}

// String returns the name.
func (n *Comm) String() string { return string(n.text()) }

// text returns the name up to its NUL.
func (n *Comm) text() []byte {
	if end := bytes.IndexByte(n[:], 0); end >= 0 {
		return n[:end]
	}
	return n[:]
}

// Room returns how many names there is room for.
func (c *Names) Room() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pids)
}

// All returns the saved names by pid, in the order of their places. They must not be
// saved or looked up meanwhile.
func (c *Names) All() iter.Seq2[int32, *Comm] {
	return func(yield func(int32, *Comm) bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for i, pid := range c.pids {
			if pid != 0 && !yield(pid, &c.names[i]) {
				return
			}
		}
	}
}
