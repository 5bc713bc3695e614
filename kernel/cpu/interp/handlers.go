package interp

import (
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/kprobefs/kprobefs/kernel/cpu/core"
	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
)

// general leaves everything to exec, with what catches its faults.
func general(c *CPU, o *Op) *Op {
	c.br = brSlow
	return nil
}

// direct is for what cannot fault.
func direct(c *CPU, o *Op) *Op { return c.exec(o) }

// exits is int3 and what else ends Run; disp is where RIP stands then.
func exits(c *CPU, o *Op) *Op {
	c.RIP = o.Disp
	c.exit = core.Exit{Reason: exitReason(o.Code), Vector: uint8(o.Imm)}
	c.br = brExit
	return nil
}

// Refused is for an int3 or a vmcall of which Hit said false. It returns what Execute does.
func (o *Op) Refused(c *CPU) *Op {
	c.asked = true
	return exits(c, o)
}

// int3 goes on where the hook says.
func int3(c *CPU, o *Op) *Op {
	c.Settle()
	c.RIP = o.Disp
	if !c.Hit(core.Trap) {
		return o.Refused(c)
	}
	return c.GoOnBehindTrap()
}

// GoOnBehindTrap goes on at RIP, which the hook has set, after a look at all that can end Run
// if something of that is there now.
func (c *CPU) GoOnBehindTrap() *Op {
	c.br = brGo
	if c.RFlags&flagTF != 0 || c.Shadow || c.kick.Load() != 0 || c.RFlags&flagIF != 0 && c.wantIRQ.Load() {
		c.br = brLook
	}
	return nil
}

// vmcall goes on behind itself when the hook answers it.
func vmcall(c *CPU, o *Op) *Op {
	c.RIP = o.Disp
	if !c.Hit(core.Hypercall) {
		return o.Refused(c)
	}
	if c.RIP != o.Disp { // abandoned
		c.br = brLook
		return nil
	}
	return o.Next()
}

func exitReason(k decode.Code) core.Reason {
	switch k {
	case decode.HLT:
		return core.Halt
	case decode.PAUSE:
		return core.Pause
	case decode.VMCALL:
		return core.Hypercall
	}
	return core.Trap
}

func cli(c *CPU, o *Op) *Op {
	c.RFlags &^= flagIF
	return o.Next()
}

// sti needs no look at interrupts if none is wanted and the instruction in its
// shadow is executed before Run can end.
func sti(c *CPU, o *Op) *Op {
	if c.wantIRQ.Load() || o.Next().Code == decode.FETCH {
		c.br = brSlow
		return nil
	}
	c.RFlags |= flagIF
	return o.Next()
}

func pushf(c *CPU, o *Op) *Op {
	c.Settle()
	va := c.R[4] - 8
	p := c.word(va, c.TLB.Write)
	if p == nil {
		return nil
	}
	*p = c.RFlags &^ flagRF
	c.R[4] = va
	return o.Next()
}

// popf of flags that leave interrupts and single-stepping as they are.
func popf(c *CPU, o *Op) *Op {
	va := c.R[4]
	p := c.word(va, c.TLB.Read)
	if p == nil {
		return nil
	}
	v := *p
	if (v^c.RFlags)&(flagIF|flagTF) != 0 {
		c.br = brSlow
		return nil
	}
	c.RFlags = c.RFlags&^flagMask | v&flagMask
	c.ccOp = ccNone
	c.R[4] = va + 8
	return o.Next()
}

func cdqe(c *CPU, o *Op) *Op {
	c.R[0] = uint64(int32(c.R[0]))
	return o.Next()
}

// factor is the other factor of imul.
func factor(c *CPU, o *Op) uint64 {
	if o.Form&decode.ThreeOp != 0 {
		return o.Imm
	}
	return c.R[o.A&15]
}

func imul64(c *CPU, o *Op) *Op {
	a, b := factor(c, o), c.R[o.B&15]
	hi, lo := bits.Mul64(a, b)
	hi -= uint64(int64(a)>>63)&b + uint64(int64(b)>>63)&a
	c.R[o.A&15] = lo
	c.ccOp, c.ccRes, c.ccSrc = ccMul|3, lo, hi^uint64(int64(lo)>>63)
	return o.Next()
}

func imul32(c *CPU, o *Op) *Op {
	p := int64(int32(factor(c, o))) * int64(int32(c.R[o.B&15]))
	c.R[o.A&15] = uint64(uint32(p))
	c.ccOp, c.ccRes, c.ccSrc = ccMul|2, uint64(uint32(p)), uint64(p^int64(int32(p)))
	return o.Next()
}

func cmov64(c *CPU, o *Op) *Op {
	if c.cond(uint8(o.Imm)) {
		c.R[o.A&15] = c.R[o.B&15]
	}
	return o.Next()
}

func cmov32(c *CPU, o *Op) *Op {
	from := o.A
	if c.cond(uint8(o.Imm)) {
		from = o.B
	}
	c.R[o.A&15] = uint64(uint32(c.R[from&15]))
	return o.Next()
}

