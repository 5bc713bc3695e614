package interp

import (
	"hash/crc32"
	"math/bits"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/cpu/core"
	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
	"github.com/kprobefs/kprobefs/kernel/mem"
)

// Why an op function returned nil.
const (
	brSlow      = iota // nothing done: exec must do it
	brGo               // retired; go on at RIP
	brLook             // retired; go on at RIP after a look at interrupts and single-stepping
	brExit             // retired; RIP and exit are set
	brFault            // not retired; exit is set
	brCross            // nothing of the branch done; its target must be found
	brSlowCross        // the same, of a call
	brKick             // not retired, but a REP has got somewhere; kicked
)

// slow does one instruction completely, faults included.
func (c *CPU) slow(o *Op) (next *Op) {
	defer c.catch(&next)
	if c.watches != nil {
		return c.watched(o)
	}
	return c.exec(o)
}

// catch turns a thrown fault into an exit.
func (c *CPU) catch(next **Op) {
	r := recover()
	if r == nil {
		return
	}
	f, ok := r.(*fault)
	if !ok {
		panic(r)
	}
	*next = nil
	c.br = brFault
	if f.vector == abi.VecPF {
		c.CR2 = f.addr
	}
	c.exit = core.Exit{Reason: core.Trap, Vector: f.vector, HasCode: f.hasCode, Code: f.code, Addr: f.addr}
}

func stk(o *Op) bool { return o.Flags&decode.StackSeg != 0 }

// src is the source operand: of width w, without bits above it.
func (c *CPU) src(o *Op, w uint8) uint64 {
	switch {
	case o.Form&decode.SrcImm != 0:
		return o.Imm & mask(w)
	case o.Form&decode.SrcMem != 0:
		return c.load(c.ea(o), w, stk(o))
	}
	return c.getReg(o.B, w)
}

// dst reads the destination operand.
func (c *CPU) dst(o *Op) uint64 {
	if o.Form&decode.DstMem != 0 {
		return c.load(c.ea(o), o.W, stk(o))
	}
	return c.getReg(o.A, o.W)
}

// set writes the destination operand.
func (c *CPU) set(o *Op, v uint64) {
	if o.Form&decode.DstMem != 0 {
		c.store(c.ea(o), v, o.W, stk(o))
		return
	}
	c.setReg(o.A, o.W, v)
}

// modify replaces the destination operand by f of it and returns what it was;
// with LOCK, in one step.
func (c *CPU) modify(o *Op, f func(v uint64) uint64) uint64 {
	switch {
	case o.Form&decode.DstMem == 0:
		old := c.getReg(o.A, o.W)
		c.setReg(o.A, o.W, f(old))
		return old
	case o.Flags&decode.Locked != 0:
		return c.atomically(c.ea(o), o.W, stk(o), f)
	}
	va := c.ea(o)
	old := c.loadRMW(va, o.W, stk(o))
	c.store(va, f(old), o.W, stk(o))
	return old
}

func (c *CPU) canonical(rip uint64) {
	if !mem.Canonical(rip) {
		c.gp(0)
	}
}

// jump goes on at rip.
func (c *CPU) jump(rip uint64) *Op {
	c.canonical(rip)
	c.RIP = rip
	c.br = brGo
	return nil
}

// look goes on after o, with a look at what o changed.
func (c *CPU) look(o *Op) *Op {
	c.RIP = o.end()
	c.br = brLook
	return nil
}

// leave ends Run after o.
func (c *CPU) leave(o *Op, e core.Exit) *Op {
	c.RIP = o.end()
	c.br = brExit
	c.exit = e
	return nil
}

func (c *CPU) push(v uint64, w uint8) {
	sp := c.R[4] - uint64(w)
	c.store(sp, v, w, true)
	c.R[4] = sp
}

