package cpu

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/cpu"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/cpu/core"
	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
)

// leftOffset is for enterNative.
const leftOffset = unsafe.Offsetof(core.CPU{}.Left)

// enterNative executes translated code, and returns the exit.
//
//go:noescape
func enterNative(c *core.CPU, code uintptr) uint64

// NativeError says why this host cannot translate guest code: nil if it can. It
// tries it once.
var NativeError = sync.OnceValue(func() error {
	if !cpu.X86.HasSSE42 || !cpu.X86.HasPOPCNT {
		return errors.New("this processor is older than x86-64-v2")
	}
	w, x, err := mapCode(4096)
	if err == nil {
		err = errors.Join(unix.Munmap(w), unix.Munmap(x))
	}
	return err
})

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

// A translation is a block's code.
type translation struct {
	block *block
	rip   uint64
	n     int64 // the instructions that entering it takes from left
	entry int   // offset of the code
	sites []site
	in    []inward
	dead  atomic.Bool // it must not be entered any more
}

// inward is a jump that leads to a translation.
type inward struct {
	from *translation
	site int
}

// translations are the translated code of a cache. The cache's mutex protects what
// is not atomic.
//
// When the memory is full, the code is thrown away as soon as no vCPU can be in it:
// full becomes odd, no code is entered while it is, and each vCPU that is in Run
// acknowledges that it has left the code.
type translations struct {
	w, x      []byte
	used      int
	fill      [2]int // the routines that fill read and write slots
	slot      int    // of the next access
	blocks    []*translation
	byRIP     map[uint64]*translation
	published atomic.Pointer[[]*translation] // blocks, to be read without the mutex
	gen       atomic.Uint64                  // incremented when a translation dies
	full      atomic.Uint64
	failed    bool
}

// open maps the memory; false: that failed.
func (c *Cache) open() bool {
	n := &c.native
	if n.x != nil || n.failed {
		return !n.failed
	}
	w, x, err := mapCode(c.code)
	if err != nil {
		n.failed = true
		return false
	}
	runtime.AddCleanup(c, func(m [2][]byte) {
		_ = unix.Munmap(m[0])
		_ = unix.Munmap(m[1])
	}, [2][]byte{w, x})
	n.w, n.x = w, x
	n.empty()
	return true
}

// empty begins anew.
func (n *translations) empty() {
	n.used, n.blocks, n.byRIP = 0, nil, map[uint64]*translation{}
	n.published.Store(&n.blocks)
	for i, tlb := range []int32{offRTLB, offWTLB} {
		n.fill[i] = n.used
		n.used += copy(n.w[n.used:], fillSlot(tlb))
	}
}

// code is the address of an offset.
func (n *translations) code(off int) uintptr {
	return uintptr(unsafe.Pointer(unsafe.SliceData(n.x))) + uintptr(off)
}

// patch makes a jump lead to offset to. A vCPU may be executing it.
func (n *translations) patch(pos, to int) {
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&n.w[pos])), uint32(to-pos-4))
}

// countEntry is the entry of a block that is interpreted: it counts how often the
// block is entered, and has it translated.
func countEntry(c *CPU, o *op) *op {
	if atomic.AddUint64(&o.Disp, 1) == c.cache.hot {
		if n := c.cache.translate(o); n != nil {
			return n
		}
		if c.cache.native.full.Load()&1 != 0 { // again when there is room
			atomic.StoreUint64(&o.Disp, 0)
		}
	}
	return o.next()
}

// translate makes the block with entry op o a translated one: another block, which
// takes its place. It returns the entry of that; nil: the block stays as it is.
func (c *Cache) translate(o *op) *op {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.blocks[o.Imm]
	if old == nil || &old.ops[1] != o || c.native.full.Load()&1 != 0 || !c.open() {
		return nil
	}
	b, f := c.build(o.Imm) // other vCPUs may be linking old's ops
	if f != nil {
		return nil
	}
	t := c.native.add(b)
	if t == nil {
		return nil
	}
	b.ops[1].fn, b.ops[1].link = runNative, unsafe.Pointer(t)
	old.head().kill()
	c.forget(old)
	c.keep(b)
	return &b.ops[1]
}