// incDec keeps CF, so it cannot be lazy.
func incDec(c *CPU, o *Op) *Op {
	cf := c.carry()
	m := mask(o.W)
	p := &c.R[o.A&15]
	var f uint64
	if o.Code == decode.INC {
		f = addFlags(*p&m, 1, 0, o.W)
		*p = (*p + 1) & m
	} else {
		f = subFlags(*p&m, 1, 0, o.W)
		*p = (*p - 1) & m
	}
	c.RFlags = c.RFlags&^flagStatus | f&^flagCF | cf
	c.ccOp = ccNone
	return o.Next()
}

// carried is adc and sbb.
func carried(c *CPU, o *Op) *Op {
	cf := c.carry()
	m := mask(o.W)
	p := &c.R[o.A&15]
	a, b := *p&m, o.Imm&m
	if o.Form&decode.SrcImm == 0 {
		b = c.R[o.B&15] & m
	}
	var f uint64
	if o.Code == decode.ADC {
		f = addFlags(a, b, cf, o.W)
		*p = (a + b + cf) & m
	} else {
		f = subFlags(a, b, cf, o.W)
		*p = (a - b - cf) & m
	}
	c.RFlags = c.RFlags&^flagStatus | f
	c.ccOp = ccNone
	return o.Next()
}

func neg(c *CPU, o *Op) *Op {
	p := &c.R[o.A&15]
	src := *p & mask(o.W)
	*p = -src & mask(o.W)
	c.ccOp, c.ccRes, c.ccSrc = ccSub|log2w(o.W), *p, src
	return o.Next()
}

func not(c *CPU, o *Op) *Op {
	p := &c.R[o.A&15]
	*p = ^*p & mask(o.W)
	return o.Next()
}

// rotateImm is rol and ror by imm, which is not 0.
func rotateImm(c *CPU, o *Op) *Op {
	c.Settle()
	p := &c.R[o.A&15]
	n := int(o.Imm)
	if o.Code == decode.ROR {
		n = -n
	}
	var r, top uint64
	if o.W == 8 {
		r = bits.RotateLeft64(*p, n)
		top = r >> 62
	} else {
		r = uint64(bits.RotateLeft32(uint32(*p), n))
		top = r >> 30
	}
	*p = r
	cf, of := r&1, top>>1^r
	if o.Code == decode.ROR {
		cf, of = top>>1, top>>1^top
	}
	c.RFlags = c.RFlags&^(flagCF|flagOF) | cf | of&1<<11
	return o.Next()
}

// scanBits is bsf, bsr, tzcnt and lzcnt.
func scanBits(c *CPU, o *Op) *Op {
	v := c.R[o.B&15] & mask(o.W)
	r := uint64(bits.TrailingZeros64(v))
	c.Settle()
	switch o.Code {
	case decode.BSF, decode.BSR:
		if v == 0 {
			c.RFlags |= flagZF
			return o.Next()
		}
		if o.Code == decode.BSR {
			r = uint64(63 - bits.LeadingZeros64(v))
		}
		c.RFlags &^= flagZF
	default:
		size := uint64(o.W) * 8
		if r = min(r, size); o.Code == decode.LZCNT {
			r = uint64(bits.LeadingZeros64(v)) - (64 - size)
		}
		c.RFlags = c.RFlags&^(flagCF|flagZF) | b2u(v == 0) | b2u(r == 0)*flagZF
	}
	c.R[o.A&15] = r
	return o.Next()
}

func bt(c *CPU, o *Op) *Op {
	bit := o.Imm
	if o.Form&decode.SrcImm == 0 {
		bit = c.R[o.B&15]
	}
	c.Settle()
	c.RFlags = c.RFlags&^flagCF | c.R[o.A&15]>>(bit&(8*uint64(o.W)-1)&63)&1
	return o.Next()
}

// cross finds the block that branch j leads to and links it. It returns the instruction
// to go on with, or nil if RIP says where to go on or there is an exit.
func (c *CPU) cross(j *Op) (o *Op, exit bool) {
	c.Left -= int64(j.n)
	c.RIP = j.Imm
	if c.Left <= 0 { // the target may not even be there
		return nil, false
	}
	t := (*Op)(atomic.LoadPointer(&j.link))
	if t.need() == dead {
		if t = c.lookup(j.Imm); t == nil {
			return nil, true
		}
		atomic.StorePointer(&j.link, unsafe.Pointer(t))
	}
	if c.Left < t.need() {
		return nil, false
	}
	return t.Next(), false
}

func leave(c *CPU, o *Op) *Op {
	va := c.R[5]
	p := c.word(va, c.TLB.Read)
	if p == nil {
		return nil
	}
	c.R[5] = *p
	c.R[4] = va + 8
	return o.Next()
}

func setcc(c *CPU, o *Op) *Op {
	c.setReg(o.A, 1, b2u(c.cond(uint8(o.Imm))))
	return o.Next()
}
