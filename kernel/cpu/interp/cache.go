package interp

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/cpu/core"
	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
	"github.com/kprobefs/kprobefs/kernel/mem"
)

// maxBlock is how many instructions a block has at most.
const maxBlock = 64

// maxOps is how many ops a cache keeps, 6 MiB of them: Runs that end anywhere
// make blocks that begin anywhere.
const maxOps = 1 << 17

// dead is the n of the head of a block that must not be entered any more: no
// budget is as long, so that entering it needs no other check.
const dead = math.MaxInt64

// A Block is ops[0], the head, and an op for each instruction, the first of them at
// Cache.first: where there is a Translator an entry stands between, which counts how often
// the block is entered, or has the translation executed. The head's imm is the
// address of the code, its disp the number of instructions that the block can execute
// before it is left, dead when its bytes have changed; link is the block.
type Block struct {
	ops         []Op
	start       uint64 // physical address of the bytes: first page's part
	n1          uint64
	second      uint64 // of the second page
	n2          uint64 // and how many bytes of it
	translation Translation
}

func (b *Block) head() *Op { return &b.ops[0] }

// need is how many instructions the block that o heads may execute.
func (o *Op) need() int64 { return int64(atomic.LoadUint64(&o.Disp)) }

func (o *Op) kill() { atomic.StoreUint64(&o.Disp, dead) }

// Cache holds the decoded blocks of one machine.
type Cache struct {
	mem *mem.Memory

	mu     sync.Mutex
	blocks map[uint64]*Block   // by virtual address
	lines  map[uint64][]*Block // by physical address / lineSize: the blocks that have bytes there
	ops    int                 // in all blocks
	first  int                 // of a block's ops that is an instruction
	built  []Op                // build's: what it had decoded last
	breaks map[uint64]bool     // the addresses of breakpoints; nil if there are none

	translator Translator     // nil: there is none
	hot        uint64         // how often a block is entered before it is translated
	phase      *atomic.Uint64 // the translator's
}

// NewCache returns an empty cache for m's code. It learns of changes from m. A translator
// (or nil) gets the blocks that are entered hot times.
func NewCache(m *mem.Memory, t Translator, hot uint64) *Cache {
	c := &Cache{mem: m, first: 1, translator: t, hot: hot, phase: new(atomic.Uint64), blocks: map[uint64]*Block{}, lines: map[uint64][]*Block{}}
	if t != nil {
		c.first, c.phase = 2, t.Phase()
	}
	m.OnText(c.invalidate)
	return c
}

// lineSize is the bytes that are looked through when one of them changes.
const lineSize = 64

// invalidate drops the blocks that have bytes in n bytes of RAM at pa.
func (c *Cache) invalidate(pa, n uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropBytes(pa, n)
}

// dropBytes is invalidate for who has locked c.mu.
func (c *Cache) dropBytes(pa, n uint64) {
	if n == 0 {
		return
	}
	for line := pa / lineSize; line <= (pa+n-1)/lineSize; line++ {
		for _, b := range slices.Clone(c.lines[line]) {
			if b.touches(pa, n) {
				c.drop(b)
			}
		}
	}
}

// drop has nothing enter b any more.
func (c *Cache) drop(b *Block) {
	b.head().kill()
	if rip := b.head().Imm; c.blocks[rip] == b {
		delete(c.blocks, rip)
	}
	if b.translation != nil {
		b.translation.Drop()
	}
	c.forget(b)
}

// eachLine calls f for the lines that b has bytes in.
func (b *Block) eachLine(f func(line uint64)) {
	for line := b.start / lineSize; line <= (b.start+b.n1-1)/lineSize; line++ {
		f(line)
	}
	if b.n2 != 0 { // no more than an instruction's rest
		f(b.second / lineSize)
	}
}

func (b *Block) touches(pa, n uint64) bool {
	return b.start < pa+n && pa < b.start+b.n1 || b.n2 != 0 && b.second < pa+n && pa < b.second+b.n2
}

// clear drops all blocks. A vCPU that is in one finishes it.
func (c *Cache) clear() {
	for _, b := range c.blocks {
		b.head().kill()
		if b.translation != nil {
			b.translation.Drop()
		}
	}
	clear(c.blocks)
	clear(c.lines)
}