// add translates b; nil: it cannot be, or there is no room.
func (n *translations) add(b *block) *translation {
	tr := translator{block: uint32(len(n.blocks)), slot: n.slot, fillRead: n.fill[0], fillWrite: n.fill[1]}
	if !tr.translate(b.ops) {
		return nil
	}
	at := (n.used + 15) &^ 15
	if at+tr.Len() > len(n.w) || len(n.blocks) == maxTranslations {
		n.full.Add(1)
		return nil
	}
	for _, c := range tr.calls {
		tr.To(c.pos, c.to-at)
	}
	n.slot = tr.slot
	n.used = at + copy(n.w[at:], tr.B)
	t := &translation{block: b, rip: b.head().Imm, n: tr.n, entry: at, sites: tr.sites}
	for i := range t.sites {
		t.sites[i].pos += at
		t.sites[i].exit += at
	}
	n.blocks = append(n.blocks, t)
	blocks := n.blocks
	n.published.Store(&blocks)
	n.byRIP[t.rip] = t
	return t
}

// drop has nothing enter t any more.
func (n *translations) drop(t *translation) {
	t.dead.Store(true)
	if n.byRIP[t.rip] == t {
		delete(n.byRIP, t.rip)
	}
	for _, j := range t.in {
		s := j.from.sites[j.site]
		n.patch(s.pos, s.exit)
	}
	t.in = nil
	n.gen.Add(1)
}

// acknowledge is called by a vCPU that is not in translated code, when there is no
// more room for such code.
func (c *Cache) acknowledge(v *CPU) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := &c.native
	full := n.full.Load()
	v.Aside.Acked.Store(full)
	if full&1 == 0 {
		return
	}
	for _, o := range c.cpus {
		if o.Running.Load() && o.Aside.Acked.Load() != full {
			return
		}
	}
	for _, b := range c.blocks {
		if b.translated() != nil {
			c.drop(b)
		}
	}
	for _, t := range n.blocks {
		t.dead.Store(true)
	}
	_ = unix.Madvise(n.w, unix.MADV_REMOVE) // else it is used again as it is
	n.empty()
	n.gen.Add(1)
	n.full.Add(1)
}

// follow is the translation to which branch op i of t leads, and makes the branch
// lead there from now on; nil: there is none.
func (c *Cache) follow(t *translation, i int) *translation {
	c.mu.Lock()
	defer c.mu.Unlock()
	to := c.native.byRIP[t.block.ops[i].Imm]
	if to == nil || t.dead.Load() || c.native.full.Load()&1 != 0 {
		return nil
	}
	for k, s := range t.sites {
		if s.op == i {
			c.native.patch(s.pos, to.entry)
			to.in = append(to.in, inward{t, k})
		}
	}
	return to
}

// translated is b's translation, if it has one.
func (b *block) translated() *translation {
	if e := &b.ops[1]; e.Code == cENTRY && e.link != nil {
		return (*translation)(e.link)
	}
	return nil
}

// runNative is the entry of a translated block: it executes the block and those that
// it leads to.
func runNative(c *CPU, o *op) *op {
	n := &c.cache.native
	t := (*translation)(o.link)
	// In this order: a vCPU that has acknowledged can see the memory emptied, which makes
	// t dead first and full even last.
	if n.full.Load()&1 != 0 || t.dead.Load() {
		return o.next()
	}
	if g := n.gen.Load(); g != c.Aside.Gen {
		c.Aside.Gen = g
		c.Aside.ForgetTargets()
	}
	e := c.Aside.Target(t.rip)
	e.RIP, e.Code = t.rip, n.code(t.entry)
	for code := e.Code; code != 0; {
		c.settle()
		code = c.leftNative(c.execute(code))
	}
	return c.after
}

