package tracing

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

const (
	savedCmdlines = 128     // SAVED_CMDLINES_DEFAULT; more fit into the pages that it takes
	pidMapSize    = 32768   // PID_MAX_DEFAULT
	pidLimit      = 4 << 20 // PID_MAX_LIMIT

	cmdlinesFixed = 131096              // bytes of struct saved_cmdlines_buffer without the names
	cmdlineSize   = abi.TaskCommLen + 4 // bytes of a name and its pid
)

type comm [abi.TaskCommLen]byte

// cmdlines is saved_cmdlines: the names of tasks by pid, as far as they fit;
// the oldest give way. The kernel saves a task's name when it is switched out
// after an event; here it is saved with the event, and again when it changes.
type cmdlines struct {
	mu    sync.Mutex         // guards all below; held for one look-up
	byPID [pidMapSize]uint32 // 1 + index of the entry, by pid modulo its size
	pids  []int32
	names []comm
	next  int
}

// cmdlinesFor is how many names the kernel's buffer has that is asked for n: it
// fills whole pages, a power of two of them.
func (f Features) cmdlinesFor(n int) int {
	each := cmdlineSize
	if f.ShortCmdlines {
		each = abi.TaskCommLen
	}
	size := abi.PageSize
	for size < cmdlinesFixed+n*each {
		size *= 2
	}
	return (size - cmdlinesFixed) / each
}

// resize makes room for n names and forgets those that there are.
func (c *cmdlines) resize(n int) {
	pids, names := make([]int32, n), make([]comm, n)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pids, c.names, c.next = pids, names, 0
	clear(c.byPID[:])
}

// save is trace_save_cmdline, in atomic Go: rather than wait for a reader it
// lets the name go and says so.
func (c *cmdlines) save(pid int32, name *comm) bool {
	if pid <= 0 {
		return true // idle tasks are known by their pid
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

// renamed is for a task that has a name here and gives itself another.
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

// known is the name of a task, pid above 0; nil: it has none here. The caller holds mu.
func (c *cmdlines) known(pid int32) *comm {
	slot := c.byPID[pid%pidMapSize]
	if slot == 0 || c.pids[slot-1] != pid {
		return nil
	}
	return &c.names[slot-1]
}

// Renamed tells that a task has another name now. Lines of trace that it had before
// show that, too: they are named when they are read.
func (t *Tracer) Renamed(pid int32, name string) { t.cmdlines.renamed(pid, name) }

// find is trace_find_cmdline: "<...>" where the name is not known.
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

// load is the name of the task of a hit, in atomic Go: two words, which is faster
// than bytes.
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

// text is the name up to its NUL.
func (n *comm) text() []byte {
	if end := bytes.IndexByte(n[:], 0); end >= 0 {
		return n[:end]
	}
	return n[:]
}

// SavedCmdlines is the lines of the file saved_cmdlines: pid and name.
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

// SavedCmdlinesSize is the text of saved_cmdlines_size.
func (t *Tracer) SavedCmdlinesSize() string {
	t.cmdlines.mu.Lock()
	defer t.cmdlines.mu.Unlock()
	return fmt.Sprintf("%d\n", len(t.cmdlines.pids))
}

// SetSavedCmdlinesSize takes a write to saved_cmdlines_size, which forgets the
// names. EINVAL: not a number, 0, or more than there are pids by default.
func (t *Tracer) SetSavedCmdlinesSize(data []byte) error {
	n, err := userNumber(data)
	if err == nil && (n == 0 || n > pidMapSize) {
		err = fmt.Errorf("%d names: %w", n, syscall.EINVAL)
	}
	if err != nil {
		return fmt.Errorf("saved_cmdlines_size: %w", err)
	}
	t.cmdlines.resize(t.conf.cmdlinesFor(int(n)))
	return nil
}

// tgids is tgid_map: the process of each task that hit an event while the option
// record-tgid was on.
type tgids struct {
	byPID atomic.Pointer[[pidLimit + 1]atomic.Int32] // nil: the option was never on
}

func (m *tgids) grow() {
	if m.byPID.Load() == nil {
		m.byPID.CompareAndSwap(nil, new([pidLimit + 1]atomic.Int32))
	}
}

// save is trace_save_tgid, in atomic Go.
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

// SavedTGIDs is the lines of saved_tgids: task and process.
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
