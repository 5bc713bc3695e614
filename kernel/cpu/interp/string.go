package interp

import (
	"unsafe"

	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
	"github.com/kprobefs/kprobefs/kernel/mem"
)

// A string instruction moves rsi and rdi by its width for each element, and with
// REP counts rcx down. After each run of elements the registers say how far it
// has come, so that a fault or a kick in the middle loses nothing.

// stringOp does movs, cmps, stos, lods, scas, ins and outs.
func (c *CPU) stringOp(o *Op) *Op {
	if o.Flags&(decode.RepE|decode.RepNE) == 0 {
		c.element(o)
		return o.Next()
	}
	c.narrow(o)
	for {
		n := c.R[1]
		if n == 0 {
			break
		}
		if c.kick.Load() != 0 {
			c.RIP = o.RIP()
			c.br = brKick
			return nil
		}
		done, stop := c.bulk(o, n)
		if done == 0 {
			stop = c.element(o)
			done = 1
		}
		c.R[1] -= done
		if stop {
			break
		}
	}
	return o.Next()
}

// narrow clears the upper halves of what a repeated instruction counts and moves with 32-bit
// addresses. As on Intel's processors that happens before the first element, so also where
// there is none or where it faults: of rcx always, of rsi with movs, of rdi with movs and stos.
// The others' upper halves are cleared by the first element.
func (c *CPU) narrow(o *Op) {
	if o.Flags&decode.Addr32 == 0 {
		return
	}
	c.R[1] = uint64(uint32(c.R[1]))
	switch o.Code {
	case decode.MOVS:
		c.R[6], c.R[7] = uint64(uint32(c.R[6])), uint64(uint32(c.R[7]))
	case decode.STOS:
		c.R[7] = uint64(uint32(c.R[7]))
	}
}

func (c *CPU) si(o *Op) uint64 { return c.index(o, 6) + c.Place(o.Seg) }
func (c *CPU) di(o *Op) uint64 { return c.index(o, 7) }

func (c *CPU) index(o *Op, r uint8) uint64 {
	if o.Flags&decode.Addr32 != 0 {
		return uint64(uint32(c.R[r]))
	}
	return c.R[r]
}

// advance moves an index register by n elements.
func (c *CPU) advance(o *Op, r uint8, n uint64) {
	d := n * uint64(o.W)
	if c.RFlags&flagDF != 0 {
		d = -d
	}
	c.R[r] += d
	if o.Flags&decode.Addr32 != 0 {
		c.R[r] = uint64(uint32(c.R[r]))
	}
}

// element does one element. stop: a repeated cmps or scas ends with it.
func (c *CPU) element(o *Op) (stop bool) {
	w := o.W
	switch o.Code {
	case decode.MOVS:
		c.store(c.di(o), c.load(c.si(o), w, false), w, false)
		c.advance(o, 6, 1)
		c.advance(o, 7, 1)
	case decode.STOS:
		c.store(c.di(o), c.getReg(0, w), w, false)
		c.advance(o, 7, 1)
	case decode.LODS:
		c.setReg(0, w, c.load(c.si(o), w, false))
		c.advance(o, 6, 1)
	case decode.CMPS:
		b := c.load(c.di(o), w, false) // before the other one, as on Intel's
		a := c.load(c.si(o), w, false)
		c.advance(o, 6, 1)
		c.advance(o, 7, 1)
		return c.compare(o, a, b)
	case decode.SCAS:
		a, b := c.getReg(0, w), c.load(c.di(o), w, false)
		c.advance(o, 7, 1)
		return c.compare(o, a, b)
	case decode.INS:
		c.store(c.di(o), mask(w), w, false)
		c.advance(o, 7, 1)
	case decode.OUTS:
		c.load(c.si(o), w, false)
		c.advance(o, 6, 1)
	}
	return false
}

// compare compares an element. The flags are set with the last one: a repeated comparison that
// faults in between leaves them as they were before it, as on Intel's processors.
func (c *CPU) compare(o *Op, a, b uint64) (stop bool) {
	repeated := o.Flags&(decode.RepE|decode.RepNE) != 0
	stop = a == b == (o.Flags&decode.RepNE != 0)
	if !repeated || stop || c.R[1] == 1 {
		c.lazy(ccSub, o.W, (a-b)&mask(o.W), b)
	}
	return stop
}

// bulk does as many as it can of n elements at once: movs and stos upwards
// within a page. 0: none.
func (c *CPU) bulk(o *Op, n uint64) (done uint64, stop bool) {
	if c.RFlags&flagDF != 0 || o.Flags&decode.Addr32 != 0 || o.Code != decode.MOVS && o.Code != decode.STOS {
		return 0, false
	}
	w := uint64(o.W)
	di := c.di(o)
	n = min(n, (mem.PageSize-di&mem.PageMask)/w)
	if o.Code == decode.STOS {
		if n == 0 {
			return 0, false
		}
		p, _, _, _ := c.host(di, n*w, mem.Write, false)
		fill(p, c.R[0], o.W, n)
		c.advance(o, 7, n)
		return n, false
	}
	si := c.si(o)
	n = min(n, (mem.PageSize-si&mem.PageMask)/w)
	if n == 0 {
		return 0, false
	}
	from, _, _, _ := c.host(si, n*w, mem.Read, false)
	to, _, _, _ := c.host(di, n*w, mem.Write, false)
	if d := uintptr(to) - uintptr(from); d != 0 && d < uintptr(n*w) {
		return 0, false // each element reads what the one before wrote
	}
	copy(unsafe.Slice((*byte)(to), n*w), unsafe.Slice((*byte)(from), n*w))
	c.advance(o, 6, n)
	c.advance(o, 7, n)
	return n, false
}

// fill writes v n times.
func fill(p unsafe.Pointer, v uint64, w uint8, n uint64) {
	if v&mask(w) == 0 {
		clear(unsafe.Slice((*byte)(p), n*uint64(w)))
		return
	}
	switch w {
	case 1:
		s := unsafe.Slice((*byte)(p), n)
		for i := range s {
			s[i] = byte(v)
		}
	case 2:
		s := unsafe.Slice((*uint16)(p), n)
		for i := range s {
			s[i] = uint16(v)
		}
	case 4:
		s := unsafe.Slice((*uint32)(p), n)
		for i := range s {
			s[i] = uint32(v)
		}
	default:
		s := unsafe.Slice((*uint64)(p), n)
		for i := range s {
			s[i] = v
		}
	}
}