// exec executes any instruction. It returns the op to go on with, or nil and br.
func (c *CPU) exec(o *Op) *Op {
	op := &operations[o.Code]
	if op.exec == nil {
		return op.branch(c, o)
	}
	op.exec(c, o)
	return o.Next()
}

func (c *CPU) mov(o *Op) {
	if o.Form&decode.DstMem != 0 {
		c.store(c.ea(o), c.src(o, o.W), o.W, stk(o))
	} else {
		c.setReg(o.A, o.W, c.src(o, o.W))
	}
}

func (c *CPU) movzx(o *Op) { c.setReg(o.A, o.W, c.src(o, uint8(o.Imm))) }

func (c *CPU) movsx(o *Op) {
	c.setReg(o.A, o.W, decode.SignExtend(c.src(o, uint8(o.Imm)), uint8(o.Imm)))
}

func (c *CPU) cmov(o *Op) {
	v := c.src(o, o.W)
	if !c.cond(uint8(o.Imm)) {
		v = c.getReg(o.A, o.W)
	}
	c.setReg(o.A, o.W, v)
}

// cbw is cbw, cwde and cdqe; cwd is cwd, cdq and cqo.
func (c *CPU) cbw(o *Op) { c.setReg(0, o.W, decode.SignExtend(c.R[0], o.W/2)) }

func (c *CPU) cwd(o *Op) {
	c.setReg(2, o.W, uint64(int64(decode.SignExtend(c.R[0], o.W))>>63))
}

func (c *CPU) xlat(o *Op) {
	a := o.Disp + c.R[3]
	a += c.R[0] & 0xff
	if o.Flags&decode.Addr32 != 0 {
		a = uint64(uint32(a))
	}
	c.setReg(0, 1, c.load(a+c.Place(o.Seg), 1, false))
}

func (c *CPU) pushOp(o *Op) {
	v := o.Imm
	if o.Form&decode.SrcImm == 0 {
		v = c.src(o, o.W)
	}
	c.push(v, o.W)
}

// popOp moves the stack pointer before it makes the address of an operand in memory, and
// leaves it where it was if that cannot be written.
func (c *CPU) popOp(o *Op) {
	v := c.load(c.R[4], o.W, true)
	if o.Form&decode.DstMem != 0 {
		c.R[4] += uint64(o.W)
		va := c.ea(o)
		c.R[4] -= uint64(o.W)
		c.store(va, v, o.W, stk(o))
		c.R[4] += uint64(o.W)
	} else {
		c.R[4] += uint64(o.W)
		c.setReg(o.A, o.W, v)
	}
}

func (c *CPU) leaveFrame(o *Op) {
	sp := c.R[5]
	v := c.load(sp, o.W, true)
	c.R[4] = sp + uint64(o.W)
	c.setReg(5, o.W, v)
}

func (c *CPU) pushFlags(o *Op) {
	c.Settle()
	c.push(c.RFlags&^flagRF, o.W)
}

func (c *CPU) popFlags(o *Op) *Op {
	v := c.load(c.R[4], o.W, true)
	c.R[4] += uint64(o.W)
	c.setFlags(v, o.W)
	return c.look(o)
}

func (c *CPU) lahf(*Op) {
	c.Settle()
	c.setReg(decode.RegHigh, 1, c.RFlags&0xff)
}

func (c *CPU) jumpOrCall(o *Op) *Op {
	to := o.Imm
	if o.Form&decode.Indirect != 0 {
		to = c.src(o, 8)
	}
	if o.Code == decode.JMP {
		return c.jump(to)
	}
	sp := c.R[4] - 8
	c.store(sp, o.end(), 8, true)
	c.canonical(to) // Intel's have written the return address by then
	c.R[4] = sp
	return c.jump(to)
}

func (c *CPU) jcc(o *Op) *Op {
	if !c.cond(o.A) {
		return o.Next()
	}
	return c.jump(o.Imm)
}