// leftNative deals with an exit of translated code. It returns the code to go on
// with; 0: after is what the entry returns, and br says why if that is nil.
func (c *CPU) leftNative(t *translation, exit uint64) uintptr {
	o := &t.block.ops[exit&exitOp]
	switch exit & exitKind {
	case exitSlow:
		c.Left += t.n
		if o.Code == decode.VMCALL || o.Code == decode.INT && o.Imm == abi.VecBP {
			return c.event(o)
		}
		c.after = o
		return 0
	case exitBudget:
		c.RIP, c.br, c.after = t.rip, brLook, nil
		return 0
	}
	c.RIP, c.br, c.after = o.Imm, brGo, nil
	if e := &c.jc[jcHash(c.RIP)]; e.rip == c.RIP && e.head.need() != dead && e.head.next().link == nil {
		return 0 // known, and not translated
	}
	if to := c.cache.follow(t, int(exit&exitOp)); to != nil {
		return c.cache.native.code(to.entry)
	}
	return 0
}

// event executes an int3 or a vmcall.
func (c *CPU) event(o *op) uintptr {
	next := o.fn(c, o)
	c.after = nil // the hook may have run other code
	switch {
	case next != nil && next.Code == cFETCH:
		c.RIP, c.br = next.Imm, brGo
	case next != nil:
		c.after = next
		return 0
	}
	c.Left -= int64(o.n)
	n := &c.cache.native
	if n.full.Load()&1 != 0 || c.br != brGo { // full before gen, as in runNative
		return 0
	}
	if e := c.Aside.Target(c.RIP); e.RIP == c.RIP && c.Aside.Gen == n.gen.Load() {
		return e.Code
	}
	return 0
}

// Call is a short Run inside the hook, of a function that is translated: it executes from
// RIP up to the hlt at end, and reports whether it has come there; RIP is then behind it.
// If not, Run goes on. n is how many instructions were retired, as for Run; they do not
// count as those of the Run that has called the hook.
func (c *CPU) Call(end uint64) (done bool, n uint64) {
	native := &c.cache.native
	e := c.Aside.Target(c.RIP)
	if native.full.Load()&1 != 0 || e.RIP != c.RIP || c.Aside.Gen != native.gen.Load() || c.mem.Epoch() != c.epoch {
		return false, 0
	}
	c.ccOp = ccNone
	left := c.Left
	for code := e.Code; code != 0; {
		t, exit := c.execute(code)
		o := &t.block.ops[exit&exitOp]
		code = 0
		switch exit & exitKind {
		case exitSlow:
			c.Left += t.n - int64(o.n) + 1
			c.RIP = o.rip()
			done = o.Code == decode.RET && o.Imm == 0 && c.returnsTo(end)
		case exitBudget:
			c.RIP = t.rip
		default:
			c.RIP = o.Imm
			if to := c.cache.follow(t, int(exit&exitOp)); to != nil {
				code = native.code(to.entry)
			}
		}
	}
	n = uint64(left - c.Left)
	c.TSC += n
	return done, n
}

// returnsTo executes a ret and the hlt that it leads to, if that is at end. (The ret has left
// translated code, since there is none for a block that has only a hlt.)
func (c *CPU) returnsTo(end uint64) bool {
	const rsp, word, hltLen = 4, 8, 1
	p := c.Window(c.R[rsp], word)
	if p == nil || *(*uint64)(p) != end {
		return false
	}
	c.R[rsp] += word
	c.RIP = end + hltLen
	c.Left -= 2
	return true
}

// execute enters translated code with the guest's flags where it has them. It returns
// where and how that was left.
func (c *CPU) execute(code uintptr) (*translation, uint64) {
	c.Aside.Flags = uint16(c.RFlags&0xff<<8 | c.RFlags>>11&1)
	exit := enterNative(&c.CPU, code)
	c.RFlags = c.RFlags&^flagStatus | uint64(c.Aside.Flags>>8)&(flagStatus&0xff) | uint64(c.Aside.Flags&1)<<11
	return (*c.cache.native.published.Load())[exit>>exitBlocks], exit
}
