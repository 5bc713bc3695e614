package interp

import (
	"sync/atomic"
	"unsafe"

	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
)

// place is where the memory operand of a locked instruction lies; nil if exec
// must do it: not aligned, or not in the TLB.
func (c *CPU) place(o *Op) unsafe.Pointer {
	va := c.address(o)
	if va&uint64(o.W-1) != 0 {
		c.br = brSlow
		return nil
	}
	return c.find(va, o.W, c.TLB.Write)
}

// loadAtomic reads an aligned word of 4 or 8 bytes.
func loadAtomic(p unsafe.Pointer, w uint8) uint64 {
	if w == 8 {
		return atomic.LoadUint64((*uint64)(p))
	}
	return uint64(atomic.LoadUint32((*uint32)(p)))
}

// compareAndSwap replaces an aligned word of 4 or 8 bytes if it is old.
func compareAndSwap(p unsafe.Pointer, old, to uint64, w uint8) bool {
	if w == 8 {
		return atomic.CompareAndSwapUint64((*uint64)(p), old, to)
	}
	return atomic.CompareAndSwapUint32((*uint32)(p), uint32(old), uint32(to))
}

// addAtomic adds to an aligned word of 4 or 8 bytes, and returns what it was.
func addAtomic(p unsafe.Pointer, d uint64, w uint8) uint64 {
	if w == 8 {
		return atomic.AddUint64((*uint64)(p), d) - d
	}
	return uint64(atomic.AddUint32((*uint32)(p), uint32(d)) - uint32(d))
}

func lockedALU(c *CPU, o *Op) *Op {
	p := c.place(o)
	if p == nil {
		return nil
	}
	m := mask(o.W)
	b := o.Imm & m
	if o.Form&decode.SrcImm == 0 {
		b = c.R[o.B&15] & m
	}
	switch o.Code {
	case decode.ADD:
		c.lazy(ccAdd, o.W, (addAtomic(p, b, o.W)+b)&m, b)
		return o.Next()
	case decode.SUB:
		c.lazy(ccSub, o.W, (addAtomic(p, -b, o.W)-b)&m, b)
		return o.Next()
	}
	for {
		old := loadAtomic(p, o.W)
		res := old | b
		switch o.Code {
		case decode.AND:
			res = old & b
		case decode.XOR:
			res = old ^ b
		}
		if compareAndSwap(p, old, res, o.W) {
			c.lazy(ccLogic, o.W, res, 0)
			return o.Next()
		}
	}
}

func lockedIncDec(c *CPU, o *Op) *Op {
	p := c.place(o)
	if p == nil {
		return nil
	}
	cf := c.carry()
	var f uint64
	if o.Code == decode.INC {
		f = addFlags(addAtomic(p, 1, o.W), 1, 0, o.W)
	} else {
		f = subFlags(addAtomic(p, ^uint64(0), o.W), 1, 0, o.W)
	}
	c.RFlags = c.RFlags&^flagStatus | f&^flagCF | cf
	c.ccOp = ccNone
	return o.Next()
}

func lockedXchg(c *CPU, o *Op) *Op {
	p := c.place(o)
	if p == nil {
		return nil
	}
	r := &c.R[o.B&15]
	if o.W == 8 {
		*r = atomic.SwapUint64((*uint64)(p), *r)
	} else {
		*r = uint64(atomic.SwapUint32((*uint32)(p), uint32(*r)))
	}
	return o.Next()
}

func lockedXadd(c *CPU, o *Op) *Op {
	p := c.place(o)
	if p == nil {
		return nil
	}
	m := mask(o.W)
	b := c.R[o.B&15] & m
	old := addAtomic(p, b, o.W)
	c.R[o.B&15] = old
	c.lazy(ccAdd, o.W, (old+b)&m, b)
	return o.Next()
}

func lockedCmpxchg(c *CPU, o *Op) *Op {
	p := c.place(o)
	if p == nil {
		return nil
	}
	m := mask(o.W)
	acc := c.R[0] & m
	for {
		old := loadAtomic(p, o.W)
		if old == acc && !compareAndSwap(p, old, c.R[o.B&15]&m, o.W) {
			continue
		}
		if old != acc {
			c.R[0] = old
		}
		c.lazy(ccSub, o.W, (acc-old)&m, old)
		return o.Next()
	}
}
