package interp

import (
	"sync/atomic"
	"unsafe"

	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
)

// A Translator has blocks that are entered often executed in another way than by
// interpreting them.
type Translator interface {
	// Translatable says whether an instruction need not be interpreted. A block ends with
	// one that must be.
	Translatable(*decode.Inst) bool

	// Translate returns the translation of a block, or nil if it stays as it is. The Cache is
	// locked.
	Translate(*Block) Translation

	// Phase is odd while nothing can be translated. A vCPU that sees another number than
	// Aside.Acked calls Attend, between two blocks.
	Phase() *atomic.Uint64
	Attend(*CPU)
}

// A Translation is what executes a block.
type Translation interface {
	// Enter executes the block, and others as it likes. It returns what Execute does: the
	// op to go on with, or nil after one of Go, Look and Execute. It may return the block's
	// first op without having done anything.
	Enter(*CPU) *Op

	// Drop says that the block must not be entered any more: its bytes have changed, or
	// the Cache has no room. The Cache is locked.
	Drop()
}

// RIP is the address of the block's first instruction.
func (b *Block) RIP() uint64 { return b.head().Imm }

// Len is how many instructions the block can execute before it is left.
func (b *Block) Len() int64 {
	last := &b.ops[len(b.ops)-1]
	return int64(last.n)
}

// Op is instruction i of the block: the first is 0.
func (b *Block) Op(i int) *Op { return &b.ops[firstOfTranslated+i] }

// Insts are the block's instructions. decode.FETCH stands behind them if the last of them is
// no branch that is always taken.
func (b *Block) Insts() []decode.Inst {
	in := make([]decode.Inst, 0, len(b.ops))
	for i := range b.ops[firstOfTranslated:] {
		in = append(in, b.Op(i).Inst)
	}
	return in
}

// firstOfTranslated is Cache.first of blocks that can be translated.
const firstOfTranslated = 2

// Retired is how many instructions have been retired from the block's beginning when o
// has been.
func (o *Op) Retired() int64 { return int64(o.n) }

// Execute executes o. It returns the op to go on with, or nil if a branch has been taken (Went)
// or Run must look at something.
func (o *Op) Execute(c *CPU) *Op { return o.fn(c, o) }

// Went says whether nothing stands against going on at RIP, after Execute returned nil.
func (c *CPU) Went() bool { return c.br == brGo }

// Go goes on at rip, as after a branch.
func (c *CPU) Go(rip uint64) *Op {
	c.RIP, c.br = rip, brGo
	return nil
}

// Look goes on at rip after a look at all that can end Run.
func (c *CPU) Look(rip uint64) *Op {
	c.RIP, c.br = rip, brLook
	return nil
}

// Interprets says whether the vCPU has interpreted the block at rip, which nothing has
// translated since.
func (c *CPU) Interprets(rip uint64) bool {
	e := &c.jc[jcHash(rip)]
	return e.rip == rip && e.head.need() != dead && e.head.block().translation == nil
}

// Prepare is for executing translated code outside of Run: RFlags are the flags. It says
// whether mappings are as they were when Run began.
func (c *CPU) Prepare() bool {
	if c.mem.Epoch() != c.epoch {
		return false
	}
	c.ccOp = ccNone
	return true
}

// DropTranslated drops the blocks that are translated.
func (c *Cache) DropTranslated() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.blocks {
		if b.translation != nil {
			c.drop(b)
		}
	}
}

// countEntry is the entry of a block that is interpreted: it counts how often the
// block is entered, and has it translated.
func countEntry(c *CPU, o *Op) *Op {
	if atomic.LoadUint64(&o.Disp) >= c.cache.hot { // it stays interpreted: other vCPUs look at the count too
		return o.Next()
	}
	if atomic.AddUint64(&o.Disp, 1) == c.cache.hot {
		if n := c.cache.translate(o); n != nil {
			return n
		}
		if c.cache.full() { // again when there is room
			atomic.StoreUint64(&o.Disp, 0)
		}
	}
	return o.Next()
}

// enterTranslation is the entry of one that is translated.
func enterTranslation(c *CPU, o *Op) *Op {
	head := (*Op)(unsafe.Add(unsafe.Pointer(o), -int(opSize)))
	return head.block().translation.Enter(c)
}

// block is the block that o heads.
func (o *Op) block() *Block { return (*Block)(o.link) }

func (c *Cache) full() bool { return c.phase.Load()&1 != 0 }

// translate makes the block with entry op o a translated one: another block, which
// takes its place. It returns the entry of that, or nil if the block stays as it is.
func (c *Cache) translate(o *Op) *Op {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.blocks[o.Imm]
	if old == nil || &old.ops[1] != o || c.full() {
		return nil
	}
	b, f := c.build(o.Imm, maxBlock) // other vCPUs may be linking old's ops
	if f != nil {
		return nil
	}
	if b.translation = c.translator.Translate(b); b.translation == nil {
		return nil
	}
	b.ops[1].fn = enterTranslation
	old.head().kill()
	c.forget(old)
	c.keep(b)
	return &b.ops[1]
}
