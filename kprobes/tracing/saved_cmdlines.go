package tracing

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kernel/release"
)

const (
	savedCmdlines = 128     // SAVED_CMDLINES_DEFAULT; the allocated pages hold more
	pidMapSize    = 32768   // PID_MAX_DEFAULT
	pidLimit      = 4 << 20 // PID_MAX_LIMIT

	cmdlinesFixed = 131096              // bytes of struct saved_cmdlines_buffer without the names
	cmdlineSize   = abi.TaskCommLen + 4 // bytes of a name and its pid
)

type comm [abi.TaskCommLen]byte

// cmdlines is saved_cmdlines: the names of tasks by pid; when it is full, the oldest
// are replaced. The kernel saves a task's name when the task is switched out after an
// event; here it is saved with the event and again when it changes.
type cmdlines struct {
	mu    sync.Mutex         // guards all below; held for one look-up
	byPID [pidMapSize]uint32 // 1 + index of the entry, by pid modulo pidMapSize
	pids  []int32
	names []comm
	next  int
}

// cmdlinesFor returns how many names the kernel's buffer holds if n are requested: it
// fills a power of two of whole pages.
func (c *config) cmdlinesFor(n int) int {
	each := cmdlineSize
	if !c.has[release.CmdlinesWithPIDs] {
		each = abi.TaskCommLen
	}
	size := abi.PageSize
	for size < cmdlinesFixed+n*each {
		size *= 2
	}
	return (size - cmdlinesFixed) / each
}

// resize makes room for n names and forgets the present ones.
func (c *cmdlines) resize(n int) {
	pids, names := make([]int32, n), make([]comm, n)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pids, c.names, c.next = pids, names, 0
	clear(c.byPID[:])
}

// save is trace_save_cmdline. It runs in handler context: if the lock is taken it does
// not wait, does not save the name and returns false.
func (c *cmdlines) save(pid int32, name *comm) bool {
	if pid <= 0 {
		return true // pid 0 is always shown as <idle>
	}
	if !c.mu.TryLock() {
		return false
	}
	defer c.mu.Unlock()
	slot := &c.byPID[pid%pidMapSize]
	if *slot == 0 {
		if old := c.pids[c.next]; old != 0 {
			c.byPID[old%pidMapSize] = 0
		}
		*slot = uint32(c.next + 1)
		c.next = (c.next + 1) % len(c.pids)
	}
	c.pids[*slot-1], c.names[*slot-1] = pid, *name
	return true
}

// renamed updates the name of a task that is saved here.
func (c *cmdlines) renamed(pid int32, name string) {
	if pid <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.known(pid); n != nil {
		*n = comm{}
		copy(n[:abi.TaskCommLen-1], name)
	}
}

// known returns the saved name of a task with a pid above 0, or nil. The caller holds
// mu.
func (c *cmdlines) known(pid int32) *comm {
	slot := c.byPID[pid%pidMapSize]
	if slot == 0 || c.pids[slot-1] != pid {
		return nil
	}
	return &c.names[slot-1]
}

// Renamed records that a task has changed its name. Earlier lines of trace show the new
// name too, because names are looked up when trace is read.
func (t *Tracer) Renamed(pid int32, name string) { t.cmdlines.renamed(pid, name) }

// find is trace_find_cmdline: it returns "<...>" if the name is not saved.
func (c *cmdlines) find(pid int32) (name comm) {
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

// load reads the name of the task of a hit, in handler context. It reads two words,
// which is faster than bytes.
func (n *comm) load(trap *abi.Trap) {
	low, err := trap.Mem.ReadU64(trap.Task + abi.TaskComm)
	high, err2 := trap.Mem.ReadU64(trap.Task + abi.TaskComm + 8)
	if err != nil || err2 != nil {
		low, high = 0, 0
	}
	binary.LittleEndian.PutUint64(n[:], low)
	binary.LittleEndian.PutUint64(n[8:], high)
}

func (n *comm) String() string { return string(n.text()) }

// text returns the name up to its NUL.
func (n *comm) text() []byte {
	if end := bytes.IndexByte(n[:], 0); end >= 0 {
		return n[:end]
	}
	return n[:]
}

// SavedCmdlines returns the lines of the file saved_cmdlines: pid and name.
func (t *Tracer) SavedCmdlines() []string {
	c := &t.cmdlines
	c.mu.Lock()
	defer c.mu.Unlock()
	var lines []string
	for i, pid := range c.pids {
		if pid != 0 {
			lines = append(lines, fmt.Sprintf("%d %s\n", pid, c.names[i].String()))
		}
	}
	return lines
}

// SavedCmdlinesSize returns the text of saved_cmdlines_size.
func (t *Tracer) SavedCmdlinesSize() string {
	t.cmdlines.mu.Lock()
	defer t.cmdlines.mu.Unlock()
	return fmt.Sprintf("%d\n", len(t.cmdlines.pids))
}

// SetSavedCmdlinesSize handles a write to saved_cmdlines_size, which forgets the saved
// names. It fails with EINVAL if the value is not a number, 0, or more than
// PID_MAX_DEFAULT.
func (t *Tracer) SetSavedCmdlinesSize(data []byte) error {
	n, err := kstrtox.FromUser(data)
	if err == nil && (n == 0 || n > pidMapSize) {
		err = fmt.Errorf("%d names: %w", n, syscall.EINVAL)
	}
	if err != nil {
		return fmt.Errorf("saved_cmdlines_size: %w", err)
	}
	t.cmdlines.resize(t.conf.cmdlinesFor(int(n)))
	return nil
}

// tgids is tgid_map: the thread group ID of each task that hit an event while the
// option record-tgid was on.
type tgids struct {
	byPID atomic.Pointer[[pidLimit + 1]atomic.Int32] // nil until the option is first set
}

func (m *tgids) grow() {
	if m.byPID.Load() == nil {
		m.byPID.CompareAndSwap(nil, new([pidLimit + 1]atomic.Int32))
	}
}

// save is trace_save_tgid. It runs in handler context.
func (m *tgids) save(pid, tgid int32) {
	if all := m.byPID.Load(); all != nil && pid > 0 && pid <= pidLimit {
		all[pid].Store(tgid)
	}
}

func (m *tgids) find(pid int32) int32 {
	if all := m.byPID.Load(); all != nil && pid > 0 && pid <= pidLimit {
		return all[pid].Load()
	}
	return 0
}

// SavedTGIDs returns the lines of saved_tgids: pid and thread group ID.
func (t *Tracer) SavedTGIDs() []string {
	all := t.tgids.byPID.Load()
	if all == nil {
		return nil
	}
	var lines []string
	for pid := range all {
		if tgid := all[pid].Load(); tgid != 0 {
			lines = append(lines, fmt.Sprintf("%d %d\n", pid, tgid))
		}
	}
	return lines
}
