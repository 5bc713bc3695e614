package cpu

import (
	"math/bits"
	"sync/atomic"
	"unsafe"
)

// general leaves everything to exec, with what catches its faults.
func general(c *CPU, o *op) *op {
	c.br = brSlow
	return nil
}

// direct is for what cannot fault.
func direct(c *CPU, o *op) *op { return c.exec(o) }

// exits is int3 and what else ends Run; disp is where RIP stands then.
func exits(c *CPU, o *op) *op {
	c.RIP = o.disp
	c.exit = Exit{Reason: exitReason(o.code), Vector: uint8(o.imm)}
	c.br = brExit
	return nil
}

// int3 goes on where the hook says.
func int3(c *CPU, o *op) *op {
	if c.hook == nil {
		return exits(c, o)
	}
	c.settle()
	c.RIP = o.disp
	if !c.hook(Trap) {
		c.asked = true
		return exits(c, o)
	}
	c.br = brGo
	if c.RFlags&flagTF != 0 || c.Shadow || c.kick.Load() != 0 || c.RFlags&flagIF != 0 && c.wantIRQ.Load() {
		c.br = brLook
	}
	return nil
}

// vmcall goes on behind itself when the hook answers it.
func vmcall(c *CPU, o *op) *op {
	if c.hook == nil {
		return exits(c, o)
	}
	c.RIP = o.disp
	if !c.hook(Hypercall) {
		return exits(c, o)
	}
	return o.next()
}

func exitReason(k code) Reason {
	switch k {
	case cHLT:
		return Halt
	case cPAUSE:
		return Pause
	case cVMCALL:
		return Hypercall
	}
	return Trap
}

func cli(c *CPU, o *op) *op {
	c.RFlags &^= flagIF
	return o.next()
}

// sti needs no look at interrupts if none is wanted and the instruction in its
// shadow is executed before Run can end.
func sti(c *CPU, o *op) *op {
	if c.wantIRQ.Load() || o.next().code == cFETCH {
		c.br = brSlow
		return nil
	}
	c.RFlags |= flagIF
	return o.next()
}

func pushf(c *CPU, o *op) *op {
	c.settle()
	va := c.R[4] - 8
	e := &c.wtlb[va>>12&tlbMask]
	if e.tag != (va+7)&^0xfff {
		c.br = brSlow
		return nil
	}
	*(*uint64)(unsafe.Add(nil, va+e.off)) = c.RFlags &^ flagRF
	c.R[4] = va
	return o.next()
}

// popf of flags that leave interrupts and single-stepping as they are.
func popf(c *CPU, o *op) *op {
	va := c.R[4]
	e := &c.rtlb[va>>12&tlbMask]
	if e.tag != (va+7)&^0xfff {
		c.br = brSlow
		return nil
	}
	v := *(*uint64)(unsafe.Add(nil, va+e.off))
	if (v^c.RFlags)&(flagIF|flagTF) != 0 {
		c.br = brSlow
		return nil
	}
	c.RFlags = c.RFlags&^flagMask | v&flagMask
	c.ccOp = ccNone
	c.R[4] = va + 8
	return o.next()
}

func cdqe(c *CPU, o *op) *op {
	c.R[0] = uint64(int32(c.R[0]))
	return o.next()
}

// factor is the other factor of imul.
func factor(c *CPU, o *op) uint64 {
	if o.form&threeOp != 0 {
		return o.imm
	}
	return c.R[o.a&15]
}

func imul64(c *CPU, o *op) *op {
	a, b := factor(c, o), c.R[o.b&15]
	hi, lo := bits.Mul64(a, b)
	hi -= uint64(int64(a)>>63)&b + uint64(int64(b)>>63)&a
	c.R[o.a&15] = lo
	c.ccOp, c.ccRes, c.ccSrc = ccMul|3, lo, hi^uint64(int64(lo)>>63)
	return o.next()
}

func imul32(c *CPU, o *op) *op {
	p := int64(int32(factor(c, o))) * int64(int32(c.R[o.b&15]))
	c.R[o.a&15] = uint64(uint32(p))
	c.ccOp, c.ccRes, c.ccSrc = ccMul|2, uint64(uint32(p)), uint64(p^int64(int32(p)))
	return o.next()
}

func cmov64(c *CPU, o *op) *op {
	if c.cond(uint8(o.imm)) {
		c.R[o.a&15] = c.R[o.b&15]
	}
	return o.next()
}

func cmov32(c *CPU, o *op) *op {
	from := o.a
	if c.cond(uint8(o.imm)) {
		from = o.b
	}
	c.R[o.a&15] = uint64(uint32(c.R[from&15]))
	return o.next()
}

