package interp

import (
	"unsafe"

	"github.com/kprobefs/kprobefs/kernel/cpu/core"
	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
	"github.com/kprobefs/kprobefs/kernel/mem"
)

// What a debugger needs of the engines: breakpoints that are not in the guest's text, watchpoints, and
// single instructions. None of them costs anything while it is not used. A block does not contain a
// breakpoint: it ends before one, and the block that begins at one has only an op that ends Run. The page
// of a watchpoint is in no TLB, so each access to it is made by exec, which looks.

// SetBreaks makes addrs the addresses before whose instructions Run ends, with Breakpoint. No vCPU may be
// in Run. An address inside an instruction has no effect.
func (c *Cache) SetBreaks(addrs []uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.breaks
	c.breaks = nil
	for _, a := range addrs {
		if c.breaks == nil {
			c.breaks = map[uint64]bool{}
		}
		c.breaks[a] = true
	}
	for a := range old {
		if !c.breaks[a] {
			c.dropAt(a)
		}
	}
	for a := range c.breaks {
		if !old[a] {
			c.dropAt(a)
		}
	}
}

// dropAt drops the blocks that have the byte at an address.
func (c *Cache) dropAt(va uint64) {
	if pa, _, ok := c.mem.Lookup(va); ok {
		c.dropBytes(pa, 1)
	}
}

// stopAt is lookup of a block that begins at a breakpoint.
func (c *Cache) stopAt(rip uint64) (*Op, *fault) {
	_, pa, f := c.fetch(rip)
	if f != nil {
		return nil, f
	}
	b := &Block{start: pa, n1: 1, ops: []Op{{Inst: decode.Inst{Imm: rip}}}}
	if c.first > 1 {
		b.ops = append(b.ops, Op{Inst: decode.Inst{Imm: rip, Code: cENTRY}, fn: enterBreak})
	}
	b.ops = append(b.ops, Op{Inst: decode.Inst{Imm: rip, Code: cBREAK}, fn: breakpoint})
	b.ops[0].link = unsafe.Pointer(b)
	for i := c.first; i < len(b.ops); i++ {
		b.ops[i].link = unsafe.Pointer(&unlinked)
	}
	c.keep(b)
	return b.head(), nil
}

// enterBreak is the entry of a block that begins at a breakpoint: it is never translated.
func enterBreak(_ *CPU, o *Op) *Op { return o.Next() }

// breakpoint ends Run before the instruction that o stands for.
func breakpoint(c *CPU, o *Op) *Op {
	c.RIP = o.Imm
	c.exit = core.Exit{Reason: core.Breakpoint}
	c.br = brExit
	return nil
}

// Watch is memory whose accesses end Run after the instruction that makes them, with Watchpoint. Accesses
// that Go code makes for the guest are not seen.
type Watch struct {
	Addr, Len uint64
	Access    mem.Perm // Read, Write or both
}

// SetWatches makes w the memory that the vCPU watches. The vCPU must not be in Run.
func (c *CPU) SetWatches(w []Watch) {
	c.watches = nil
	if len(w) > 0 {
		c.watches = append(c.watches, w...)
	}
	c.FlushTLB()
}

// watch notes an access of n bytes at va. It reports whether a page of it is one that has watched memory,
// so that the next access to it must be seen too.
func (c *CPU) watch(va, n uint64, want mem.Perm) (paged bool) {
	for i := range c.watches {
		w := &c.watches[i]
		first, last := w.Addr&^mem.PageMask, (w.Addr+w.Len-1)|mem.PageMask
		if va > last || va+n-1 < first {
			continue
		}
		paged = true
		if va < w.Addr+w.Len && w.Addr < va+n && w.Access&want != 0 && c.touched < 0 {
			c.touched, c.touchedAt = i, max(va, w.Addr)
		}
	}
	return paged
}

// watched is exec for a vCPU that watches memory.
func (c *CPU) watched(o *Op) *Op {
	c.touched = -1
	next := c.exec(o)
	if c.touched < 0 || next == nil && c.br != brGo && c.br != brLook {
		return next
	}
	if next != nil {
		c.RIP = o.end()
	}
	c.exit = core.Exit{Reason: core.Watchpoint, Code: uint64(c.touched), Addr: c.touchedAt}
	c.br = brExit
	return nil
}

// RunOne is Run for exactly one instruction, which may be at a breakpoint. Neither Kick nor WantIRQ ends
// it. The Reason is Budget unless the instruction itself ends Run.
func (c *CPU) RunOne() (core.Exit, uint64) {
	nested := c.Running.Load()
	if !nested {
		c.Running.Store(true)
	}
	c.sync()
	c.total, c.more, c.Left = 1, 0, 1
	c.ccOp = ccNone
	c.one()
	c.Settle()
	retired := uint64(c.total - c.more - c.Left)
	c.TSC += retired
	if !nested {
		c.Running.Store(false)
	}
	return c.exit, retired
}

// one executes the instruction at RIP.
func (c *CPU) one() {
	if c.Aside.Acked.Load() != c.cache.phase.Load() {
		c.cache.translator.Attend(c)
	}
	h, f := c.cache.alone(c.RIP)
	if f != nil {
		c.notFetched(f)
		return
	}
	kicked := false
	defer func() {
		if kicked {
			c.Kick()
		}
	}()
	for c.Left > 0 {
		if c.kick.Swap(0) != 0 { // it would end a REP
			kicked = true
		}
		if c.step(h) && !c.hooked() {
			return
		}
	}
	c.exit = core.Exit{Reason: core.Budget}
}

// alone decodes the instruction at rip, as a block that nothing else enters.
func (c *Cache) alone(rip uint64) (*Op, *fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, f := c.build(rip, 1)
	if f != nil {
		return nil, f
	}
	return b.head(), nil
}
