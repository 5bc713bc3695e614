package seqfile

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Writes is a record of the last writes to files: who has written what, and what came of it. It is
// ours; Linux has none.
type Writes struct {
	now func() int64 // nanoseconds since boot

	mu   sync.Mutex
	n    uint64 // how many there were
	last [keptWrites]Written
}

// keptWrites is how many writes are kept, and keptText how much of a text, bytes.
const (
	keptWrites = 512
	keptText   = 256
)

// Written is a write.
type Written struct {
	PID        int
	UID        uint32
	Comm, File string // File is the path in the guest
	Text       string // its beginning
	Bytes      int    // written
	Err        syscall.Errno

	at int64
}

// NewWrites returns an empty record whose times are now's, in nanoseconds.
func NewWrites(now func() int64) *Writes { return &Writes{now: now} }

// Add adds a write of text, the newest one. The oldest is forgotten for it.
func (w *Writes) Add(x Written, text []byte) {
	x.Text = string(text[:min(len(text), keptText)])
	x.at = w.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last[w.n%keptWrites] = x
	w.n++
}

// Show returns the text of machine/writes: a line for each write, the oldest first.
func (w *Writes) Show() (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	kept := min(w.n, keptWrites)
	fmt.Fprintf(&b, "# %d writes, %d older ones are not kept\n# seconds pid uid result file comm text\n", w.n, w.n-kept)
	for i := w.n - kept; i < w.n; i++ {
		x := &w.last[i%keptWrites]
		result := strconv.Itoa(x.Bytes)
		if x.Err != 0 {
			result = unix.ErrnoName(x.Err)
		}
		fmt.Fprintf(&b, "%d.%06d %d %d %s %q %q %q\n", x.at/1e9, x.at%1e9/1000, x.PID, x.UID, result, x.File, x.Comm, x.Text)
	}
	return b.String(), nil
}