// incDec keeps CF, so it cannot be lazy.
func incDec(c *CPU, o *op) *op {
	cf := c.carry()
	m := mask(o.w)
	p := &c.R[o.a&15]
	var f uint64
	if o.code == cINC {
		f = addFlags(*p&m, 1, 0, o.w)
		*p = (*p + 1) & m
	} else {
		f = subFlags(*p&m, 1, 0, o.w)
		*p = (*p - 1) & m
	}
	c.RFlags = c.RFlags&^flagStatus | f&^flagCF | cf
	c.ccOp = ccNone
	return o.next()
}

// carried is adc and sbb.
func carried(c *CPU, o *op) *op {
	cf := c.carry()
	m := mask(o.w)
	p := &c.R[o.a&15]
	a, b := *p&m, o.imm&m
	if o.form&srcImm == 0 {
		b = c.R[o.b&15] & m
	}
	var f uint64
	if o.code == cADC {
		f = addFlags(a, b, cf, o.w)
		*p = (a + b + cf) & m
	} else {
		f = subFlags(a, b, cf, o.w)
		*p = (a - b - cf) & m
	}
	c.RFlags = c.RFlags&^flagStatus | f
	c.ccOp = ccNone
	return o.next()
}

func neg(c *CPU, o *op) *op {
	p := &c.R[o.a&15]
	src := *p & mask(o.w)
	*p = -src & mask(o.w)
	c.ccOp, c.ccRes, c.ccSrc = ccSub|log2w(o.w), *p, src
	return o.next()
}

func not(c *CPU, o *op) *op {
	p := &c.R[o.a&15]
	*p = ^*p & mask(o.w)
	return o.next()
}

// rotateImm is rol and ror by imm, which is not 0.
func rotateImm(c *CPU, o *op) *op {
	c.settle()
	p := &c.R[o.a&15]
	n := int(o.imm)
	if o.code == cROR {
		n = -n
	}
	var r, top uint64
	if o.w == 8 {
		r = bits.RotateLeft64(*p, n)
		top = r >> 62
	} else {
		r = uint64(bits.RotateLeft32(uint32(*p), n))
		top = r >> 30
	}
	*p = r
	cf, of := r&1, top>>1^r
	if o.code == cROR {
		cf, of = top>>1, top>>1^top
	}
	c.RFlags = c.RFlags&^(flagCF|flagOF) | cf | of&1<<11
	return o.next()
}

// scanBits is bsf, bsr, tzcnt and lzcnt.
func scanBits(c *CPU, o *op) *op {
	v := c.R[o.b&15] & mask(o.w)
	r := uint64(bits.TrailingZeros64(v))
	c.settle()
	switch o.code {
	case cBSF, cBSR:
		if v == 0 {
			c.RFlags |= flagZF
			return o.next()
		}
		if o.code == cBSR {
			r = uint64(63 - bits.LeadingZeros64(v))
		}
		c.RFlags &^= flagZF
	default:
		size := uint64(o.w) * 8
		if r = min(r, size); o.code == cLZCNT {
			r = uint64(bits.LeadingZeros64(v)) - (64 - size)
		}
		c.RFlags = c.RFlags&^(flagCF|flagZF) | b2u(v == 0) | b2u(r == 0)*flagZF
	}
	c.R[o.a&15] = r
	return o.next()
}

func bt(c *CPU, o *op) *op {
	bit := o.imm
	if o.form&srcImm == 0 {
		bit = c.R[o.b&15]
	}
	c.settle()
	c.RFlags = c.RFlags&^flagCF | c.R[o.a&15]>>(bit&(8*uint64(o.w)-1)&63)&1
	return o.next()
}

// cross finds the block that branch j leads to and links it. It returns the instruction
// to go on with, or nil if RIP says where to go on or there is an exit.
func (c *CPU) cross(j *op) (o *op, exit bool) {
	c.left -= int64(j.n)
	c.RIP = j.imm
	if c.left <= 0 { // the target may not even be there
		return nil, false
	}
	t := (*op)(atomic.LoadPointer(&j.link))
	if t.need() == dead {
		if t = c.lookup(j.imm); t == nil {
			return nil, true
		}
		atomic.StorePointer(&j.link, unsafe.Pointer(t))
	}
	if c.left < t.need() {
		return nil, false
	}
	return t.next(), false
}

func leave(c *CPU, o *op) *op {
	va := c.R[5]
	e := &c.rtlb[va>>12&tlbMask]
	if e.tag != (va+7)&^0xfff {
		c.br = brSlow
		return nil
	}
	c.R[5] = *(*uint64)(unsafe.Add(nil, va+e.off))
	c.R[4] = va + 8
	return o.next()
}

func setcc(c *CPU, o *op) *op {
	c.setReg(o.a, 1, b2u(c.cond(uint8(o.imm))))
	return o.next()
}