func (c *CPU) ret(o *Op) *Op {
	to := c.load(c.R[4], 8, true)
	c.canonical(to)
	c.R[4] += 8 + o.Imm
	return c.jump(to)
}

func (c *CPU) cmp(o *Op) {
	a, b := c.dst(o), c.src(o, o.W)
	c.lazy(ccSub, o.W, (a-b)&mask(o.W), b)
}

func (c *CPU) test(o *Op) { c.lazy(ccLogic, o.W, c.dst(o)&c.src(o, o.W), 0) }

func (c *CPU) not(o *Op) { c.modify(o, func(v uint64) uint64 { return ^v }) }

func (c *CPU) neg(o *Op) {
	old := c.modify(o, func(v uint64) uint64 { return -v })
	c.lazy(ccSub, o.W, -old&mask(o.W), old)
}

func (c *CPU) xadd(o *Op) {
	src := c.getReg(o.B, o.W)
	old := c.modify(o, func(v uint64) uint64 { return v + src })
	res := (old + src) & mask(o.W)
	c.setReg(o.B, o.W, old)
	if o.Form&decode.DstMem == 0 {
		c.setReg(o.A, o.W, res)
	}
	c.lazy(ccAdd, o.W, res, src)
}

// alu is add, or, adc, sbb, and, sub, xor.
func (c *CPU) alu(o *Op) {
	b, w := c.src(o, o.W), o.W
	var a, res uint64
	switch o.Code {
	case decode.ADD:
		a = c.modify(o, func(v uint64) uint64 { return v + b })
		res = (a + b) & mask(w)
		c.lazy(ccAdd, w, res, b)
	case decode.SUB:
		a = c.modify(o, func(v uint64) uint64 { return v - b })
		c.lazy(ccSub, w, (a-b)&mask(w), b)
	case decode.OR:
		a = c.modify(o, func(v uint64) uint64 { return v | b })
		c.lazy(ccLogic, w, a|b, 0)
	case decode.AND:
		a = c.modify(o, func(v uint64) uint64 { return v & b })
		c.lazy(ccLogic, w, a&b, 0)
	case decode.XOR:
		a = c.modify(o, func(v uint64) uint64 { return v ^ b })
		c.lazy(ccLogic, w, a^b, 0)
	case decode.ADC:
		cf := c.carry()
		a = c.modify(o, func(v uint64) uint64 { return v + b + cf })
		c.setStatus(flagStatus, addFlags(a, b, cf, w))
	case decode.SBB:
		cf := c.carry()
		a = c.modify(o, func(v uint64) uint64 { return v - b - cf })
		c.setStatus(flagStatus, subFlags(a, b, cf, w))
	}
}

// addFlags is the status flags of a + b + cf.
func addFlags(a, b, cf uint64, w uint8) uint64 {
	top := uint(8*w - 1)
	res := (a + b + cf) & mask(w)
	out := a&b | (a|b)&^res
	return out>>top&1 | (a^b^res)&flagAF | ((a^res)&(b^res)>>top&1)<<11 | resultFlags(res, top)
}

// subFlags is the status flags of a - b - cf.
func subFlags(a, b, cf uint64, w uint8) uint64 {
	top := uint(8*w - 1)
	res := (a - b - cf) & mask(w)
	out := ^a&b | (^a|b)&res
	return out>>top&1 | (a^b^res)&flagAF | ((a^b)&(a^res)>>top&1)<<11 | resultFlags(res, top)
}

func (c *CPU) incDec(o *Op) {
	cf := c.carry()
	var f uint64
	if o.Code == decode.INC {
		f = addFlags(c.modify(o, func(v uint64) uint64 { return v + 1 }), 1, 0, o.W)
	} else {
		f = subFlags(c.modify(o, func(v uint64) uint64 { return v - 1 }), 1, 0, o.W)
	}
	c.setStatus(flagStatus, f&^flagCF|cf)
}