func (c *Cache) forget(b *Block) {
	c.ops -= len(b.ops)
	b.eachLine(func(line uint64) {
		rest := slices.DeleteFunc(c.lines[line], func(o *Block) bool { return o == b })
		if len(rest) == 0 {
			delete(c.lines, line)
			return
		}
		c.lines[line] = rest
	})
}

// lookup gives the head of the block at rip, decoded now if need be. If the
// first instruction cannot be fetched, it gives the fault.
func (c *Cache) lookup(rip uint64) (*Op, *fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b := c.blocks[rip]; b != nil {
		return b.head(), nil
	}
	if c.breaks[rip] {
		return c.stopAt(rip)
	}
	b, f := c.build(rip, maxBlock)
	if f != nil {
		return nil, f
	}
	c.keep(b)
	return b.head(), nil
}

// keep has lookup find b.
func (c *Cache) keep(b *Block) {
	if c.ops += len(b.ops); c.ops > maxOps {
		c.clear()
		c.ops = len(b.ops)
	}
	c.blocks[b.head().Imm] = b
	b.eachLine(func(line uint64) { c.lines[line] = append(c.lines[line], b) })
}

// fetch gives the bytes from va to the end of its page.
func (c *Cache) fetch(va uint64) ([]byte, uint64, *fault) {
	pa, p, ok := c.mem.Lookup(va)
	switch {
	case !mem.Canonical(va):
		return nil, 0, &fault{vector: abi.VecGP, hasCode: true}
	case !ok:
		return nil, 0, &fault{abi.VecPF, true, core.FaultFetch, va}
	case p&mem.Exec == 0:
		return nil, 0, &fault{abi.VecPF, true, core.FaultFetch | core.FaultPresent, va}
	}
	return c.mem.Phys(pa, mem.PageSize-pa&mem.PageMask), pa, nil
}

// build decodes the block at rip, up to a breakpoint, and at most so many instructions. c.mu is locked.
func (c *Cache) build(rip uint64, most int) (*Block, *fault) {
	text, pa, f := c.fetch(rip)
	if f != nil {
		return nil, f
	}
	b := &Block{start: pa}
	ops := append(c.built[:0], Op{Inst: decode.Inst{Imm: rip}})
	if c.first > 1 {
		ops = append(ops, Op{Inst: decode.Inst{Imm: rip, Code: cENTRY}, fn: countEntry})
	}
	at := uint64(0)
	for len(ops) < most+c.first && at < uint64(len(text)) && (at == 0 || !c.breaks[rip+at]) {
		in, short := decode.Decode(text[at:], rip+at)
		if short {
			if at > 0 { // in a block of its own
				break
			}
			next, pa2, f := c.fetch(rip + uint64(len(text)))
			if f != nil {
				return nil, f
			}
			both := append(append([]byte{}, text...), next[:min(16, len(next))]...)
			in, _ = decode.Decode(both, rip)
			b.second = pa2 &^ mem.PageMask
			b.n2 = uint64(in.Len) - uint64(len(text))
		}
		ops = append(ops, Op{Inst: in, off: uint16(at), n: uint16(len(ops) - c.first + 1)})
		o := &ops[len(ops)-1]
		if o.Form&decode.HasMem == 0 && (o.Code == decode.CALL || o.Code == decode.VMCALL || ends(o)) {
			o.Disp = rip + at + uint64(o.Len)
		}
		at += uint64(o.Len)
		if ends(o) || short || c.translator != nil && !c.translator.Translatable(&o.Inst) {
			break
		}
	}
	b.n1 = min(at, uint64(len(text)))
	n := len(ops) - c.first
	if !ends(&ops[len(ops)-1]) {
		ops = append(ops, Op{Inst: decode.Inst{Code: decode.FETCH, Imm: rip + at}, n: uint16(n)})
	}
	c.built = ops
	ops = slices.Clone(ops) // without room to grow
	ops[0].Disp = uint64(n)
	b.ops = ops
	ops[0].link = unsafe.Pointer(b)
	for i := c.first; i < len(ops); i++ {
		ops[i].link = unsafe.Pointer(&unlinked)
		ops[i].fn = choose(&ops[i])
	}
	return b, nil
}

// ends says whether nothing after o in a block could be executed.
func ends(o *Op) bool {
	switch o.Code {
	case decode.FETCH, cBREAK:
		return true
	case decode.MOVTOSEG, decode.POPSEG:
		return o.A == segSS
	case decode.LSEG: // A is the register of the offset
		return o.Imm == segSS
	}
	return decode.PropertiesOf(o.Code).Ends
}
