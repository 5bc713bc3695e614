package notify

import (
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A notification that was received and is never answered leaves its caller waiting for ever, and
// nobody can receive it a second time. So the notifications that have no answer yet are in memory
// that outlives the process which has received them: the kernel itself writes them there
// (SECCOMP_IOCTL_NOTIF_RECV), so there is no moment at which one is known to nobody. The process that
// takes over the listener finds them there (Left).

// maxPending is how many notifications Pending holds. More than these can be lost with the process.
const maxPending = 1024

// Pending holds the notifications that have no answer yet.
type Pending struct {
	memory *os.File // nil if it is this process's own

	mu    sync.Mutex
	slots *[maxPending]Notif
	free  []int // indexes of slots
}

// NewPending returns an empty one.
func NewPending() *Pending {
	p := &Pending{slots: new([maxPending]Notif)}
	for i := range maxPending {
		p.free = append(p.free, maxPending-1-i)
	}
	fd, err := unix.MemfdCreate("pending", unix.MFD_CLOEXEC)
	if err != nil {
		return p
	}
	memory := os.NewFile(uintptr(fd), "pending")
	slots, err := mapPending(memory)
	if err != nil {
		_ = memory.Close()
		return p
	}
	p.memory, p.slots = memory, slots
	return p
}

// mapPending maps the memory.
func mapPending(memory *os.File) (*[maxPending]Notif, error) {
	const size = int(unsafe.Sizeof([maxPending]Notif{}))
	if err := memory.Truncate(int64(size)); err != nil {
		return nil, err
	}
	b, err := unix.Mmap(int(memory.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return (*[maxPending]Notif)(unsafe.Pointer(&b[0])), nil
}

// Memory returns the file for Left, or nil if there is none.
func (p *Pending) Memory() *os.File { return p.memory }

// Left returns the notifications in the memory of another process's Pending.
func Left(memory *os.File) (all []*Notif) {
	slots, err := mapPending(memory)
	if err != nil {
		return nil
	}
	for i := range slots {
		if n := slots[i]; n.ID != 0 {
			all = append(all, &n)
		}
	}
	return all
}

// slot is where a notification is received to.
type slot struct {
	of    *Pending
	notif *Notif // all 0, as the kernel wants it, before one is received
	index int    // or -1 if it is not in the memory
	freed atomic.Bool
}

// next returns a slot for the next notification.
func (p *Pending) next() *slot {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.free)
	if n == 0 {
		return &slot{of: p, notif: &Notif{}, index: -1}
	}
	i := p.free[n-1]
	p.free = p.free[:n-1]
	return &slot{of: p, notif: &p.slots[i], index: i}
}

// answered frees a slot whose notification has its answer, or none to wait for.
func (s *slot) answered() {
	if s == nil || s.freed.Swap(true) || s.index < 0 {
		return
	}
	*s.notif = Notif{}
	s.of.mu.Lock()
	s.of.free = append(s.of.free, s.index)
	s.of.mu.Unlock()
}