// count is how far to shift: modulo 64 for 64-bit operands, else 32.
func (c *CPU) count(o *Op) uint {
	n := uint(o.Imm)
	if o.Form&decode.ByCL != 0 {
		n = uint(c.R[1])
	}
	if o.W == 8 {
		return n & 63
	}
	return n & 31
}

func (c *CPU) shift(o *Op) {
	n, w := c.count(o), o.W
	if n == 0 {
		c.modify(o, func(v uint64) uint64 { return v }) // it may fault
		return
	}
	switch o.Code {
	case decode.SHR:
		a := c.modify(o, func(v uint64) uint64 { return v >> n })
		c.lazy(ccShr, w, a>>n, a>>(n-1))
	case decode.SAR:
		a := decode.SignExtend(c.modify(o, func(v uint64) uint64 { return uint64(int64(decode.SignExtend(v, w)) >> n) }), w)
		c.lazy(ccShr, w, uint64(int64(a)>>n)&mask(w), uint64(int64(a)>>(n-1))&mask(w))
	default:
		a := c.modify(o, func(v uint64) uint64 { return v << n })
		c.lazy(ccShl, w, a<<n&mask(w), a<<(n-1)&mask(w))
	}
}

func (c *CPU) rotate(o *Op) {
	n, size := c.count(o), uint(o.W)*8
	top := size - 1
	if n == 0 {
		c.modify(o, func(v uint64) uint64 { return v })
		return
	}
	var cf, of uint64
	switch o.Code {
	case decode.ROL:
		n %= size
		rol := func(v uint64) uint64 { return (v<<n | v>>(size-n)) & mask(o.W) }
		r := rol(c.modify(o, rol))
		cf, of = r&1, r>>top^r
	case decode.ROR:
		n %= size
		ror := func(v uint64) uint64 { return (v>>n | v<<(size-n)) & mask(o.W) }
		r := ror(c.modify(o, ror))
		cf, of = r>>top, r>>top^r>>(top-1)
	case decode.RCL, decode.RCR:
		n %= size + 1
		in := c.carry()
		var r uint64
		c.modify(o, func(v uint64) uint64 {
			r, cf = rotateCarry(v, in, n, size, o.Code == decode.RCL)
			return r
		})
		of = r>>top ^ cf
		if o.Code == decode.RCR {
			of = r>>top ^ r>>(top-1)
		}
	}
	c.setStatus(flagCF|flagOF, cf&1|of&1<<11)
}

// rotateCarry rotates v of size bits with the carry as one bit more.
func rotateCarry(v, cf uint64, n, size uint, left bool) (res, out uint64) {
	m := ^uint64(0) >> (64 - size)
	for range n {
		if left {
			v, cf = (v<<1|cf)&m, v>>(size-1)&1
		} else {
			v, cf = v>>1|cf<<(size-1), v&1
		}
	}
	return v, cf
}

func (c *CPU) shiftDouble(o *Op) {
	n, w := c.count(o), o.W
	if o.Form&decode.ThreeOp != 0 && w != 8 {
		n = uint(o.Imm) & 31
	}
	size := uint(w) * 8
	b := c.getReg(o.B, w)
	if n == 0 {
		c.modify(o, func(v uint64) uint64 { return v })
		return
	}
	if w == 2 && n > 16 { // undefined; processors rotate dst:src:dst
		left := o.Code == decode.SHLD
		f := func(v uint64) uint64 {
			if left {
				return (v<<32 | b<<16 | v) << n >> 32
			}
			return (v<<32 | b<<16 | v) >> n
		}
		a := c.modify(o, f)
		c.lazy(ccShr, w, f(a)&0xffff, b>>(n-17)&1)
		if left {
			c.lazy(ccShl, w, f(a)&0xffff, b<<(n-17)&0xffff)
		}
		return
	}
	if o.Code == decode.SHLD {
		f := func(v uint64) uint64 { return (v<<n | b>>(size-n)) & mask(w) }
		a := c.modify(o, f)
		c.lazy(ccShl, w, f(a), (a<<(n-1)|b>>(size-n)>>1)&mask(w))
		return
	}
	f := func(v uint64) uint64 { return (v>>n | b<<(size-n)) & mask(w) }
	a := c.modify(o, f)
	c.lazy(ccShr, w, f(a), (a>>(n-1)|b<<(size-n)<<1)&mask(w))
}

