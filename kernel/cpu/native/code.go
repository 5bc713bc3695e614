// Package native translates guest code to instructions of the host, and executes them.
// It is given the instructions of a block (translate.go; forms.go says how each of them is
// translated, a file for each family does it) and makes code that works on a
// core.CPU; where that must be left (for what is not translated, a page that is not in the
// TLB, a fault, the end of the budget), the Exit says at which instruction, and the caller
// has it executed. It knows no interpreter.
//
// On hosts that are not amd64, Error says so, and nothing is to be entered.
package native

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/kernel/cpu/core"
	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
)

// mapCode maps memory for code twice: w to write it, x to execute it. Nothing is
// mapped writable and executable.
func mapCode(size int) (w, x []byte, err error) {
	fd, err := unix.MemfdCreate("kprobefs-code", unix.MFD_CLOEXEC|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate("kprobefs-code", unix.MFD_CLOEXEC)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("memfd_create: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		return nil, nil, fmt.Errorf("memory for code: %w", err)
	}
	w, err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, fmt.Errorf("memory for code: %w", err)
	}
	x, err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("executable memory: %w", err), unix.Munmap(w))
	}
	return w, x, nil
}

// A Translation is a block's code.
type Translation struct {
	number int
	rip    uint64
	n      int64 // the instructions that entering it takes from the budget
	entry  int   // offset of the code
	sites  []site
	in     []inward
	dead   atomic.Bool // it must not be entered any more
}

// Number is which of all translations it is; exits name it. After Empty, numbers begin
// with 0 again.
func (t *Translation) Number() int { return t.number }

// inward is a jump that leads to a translation.
type inward struct {
	from *Translation
	site int
}

// Code is the translated code of the blocks of one machine. It translates nothing if the
// host gives no memory.
//
// When the memory is full, the code is thrown away as soon as no vCPU can be in it: the
// phase becomes odd, no code is entered while it is, and each vCPU that is in Run
// acknowledges that it has left the code.
type Code struct {
	limit int           // bytes
	gen   atomic.Uint64 // incremented when a translation dies
	phase atomic.Uint64

	mu       sync.Mutex
	w, x     []byte
	used     int
	fill     [2]int // the routines that fill read and write slots
	slot     int    // of the next access
	all      []*Translation
	byRIP    map[uint64]*Translation
	cpus     []*core.CPU
	emptying bool // Acknowledge has said that nobody is in the code
	failed   bool
}

// New returns a Code that holds no more than limit bytes of code.
func New(limit int) *Code { return &Code{limit: limit} }

// Join has the Code know a vCPU that executes it.
func (c *Code) Join(v *core.CPU) {
	v.Aside.ForgetTargets()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cpus = append(c.cpus, v)
}

// Phase changes when the memory is full (it is odd then), and when it has been emptied.
// A vCPU whose Aside.Acked is another number must Acknowledge it.
func (c *Code) Phase() *atomic.Uint64 { return &c.phase }

// Full says whether the memory is full, and waits for being emptied.
func (c *Code) Full() bool { return c.phase.Load()&1 != 0 }

// Used is how many bytes of code there are.
func (c *Code) Used() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}

// open maps the memory. It reports whether that succeeded.
func (c *Code) open() bool {
	if c.x != nil || c.failed {
		return !c.failed
	}
	w, x, err := mapCode(c.limit)
	if err != nil {
		c.failed = true
		return false
	}
	runtime.AddCleanup(c, func(m [2][]byte) {
		_ = unix.Munmap(m[0])
		_ = unix.Munmap(m[1])
	}, [2][]byte{w, x})
	c.w, c.x = w, x
	c.empty()
	return true
}

// empty begins anew.
func (c *Code) empty() {
	c.used, c.all, c.byRIP = 0, nil, map[uint64]*Translation{}
	for i, tlb := range []int32{offRTLB, offWTLB} {
		c.fill[i] = c.used
		c.used += copy(c.w[c.used:], fillSlot(tlb))
	}
}

// address returns the address of an offset.
func (c *Code) address(off int) uintptr {
	return uintptr(unsafe.Pointer(unsafe.SliceData(c.x))) + uintptr(off)
}

// patch makes a jump lead to offset to. A vCPU may be executing it.
func (c *Code) patch(pos, to int) {
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&c.w[pos])), uint32(to-pos-4))
}

// Translate translates the block at rip; behind its instructions stands decode.FETCH if it
// does not end with a branch. It returns nil if the first of them cannot be translated, or
// there is no room; then, Full. Nothing leads to it before Publish.
func (c *Code) Translate(rip uint64, insts []decode.Inst) *Translation {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Full() || !c.open() {
		return nil
	}
	tr := translator{block: uint32(len(c.all)), slot: c.slot, fillRead: c.fill[0], fillWrite: c.fill[1]}
	if !tr.translate(rip, insts) {
		return nil
	}
	at := (c.used + 15) &^ 15
	if at+tr.Len() > len(c.w) || len(c.all) == maxTranslations {
		c.phase.Add(1)
		return nil
	}
	for _, call := range tr.calls {
		tr.To(call.pos, call.to-at)
	}
	c.slot = tr.slot
	c.used = at + copy(c.w[at:], tr.B)
	t := &Translation{number: len(c.all), rip: rip, n: tr.n, entry: at, sites: tr.sites}
	for i := range t.sites {
		t.sites[i].pos += at
		t.sites[i].exit += at
	}
	c.all = append(c.all, t)
	return t
}

