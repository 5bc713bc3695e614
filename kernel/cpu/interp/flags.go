package interp

import (
	"math/bits"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/cpu/core"
	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
)

const (
	flagCF = abi.FlagCF
	flagPF = abi.FlagPF
	flagAF = abi.FlagAF
	flagZF = abi.FlagZF
	flagSF = abi.FlagSF
	flagTF = abi.FlagTF
	flagIF = abi.FlagIF
	flagDF = abi.FlagDF
	flagOF = abi.FlagOF

	flagNT = core.FlagNT
	flagRF = core.FlagRF
	flagAC = core.FlagAC

	flagFixed  = core.FlagFixed
	flagStatus = core.FlagStatus
	flagMask   = core.FlagMask
)

// What the last instruction that set the flags was: the kind in the upper bits,
// log2 of its width in bytes in the lower two. ccRes is the result, without
// bits above the width; ccSrc is
//
//	ccAdd, ccSub  the second operand, without bits above the width
//	ccLogic       unused (CF, OF and AF are 0)
//	ccShl, ccShr  the operand shifted by one bit less
//	ccMul         not 0 if the product did not fit
const (
	ccNone  = 0 // RFlags has them all
	ccAdd   = 4
	ccSub   = 8
	ccLogic = 12
	ccShl   = 16
	ccShr   = 20
	ccMul   = 24

	// ccAside: the flags are in Aside.Flags. Nothing is interpreted before they are settled.
	ccAside = 28
)

// log2w is log2 of a width of 1, 2, 4 or 8 bytes.
func log2w(w uint8) uint8 { return uint8(bits.TrailingZeros8(w)) }

func mask(w uint8) uint64 { return decode.Mask(w) }

func (c *CPU) lazy(kind, w uint8, res, src uint64) {
	c.ccOp = kind | log2w(w)
	c.ccRes, c.ccSrc = res, src
}

func b2u(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// carry is CF.
func (c *CPU) carry() uint64 {
	switch c.ccOp &^ 3 {
	case ccNone:
		return c.RFlags & flagCF
	case ccAdd:
		return b2u(c.ccRes < c.ccSrc)
	case ccSub:
		w := uint8(1) << (c.ccOp & 3)
		return b2u((c.ccRes+c.ccSrc)&mask(w) < c.ccSrc)
	case ccShl:
		return c.ccSrc >> (uint(8)<<(c.ccOp&3) - 1) & 1
	case ccShr:
		return c.ccSrc & 1
	case ccMul:
		return b2u(c.ccSrc != 0)
	}
	return 0
}

// Settle puts the flags into RFlags.
func (c *CPU) Settle() {
	if c.ccOp != ccNone {
		c.settle()
	}
}

// settle is not inlined so that Settle is, in what comes with each hit.
//
//go:noinline
func (c *CPU) settle() {
	if c.ccOp == ccAside {
		c.TakeFlags()
		return
	}
	c.RFlags = c.RFlags&^flagStatus | c.status()
	c.ccOp = ccNone
}

// LendFlags puts the status flags where translated code has them, for it to be entered.
func (c *CPU) LendFlags() {
	if c.ccOp == ccAside {
		c.ccOp = ccNone
		return
	}
	c.Settle()
	c.Aside.Flags = uint16(c.RFlags&0xff<<8 | c.RFlags>>11&1)
}

// TakeFlags takes them from there when it has been left.
func (c *CPU) TakeFlags() {
	c.RFlags = c.RFlags&^flagStatus | uint64(c.Aside.Flags>>8)&(flagStatus&0xff) | uint64(c.Aside.Flags&1)<<11
	c.ccOp = ccNone
}

// TakeFlagsLater is TakeFlags where nobody may ask for them.
func (c *CPU) TakeFlagsLater() { c.ccOp = ccAside }

// status works the lazy flags out.
func (c *CPU) status() uint64 {
	res, src := c.ccRes, c.ccSrc
	top := uint(8)<<(c.ccOp&3) - 1
	f := c.carry() | resultFlags(res, top)
	var of, af uint64
	switch c.ccOp &^ 3 {
	case ccAdd:
		a := res - src
		of, af = (a^res)&(src^res)>>top, a^src^res
	case ccSub:
		a := res + src
		of, af = (a^src)&(a^res)>>top, a^src^res
	case ccShl, ccShr:
		of = (src ^ res) >> top
	case ccMul:
		of = b2u(src != 0)
	}
	return f | of&1<<11 | af&flagAF
}

// resultFlags is SF, ZF and PF of a result whose sign is bit top.
func resultFlags(res uint64, top uint) uint64 {
	f := res >> top & 1 << 7
	if res == 0 {
		f |= flagZF
	}
	if bits.OnesCount8(uint8(res))&1 == 0 {
		f |= flagPF
	}
	return f
}

// setStatus replaces the flags of what by f's, and keeps the others.
func (c *CPU) setStatus(what, f uint64) {
	c.Settle()
	c.RFlags = c.RFlags&^what | f&what
}

// cond is condition code cc of jcc, setcc and cmovcc.
func (c *CPU) cond(cc uint8) bool {
	var r bool
	switch cc >> 1 & 7 {
	case 1:
		r = c.carry() != 0
	case 2:
		if c.ccOp != ccNone {
			r = c.ccRes == 0
		} else {
			r = c.RFlags&flagZF != 0
		}
	case 4:
		if c.ccOp != ccNone {
			r = c.ccRes>>(uint(8)<<(c.ccOp&3)-1)&1 != 0
		} else {
			r = c.RFlags&flagSF != 0
		}
	default:
		r = c.condSlow(cc >> 1 & 7)
	}
	return r != (cc&1 != 0)
}

func (c *CPU) condSlow(cc uint8) bool {
	f := c.RFlags
	if c.ccOp != ccNone {
		f = c.status()
	}
	switch cc {
	case 0:
		return f&flagOF != 0
	case 3:
		return f&(flagCF|flagZF) != 0
	case 5:
		return f&flagPF != 0
	case 6:
		return (f>>7^f>>11)&1 != 0
	default:
		return f&flagZF != 0 || (f>>7^f>>11)&1 != 0
	}
}