// bitTest is bt, bts, btr, btc. A bit number in a register reaches beyond a
// memory operand's own word.
func (c *CPU) bitTest(o *Op) {
	w := o.W
	bit := c.src(o, w)
	va := uint64(0)
	if o.Form&decode.DstMem != 0 {
		va = c.ea(o)
		if o.Form&decode.SrcImm == 0 {
			off := uint64(int64(decode.SignExtend(bit, w))>>(3+log2w(w))) * uint64(w)
			va = c.ea(o) + off
			if o.Flags&decode.Addr32 != 0 {
				va = uint64(uint32(va-c.Place(o.Seg))) + c.Place(o.Seg)
			}
		}
	}
	bit &= uint64(w)*8 - 1
	f := func(v uint64) uint64 {
		switch o.Code {
		case decode.BTS:
			return v | 1<<bit
		case decode.BTR:
			return v &^ (1 << bit)
		}
		return v ^ 1<<bit
	}
	var old uint64
	switch {
	case o.Form&decode.DstMem == 0:
		old = c.getReg(o.A, w)
		if o.Code != decode.BT {
			c.setReg(o.A, w, f(old))
		}
	case o.Code == decode.BT:
		old = c.load(va, w, stk(o))
	case o.Flags&decode.Locked != 0:
		old = c.atomically(va, w, stk(o), f)
	default:
		old = c.loadRMW(va, w, stk(o))
		c.store(va, f(old), w, stk(o))
	}
	c.setStatus(flagCF, old>>bit&1)
}

// xchg with memory is locked with or without the prefix.
func (c *CPU) xchg(o *Op) {
	v := c.getReg(o.B, o.W)
	var old uint64
	if o.Form&decode.DstMem != 0 {
		old = c.atomically(c.ea(o), o.W, stk(o), func(uint64) uint64 { return v })
	} else {
		old = c.getReg(o.A, o.W)
		c.setReg(o.A, o.W, v)
	}
	c.setReg(o.B, o.W, old)
}

func (c *CPU) cmpxchg(o *Op) {
	w := o.W
	acc, v := c.getReg(0, w), c.getReg(o.B, w)
	if o.Form&decode.DstMem == 0 {
		old := c.getReg(o.A, w)
		if old == acc {
			c.setReg(o.A, w, v)
		} else {
			c.setReg(0, w, old)
		}
		c.lazy(ccSub, w, (acc-old)&mask(w), old)
		return
	}
	old := c.modify(o, func(old uint64) uint64 {
		if old == acc {
			return v
		}
		return old
	})
	if old != acc {
		c.setReg(0, w, old)
	}
	c.lazy(ccSub, w, (acc-old)&mask(w), old)
}

// cmpxchgPair is cmpxchg8b and cmpxchg16b.
func (c *CPU) cmpxchgPair(o *Op) {
	va := c.ea(o)
	var equal bool
	if o.W == 4 {
		want, to := c.R[0]&mask(4)|c.R[2]<<32, c.R[3]&mask(4)|c.R[1]<<32
		f := func(old uint64) uint64 {
			if old == want {
				return to
			}
			return old
		}
		var old uint64
		if o.Flags&decode.Locked != 0 {
			old = c.atomically(va, 8, stk(o), f)
		} else {
			old = c.loadRMW(va, 8, stk(o))
			c.store(va, f(old), 8, stk(o))
		}
		if equal = old == want; !equal {
			c.R[0], c.R[2] = old&mask(4), old>>32
		}
	} else {
		if va&15 != 0 {
			c.gp(0)
		}
		c.canWrite(va, 16, stk(o))
		c.mem.Split(func() {
			lo, hi := c.load(va, 8, stk(o)), c.load(va+8, 8, stk(o))
			if equal = lo == c.R[0] && hi == c.R[2]; equal {
				c.store(va, c.R[3], 8, stk(o))
				c.store(va+8, c.R[1], 8, stk(o))
			} else {
				c.R[0], c.R[2] = lo, hi
			}
		})
	}
	c.setStatus(flagZF, b2u(equal)*flagZF)
}

