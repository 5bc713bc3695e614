package cpu

import (
	"sync/atomic"
	"unsafe"
)

// place is where the memory operand of a locked instruction lies; nil if exec
// must do it: not aligned, or not in the TLB.
func (c *CPU) place(o *op) unsafe.Pointer {
	va := c.x(o.base) + c.x(o.index)<<(o.scale&3) + o.disp + c.x(o.seg)
	e := &c.wtlb[va>>12&tlbMask]
	if e.tag != va&^0xfff || va&uint64(o.w-1) != 0 {
		c.br = brSlow
		return nil
	}
	return unsafe.Add(nil, va+e.off)
}

// chooseLocked is choose for a locked instruction, or an xchg with memory, of 32 or 64
// bits; nil: exec executes it.
func chooseLocked(o *op) handler {
	if o.w < 4 || o.form&dstMem == 0 || o.flags&addr32 != 0 || o.flags&locked == 0 && o.code != cXCHG {
		return nil
	}
	switch o.code {
	case cADD, cSUB, cAND, cOR, cXOR:
		return lockedALU
	case cINC, cDEC:
		return lockedIncDec
	case cXCHG:
		return lockedXchg
	case cXADD:
		return lockedXadd
	case cCMPXCHG:
		return lockedCmpxchg
	}
	return nil
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

func lockedALU(c *CPU, o *op) *op {
	p := c.place(o)
	if p == nil {
		return nil
	}
	m := mask(o.w)
	b := o.imm & m
	if o.form&srcImm == 0 {
		b = c.R[o.b&15] & m
	}
	switch o.code {
	case cADD:
		c.lazy(ccAdd, o.w, (addAtomic(p, b, o.w)+b)&m, b)
		return o.next()
	case cSUB:
		c.lazy(ccSub, o.w, (addAtomic(p, -b, o.w)-b)&m, b)
		return o.next()
	}
	for {
		old := loadAtomic(p, o.w)
		res := old | b
		switch o.code {
		case cAND:
			res = old & b
		case cXOR:
			res = old ^ b
		}
		if compareAndSwap(p, old, res, o.w) {
			c.lazy(ccLogic, o.w, res, 0)
			return o.next()
		}
	}
}

func lockedIncDec(c *CPU, o *op) *op {
	p := c.place(o)
	if p == nil {
		return nil
	}
	cf := c.carry()
	var f uint64
	if o.code == cINC {
		f = addFlags(addAtomic(p, 1, o.w), 1, 0, o.w)
	} else {
		f = subFlags(addAtomic(p, ^uint64(0), o.w), 1, 0, o.w)
	}
	c.RFlags = c.RFlags&^flagStatus | f&^flagCF | cf
	c.ccOp = ccNone
	return o.next()
}

func lockedXchg(c *CPU, o *op) *op {
	p := c.place(o)
	if p == nil {
		return nil
	}
	r := &c.R[o.b&15]
	if o.w == 8 {
		*r = atomic.SwapUint64((*uint64)(p), *r)
	} else {
		*r = uint64(atomic.SwapUint32((*uint32)(p), uint32(*r)))
	}
	return o.next()
}

func lockedXadd(c *CPU, o *op) *op {
	p := c.place(o)
	if p == nil {
		return nil
	}
	m := mask(o.w)
	b := c.R[o.b&15] & m
	old := addAtomic(p, b, o.w)
	c.R[o.b&15] = old
	c.lazy(ccAdd, o.w, (old+b)&m, b)
	return o.next()
}

func lockedCmpxchg(c *CPU, o *op) *op {
	p := c.place(o)
	if p == nil {
		return nil
	}
	m := mask(o.w)
	acc := c.R[0] & m
	for {
		old := loadAtomic(p, o.w)
		if old == acc && !compareAndSwap(p, old, c.R[o.b&15]&m, o.w) {
			continue
		}
		if old != acc {
			c.R[0] = old
		}
		c.lazy(ccSub, o.w, (acc-old)&m, old)
		return o.next()
	}
}