// Publish lets other code lead to t: the caller knows its number. An exit may name t from
// then on.
func (c *Code) Publish(t *Translation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byRIP[t.rip] = t
}

// Drop has nothing enter t any more.
func (c *Code) Drop(t *Translation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t.dead.Store(true)
	if c.byRIP[t.rip] == t {
		delete(c.byRIP, t.rip)
	}
	for _, j := range t.in {
		s := j.from.sites[j.site]
		c.patch(s.pos, s.exit)
	}
	t.in = nil
	c.gen.Add(1)
}

// Acknowledge is called by a vCPU that is not in translated code, when the phase has
// changed. True: nobody is in the code, so the caller must have no block lead to it any
// more, and Empty it.
func (c *Code) Acknowledge(v *core.CPU) (empty bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	phase := c.phase.Load()
	v.Aside.Acked.Store(phase)
	if phase&1 == 0 || c.emptying {
		return false
	}
	for _, o := range c.cpus {
		if o.Running.Load() && o.Aside.Acked.Load() != phase {
			return false
		}
	}
	c.emptying = true
	return true
}

// Empty throws all code away.
func (c *Code) Empty() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.all {
		t.dead.Store(true)
	}
	_ = unix.Madvise(c.w, unix.MADV_REMOVE) // else it is used again as it is
	c.empty()
	c.gen.Add(1)
	c.emptying = false
	c.phase.Add(1)
}

// Link makes the branch that is instruction i of t lead to what its target is translated
// to, and returns that place, or 0 if it is not translated.
func (c *Code) Link(t *Translation, i int) uintptr {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.dead.Load() || c.Full() {
		return 0
	}
	at := uintptr(0)
	for k, s := range t.sites {
		if to := c.byRIP[s.to]; s.inst == i && to != nil {
			c.patch(s.pos, to.entry)
			to.in = append(to.in, inward{t, k})
			at = c.address(to.entry)
		}
	}
	return at
}

// Place returns where v enters t, which indirect branches find from then on, or 0 if it must not be
// entered.
func (c *Code) Place(v *core.CPU, t *Translation) uintptr {
	// In this order: a vCPU that has acknowledged can see the memory emptied, which makes
	// t dead first and the phase even last.
	if c.Full() || t.dead.Load() {
		return 0
	}
	if g := c.gen.Load(); g != v.Aside.Gen {
		v.Aside.Gen = g
		v.Aside.ForgetTargets()
	}
	code := c.address(t.entry)
	v.Aside.SetTarget(t.rip, code)
	return code
}

// Known returns where v continues in translated code for rip, or 0 if it has not been there.
func (c *Code) Known(v *core.CPU, rip uint64) uintptr {
	if c.Full() || v.Aside.Gen != c.gen.Load() { // in this order, as in Place
		return 0
	}
	return v.Aside.Target(rip)
}

// Generation changes when code dies.
func (c *Code) Generation() uint64 { return c.gen.Load() }

// Stays says whether code that a vCPU has left for a moment, in a generation, may be gone on with.
func (c *Code) Stays(generation uint64) bool {
	return !c.Full() && c.gen.Load() == generation // in this order, as in Place
}

// Enter executes code until it is left. The guest's status flags are in Aside.Flags, before
// and after it.
func (c *Code) Enter(v *core.CPU, code uintptr) Exit { return Exit(enter(v, code)) }

// Exit is where and how translated code was left: the translation's number << 10, the kind
// << 7, and an instruction's index in the block.
type Exit uint64

// Kinds of exits.
const (
	Slow       = iota << 7 // the instruction is still to be executed; what entering took from the budget is not given back
	Branch                 // it was a branch, which is taken
	NoLeft                 // the budget is not enough for the block
	Hypercall              // it was a vmcall: RIP is behind it, Aside.Resume is the code to go on with
	Breakpoint             // it was an int3: RIP is behind it

	exitInst   = 1<<7 - 1
	exitKind   = 7 << 7
	exitBlocks = 10 // shift

	maxTranslations = 1<<(32-exitBlocks) - 1
)

// Number is the translation's.
func (e Exit) Number() int { return int(e >> exitBlocks) }

// Kind is Slow, Branch, NoLeft, Hypercall or Breakpoint.
func (e Exit) Kind() int { return int(e & exitKind) }

// Inst is the index of the instruction.
func (e Exit) Inst() int { return int(e & exitInst) }