func (c *CPU) multiply(o *Op) {
	w := o.W
	if o.Code == decode.IMUL {
		a, b := c.getReg(o.A, w), c.src(o, w)
		if o.Form&decode.ThreeOp != 0 {
			a = o.Imm
		}
		hi, lo := mulSigned(decode.SignExtend(a, w), decode.SignExtend(b, w))
		c.setReg(o.A, w, lo)
		c.lazy(ccMul, w, lo&mask(w), b2u(hi != uint64(int64(lo)>>63) || decode.SignExtend(lo, w) != lo))
		return
	}
	a, b := c.getReg(0, w), c.src(o, w)
	var hi, lo uint64
	if o.Code == decode.MUL {
		hi, lo = bits.Mul64(a, b)
	} else {
		hi, lo = mulSigned(decode.SignExtend(a, w), decode.SignExtend(b, w))
	}
	if w < 8 {
		hi = lo >> (8 * uint(w)) & mask(w)
	}
	over := hi != 0
	if o.Code == decode.IMUL1 {
		over = hi != uint64(int64(decode.SignExtend(lo, w))>>63)&mask(w)
	}
	if w == 1 {
		c.setReg(0, 2, lo)
	} else {
		c.setReg(0, w, lo)
		c.setReg(2, w, hi)
	}
	c.lazy(ccMul, w, lo&mask(w), b2u(over))
}

func mulSigned(a, b uint64) (hi, lo uint64) {
	hi, lo = bits.Mul64(a, b)
	return hi - uint64(int64(a)>>63)&b - uint64(int64(b)>>63)&a, lo
}

func (c *CPU) divide(o *Op) {
	w := o.W
	b := c.src(o, w)
	hi, lo := c.getReg(2, w), c.getReg(0, w)
	if w == 1 {
		hi = c.R[0] >> 8 & 0xff
	}
	var q, r uint64
	ok := b != 0
	if ok && o.Code == decode.DIV {
		q, r, ok = divUnsigned(hi, lo, b, w)
	} else if ok {
		q, r, ok = divSigned(hi, lo, b, w)
	}
	if !ok {
		c.throw(abi.VecDE, false, 0, 0)
	}
	if w == 1 {
		c.setReg(0, 2, q&0xff|r&0xff<<8)
		return
	}
	c.setReg(0, w, q)
	c.setReg(2, w, r)
}

// divUnsigned divides hi:lo, two words of width w, by b, which is not 0; !ok:
// the quotient does not fit.
func divUnsigned(hi, lo, b uint64, w uint8) (q, r uint64, ok bool) {
	if hi >= b {
		return 0, 0, false
	}
	if w == 8 {
		q, r = bits.Div64(hi, lo, b)
		return q, r, true
	}
	n := hi<<(8*uint(w)) | lo
	return n / b, n % b, true
}

