package interp

import (
	"sync/atomic"
	"unsafe"

	"github.com/kprobefs/kprobefs/kernel/cpu/core"
	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
	"github.com/kprobefs/kprobefs/kernel/mem"
)

// This file has the handlers of what kernels are made of: moves, arithmetic, branches,
// the stack. Where memory is not in the TLB, they leave the instruction to exec.

// address returns the address of the memory operand of o, which has no prefix 67.
func (c *CPU) address(o *Op) uint64 {
	return c.Place(o.Base) + c.Place(o.Index)<<(o.Scale&3) + o.Disp + c.Place(o.Seg)
}

// find is where the w bytes at va lie, in a page that in has; else nil: exec must
// execute the instruction.
func (c *CPU) find(va uint64, w uint8, in *core.Pages) unsafe.Pointer {
	e := in.Find(va, (va+uint64(w)-1)&^mem.PageMask)
	if e == nil {
		c.br = brSlow
		return nil
	}
	return unsafe.Add(nil, va+e.Off)
}

// at is find for the memory operand of o.
func (c *CPU) at(o *Op, w uint8, in *core.Pages) unsafe.Pointer {
	return c.find(c.address(o), w, in)
}

// word is find for a word of the stack.
func (c *CPU) word(va uint64, in *core.Pages) *uint64 {
	return (*uint64)(c.find(va, 8, in))
}

// second is the operand of o that is a register or an immediate.
func (c *CPU) second(o *Op) uint64 {
	if o.Form&decode.SrcImm != 0 {
		return o.Imm
	}
	return c.getReg(o.B, 8)
}

func nop(_ *CPU, o *Op) *Op { return o.Next() }

func move(c *CPU, o *Op) *Op {
	c.R[o.A&15] = c.R[o.B&15] & mask(o.W)
	return o.Next()
}

func moveImm(c *CPU, o *Op) *Op {
	c.R[o.A&15] = o.Imm & mask(o.W)
	return o.Next()
}

func load(c *CPU, o *Op) *Op {
	p := c.at(o, o.W, c.TLB.Read)
	if p == nil {
		return nil
	}
	c.setReg(o.A, o.W, get(p, o.W))
	return o.Next()
}

func store(c *CPU, o *Op) *Op {
	p := c.at(o, o.W, c.TLB.Write)
	if p == nil {
		return nil
	}
	put(p, c.second(o), o.W)
	return o.Next()
}

// extended is v of o's source width as movzx and movsx take it.
func extended(o *Op, v uint64) uint64 {
	if o.Code == decode.MOVSX {
		return decode.SignExtend(v, uint8(o.Imm))
	}
	return v
}

func extend(c *CPU, o *Op) *Op {
	c.setReg(o.A, o.W, extended(o, c.getReg(o.B, uint8(o.Imm))))
	return o.Next()
}

func extendLoad(c *CPU, o *Op) *Op {
	from := uint8(o.Imm)
	p := c.at(o, from, c.TLB.Read)
	if p == nil {
		return nil
	}
	c.setReg(o.A, o.W, extended(o, get(p, from)))
	return o.Next()
}

func lea(c *CPU, o *Op) *Op {
	c.R[o.A&15] = (c.Place(o.Base) + c.Place(o.Index)<<(o.Scale&3) + o.Disp) & mask(o.W)
	return o.Next()
}

func add(c *CPU, o *Op) *Op {
	m, p := mask(o.W), &c.R[o.A&15]
	b := c.second(o) & m
	*p = (*p + b) & m
	c.lazy(ccAdd, o.W, *p, b)
	return o.Next()
}

func sub(c *CPU, o *Op) *Op {
	m, p := mask(o.W), &c.R[o.A&15]
	b := c.second(o) & m
	*p = (*p - b) & m
	c.lazy(ccSub, o.W, *p, b)
	return o.Next()
}

func cmp(c *CPU, o *Op) *Op {
	m := mask(o.W)
	b := c.second(o) & m
	c.lazy(ccSub, o.W, (c.R[o.A&15]-b)&m, b)
	return o.Next()
}

// logic is and, or, xor and test.
func logic(c *CPU, o *Op) *Op {
	p, b := &c.R[o.A&15], c.second(o)
	var r uint64
	switch o.Code {
	case decode.AND, decode.TEST:
		r = *p & b
	case decode.OR:
		r = *p | b
	case decode.XOR:
		r = *p ^ b
	}
	r &= mask(o.W)
	if o.Code != decode.TEST {
		*p = r
	}
	c.lazy(ccLogic, o.W, r, 0)
	return o.Next()
}

// arithmetic is add, sub, cmp, and, or, xor and test of a and b: the result, without
// bits above the width, and the flags.
func (c *CPU) arithmetic(o *Op, a, b uint64) uint64 {
	m := mask(o.W)
	b &= m
	switch o.Code {
	case decode.ADD:
		r := (a + b) & m
		c.lazy(ccAdd, o.W, r, b)
		return r
	case decode.SUB, decode.CMP:
		r := (a - b) & m
		c.lazy(ccSub, o.W, r, b)
		return r
	case decode.OR:
		a |= b
	case decode.XOR:
		a ^= b
	default:
		a &= b
	}
	c.lazy(ccLogic, o.W, a&m, 0)
	return a & m
}

