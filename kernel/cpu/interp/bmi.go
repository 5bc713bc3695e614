package interp

import (
	"math/bits"

	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
)

// BMI1, BMI2 and ADX. The register of VEX.vvvv is Imm.

// resultOf makes r the result of an instruction of BMI, with its flags but CF.
func (c *CPU) resultOf(o *Op, r uint64, cf bool) {
	c.setReg(o.A, o.W, r)
	c.setStatus(flagStatus, resultFlags(r, uint(8*o.W-1))&^flagPF|b2u(cf))
}

func (c *CPU) andn(o *Op) {
	c.resultOf(o, ^c.getReg(uint8(o.Imm), o.W)&c.src(o, o.W), false)
}

func (c *CPU) bextr(o *Op) {
	size := uint64(o.W) * 8
	ctl := c.getReg(uint8(o.Imm), o.W)
	r := c.src(o, o.W)
	if start := ctl & 0xff; start < size {
		r >>= start
	} else {
		r = 0
	}
	if n := ctl >> 8 & 0xff; n < size {
		r &= 1<<n - 1
	}
	c.setReg(o.A, o.W, r)
	c.setStatus(flagStatus, b2u(r == 0)*flagZF)
}

func (c *CPU) bzhi(o *Op) {
	size := uint64(o.W) * 8
	r, n := c.src(o, o.W), c.getReg(uint8(o.Imm), o.W)&0xff
	if n < size {
		r &= 1<<n - 1
	}
	c.resultOf(o, r, n >= size)
}

// lowestBit is blsr, blsmsk and blsi.
func (c *CPU) lowestBit(o *Op) {
	s := c.src(o, o.W)
	r, cf := s&(s-1), s == 0
	switch o.Code {
	case decode.BLSMSK:
		r = s ^ (s - 1)
	case decode.BLSI:
		r, cf = s&-s, s != 0
	}
	c.resultOf(o, r&mask(o.W), cf)
}

// deposit is pdep and pext.
func (c *CPU) deposit(o *Op) {
	a, m := c.getReg(uint8(o.Imm), o.W), c.src(o, o.W)
	var r uint64
	for k := uint(0); m != 0; k++ {
		low := m & -m
		if o.Code == decode.PDEP && a>>k&1 != 0 {
			r |= low
		} else if o.Code == decode.PEXT && a&low != 0 {
			r |= 1 << k
		}
		m &^= low
	}
	c.setReg(o.A, o.W, r)
}

func (c *CPU) mulx(o *Op) {
	hi, lo := bits.Mul64(c.getReg(2, o.W), c.src(o, o.W))
	if o.W == 4 {
		hi = lo >> 32
	}
	c.setReg(uint8(o.Imm), o.W, lo)
	c.setReg(o.A, o.W, hi)
}

func (c *CPU) rorx(o *Op) {
	size := uint64(o.W) * 8
	n := o.Imm & (size - 1)
	s := c.src(o, o.W)
	c.setReg(o.A, o.W, s>>n|s<<(size-n))
}

// shiftX is shlx, shrx and sarx.
func (c *CPU) shiftX(o *Op) {
	v := c.src(o, o.W)
	n := c.R[uint8(o.Imm)&15] & (uint64(o.W)*8 - 1)
	switch o.Code {
	case decode.SHLX:
		v <<= n
	case decode.SHRX:
		v >>= n
	default:
		v = uint64(int64(decode.SignExtend(v, o.W)) >> n)
	}
	c.setReg(o.A, o.W, v)
}

// addCarry is adcx and adox.
func (c *CPU) addCarry(o *Op) {
	c.Settle()
	bit := uint(0)
	if o.Code == decode.ADOX {
		bit = 11
	}
	b, cf := c.src(o, o.W), c.RFlags>>bit&1
	f := addFlags(c.getReg(o.A, o.W), b, cf, o.W)
	c.setReg(o.A, o.W, c.getReg(o.A, o.W)+b+cf)
	c.setStatus(1<<bit, f&1<<bit)
}