func divSigned(hi, lo, b uint64, w uint8) (q, r uint64, ok bool) {
	if w < 8 {
		size := 8 * uint(w)
		n := int64(hi<<size|lo) << (64 - 2*size) >> (64 - 2*size)
		d := int64(decode.SignExtend(b, w))
		if d == -1 && n == -1<<63 {
			return 0, 0, false
		}
		qs, rs := n/d, n%d
		return uint64(qs), uint64(rs), int64(decode.SignExtend(uint64(qs), w)) == qs
	}
	neg := int64(hi) < 0
	if neg {
		var borrow uint64
		lo, borrow = bits.Sub64(0, lo, 0)
		hi, _ = bits.Sub64(0, hi, borrow)
	}
	d := b
	if int64(b) < 0 {
		d = -b
	}
	if hi >= d {
		return 0, 0, false
	}
	q, r = bits.Div64(hi, lo, d)
	qneg := neg != (int64(b) < 0)
	if qneg && q > 1<<63 || !qneg && q >= 1<<63 {
		return 0, 0, false
	}
	if qneg {
		q = -q
	}
	if neg {
		r = -r
	}
	return q, r, true
}

func (c *CPU) countBits(o *Op) {
	w := o.W
	size := uint64(w) * 8
	v := c.src(o, w)
	lead := uint64(bits.LeadingZeros64(v)) - (64 - size)
	trail := min(uint64(bits.TrailingZeros64(v)), size)
	switch o.Code {
	case decode.POPCNT:
		c.setReg(o.A, w, uint64(bits.OnesCount64(v)))
		c.setStatus(flagStatus, b2u(v == 0)*flagZF)
	case decode.TZCNT, decode.LZCNT:
		n := trail
		if o.Code == decode.LZCNT {
			n = lead
		}
		c.setReg(o.A, w, n)
		c.setStatus(flagCF|flagZF, b2u(v == 0)|b2u(n == 0)*flagZF)
	default: // of 0 they leave the destination as it is
		if v != 0 && o.Code == decode.BSF {
			c.setReg(o.A, w, trail)
		} else if v != 0 {
			c.setReg(o.A, w, size-1-lead)
		}
		c.setStatus(flagZF, b2u(v == 0)*flagZF)
	}
}

func bswap(v uint64, w uint8) uint64 {
	switch w {
	case 2:
		return uint64(bits.ReverseBytes16(uint16(v)))
	case 4:
		return uint64(bits.ReverseBytes32(uint32(v)))
	}
	return bits.ReverseBytes64(v)
}

func (c *CPU) crc(o *Op) {
	sw := uint8(o.Imm)
	v := c.src(o, sw)
	table := crc32.MakeTable(crc32.Castagnoli)
	crc := uint32(c.R[o.A&15])
	for range sw {
		crc = table[uint8(crc)^uint8(v)] ^ crc>>8
		v >>= 8
	}
	c.setReg(o.A, o.W, uint64(crc))
}

func (c *CPU) enter(o *Op) {
	w := uint64(o.W)
	sp, fp := c.R[4]-w, c.R[5]
	c.store(sp, fp, o.W, true)
	frame := sp
	if level := o.A & 31; level > 0 {
		for i := uint64(1); i < uint64(level); i++ {
			sp -= w
			c.store(sp, c.load(fp-i*w, o.W, true), o.W, true)
		}
		sp -= w
		c.store(sp, frame, o.W, true)
	}
	sp -= o.Imm
	c.canWrite(sp, 1, true)
	c.R[4] = sp
	c.setReg(5, o.W, frame)
}

// loop is loopne, loope, loop and jrcxz.
func (c *CPU) loop(o *Op) *Op {
	n := c.R[1]
	if o.Flags&decode.Addr32 != 0 {
		n = uint64(uint32(n))
	}
	taken := n == 0
	if o.A < 3 {
		n--
		if o.Flags&decode.Addr32 != 0 {
			n = uint64(uint32(n))
		}
		taken = n != 0
		switch o.A {
		case 0:
			taken = taken && !c.cond(4)
		case 1:
			taken = taken && c.cond(4)
		}
		if taken {
			c.canonical(o.Imm)
		}
		c.R[1] = n
	}
	if !taken {
		return o.Next()
	}
	return c.jump(o.Imm)
}