// aluLoad has memory as the second operand.
func aluLoad(c *CPU, o *Op) *Op {
	p := c.at(o, o.W, c.TLB.Read)
	if p == nil {
		return nil
	}
	r := c.arithmetic(o, c.getReg(o.A, o.W), get(p, o.W))
	if o.Code != decode.CMP && o.Code != decode.TEST {
		c.setReg(o.A, o.W, r)
	}
	return o.Next()
}

// aluStore has memory as the first operand, which it changes.
func aluStore(c *CPU, o *Op) *Op {
	p := c.at(o, o.W, c.TLB.Write)
	if p == nil {
		return nil
	}
	put(p, c.arithmetic(o, get(p, o.W), c.second(o)), o.W)
	return o.Next()
}

// aluCompare is cmp and test with memory as the first operand.
func aluCompare(c *CPU, o *Op) *Op {
	p := c.at(o, o.W, c.TLB.Read)
	if p == nil {
		return nil
	}
	c.arithmetic(o, get(p, o.W), c.second(o))
	return o.Next()
}

// shift is shl, shr and sar of a register. A count of 0 leaves the flags.
func shift(c *CPU, o *Op) *Op {
	m, p := mask(o.W), &c.R[o.A&15]
	n := c.count(o)
	v := *p & m
	if n == 0 {
		*p = v
		return o.Next()
	}
	kind, last := uint8(ccShr), v>>(n-1) // the operand shifted by one bit less
	switch o.Code {
	case decode.SHR:
		*p = v >> n
	case decode.SAR:
		s := int64(decode.SignExtend(v, o.W))
		last = uint64(s>>(n-1)) & m
		*p = uint64(s>>n) & m
	default:
		kind, last = ccShl, v<<(n-1)&m
		*p = v << n & m
	}
	c.lazy(kind, o.W, *p, last)
	return o.Next()
}

func push(c *CPU, o *Op) *Op {
	v := c.second(o)
	va := c.R[4] - 8
	p := c.word(va, c.TLB.Write)
	if p == nil {
		return nil
	}
	*p = v
	c.R[4] = va
	return o.Next()
}

func pop(c *CPU, o *Op) *Op {
	va := c.R[4]
	p := c.word(va, c.TLB.Read)
	if p == nil {
		return nil
	}
	c.R[4] = va + 8
	c.R[o.A&15] = *p
	return o.Next()
}

// enterLinked returns the first instruction of the block that branch j is linked to, or nil
// if that must be found.
func (c *CPU) enterLinked(j *Op) *Op {
	t := (*Op)(atomic.LoadPointer(&j.link))
	left := c.Left - int64(j.n)
	if left < t.need() {
		c.br = brCross
		return nil
	}
	c.Left = left
	return t.Next()
}

func jmp(c *CPU, o *Op) *Op { return c.enterLinked(o) }

func call(c *CPU, o *Op) *Op {
	va := c.R[4] - 8
	p := c.word(va, c.TLB.Write)
	if p == nil {
		return nil
	}
	n := c.enterLinked(o)
	if n == nil {
		c.br = brSlowCross
		return nil
	}
	*p = o.Disp
	c.R[4] = va
	return n
}

// known is the first instruction of the block at rip, if the vCPU has been there
// and o, which leads there, leaves budget enough; else nil: exec must execute o.
func (c *CPU) known(o *Op, rip uint64) *Op {
	j := &c.jc[jcHash(rip)]
	left := c.Left - int64(o.n)
	if j.rip != rip || left < j.head.need() {
		c.br = brSlow
		return nil
	}
	c.Left = left
	return j.head.Next()
}

func ret(c *CPU, o *Op) *Op {
	va := c.R[4]
	p := c.word(va, c.TLB.Read)
	if p == nil {
		return nil
	}
	n := c.known(o, *p)
	if n != nil {
		c.R[4] = va + 8 + o.Imm
	}
	return n
}

func jmpReg(c *CPU, o *Op) *Op { return c.known(o, c.R[o.B&15]) }

func callReg(c *CPU, o *Op) *Op {
	va := c.R[4] - 8
	p := c.word(va, c.TLB.Write)
	if p == nil {
		return nil
	}
	n := c.known(o, c.R[o.B&15])
	if n != nil {
		*p = o.Disp
		c.R[4] = va
	}
	return n
}

func jcc(c *CPU, o *Op) *Op {
	if !c.cond(o.A) {
		return o.Next()
	}
	return c.enterLinked(o)
}

func (c *CPU) isZero() bool {
	if c.ccOp == ccNone {
		return c.RFlags&flagZF != 0
	}
	return c.ccRes == 0
}

func je(c *CPU, o *Op) *Op {
	if !c.isZero() {
		return o.Next()
	}
	return c.enterLinked(o)
}

func jne(c *CPU, o *Op) *Op {
	if c.isZero() {
		return o.Next()
	}
	return c.enterLinked(o)
}
