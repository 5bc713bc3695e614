package interp

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/cpu/core"
	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
	"github.com/kprobefs/kprobefs/kernel/mem"
)

// fault is a fault of the instruction in hand. It is thrown with panic by what
// exec calls and caught by slow: nothing of the instruction has been done then.
type fault struct {
	vector  uint8
	hasCode bool
	code    uint64
	addr    uint64
}

const (
	vecTS = 10
	vecNP = 11
	vecSS = 12
)

func (c *CPU) throw(vector uint8, hasCode bool, code, addr uint64) {
	c.flt = fault{vector, hasCode, code, addr}
	panic(&c.flt)
}

func (c *CPU) gp(code uint64) { c.throw(abi.VecGP, true, code, 0) }
func (c *CPU) ud()            { c.throw(abi.VecUD, false, 0, 0) }

// ea is the address of the memory operand.
func (c *CPU) ea(o *Op) uint64 {
	a := c.Place(o.Base) + c.Place(o.Index)<<(o.Scale&3) + o.Disp
	if o.Flags&decode.Addr32 != 0 {
		a = uint64(uint32(a))
	}
	return a + c.Place(o.Seg)
}

// page translates one byte's address, or throws. stack makes an address that is
// not canonical #SS.
func (c *CPU) page(va uint64, want mem.Perm, stack bool) uint64 {
	pa, p, ok := c.mem.Lookup(va)
	if ok && p&want == want {
		return pa
	}
	if !mem.Canonical(va) {
		if stack {
			c.throw(vecSS, true, 0, 0)
		}
		c.throw(abi.VecGP, true, 0, va)
	}
	var code uint64
	if ok {
		code |= core.FaultPresent
	}
	if want&mem.Write != 0 {
		code |= core.FaultWrite
	}
	c.throw(abi.VecPF, true, code, va)
	return 0
}

// host gives where the n bytes at va lie, if they lie in one page; else nil,
// and pa1 and pa2 say where the two pieces begin, the first n1 bytes long.
func (c *CPU) host(va, n uint64, want mem.Perm, stack bool) (p unsafe.Pointer, pa1, pa2, n1 uint64) {
	in := c.TLB.Read
	if want&mem.Write != 0 {
		in = c.TLB.Write
	}
	if e := in.Find(va, (va+n-1)&^mem.PageMask); e != nil {
		return unsafe.Add(nil, va+e.Off), 0, 0, 0
	}
	if va&mem.PageMask+n <= mem.PageSize {
		pa := c.page(va, want, stack)
		if c.watches != nil && c.watch(va, n, want) {
			return unsafe.Add(c.ram, pa), 0, 0, 0
		}
		in.Put(va, pa-va+uint64(uintptr(c.ram)))
		return unsafe.Add(c.ram, pa), 0, 0, 0
	}
	n1 = mem.PageSize - va&mem.PageMask
	pa1 = c.page(va, want, stack)
	pa2 = c.page(va+n1, want, stack)
	if c.watches != nil {
		c.watch(va, n, want)
	}
	return nil, pa1, pa2, n1
}

// Window is where the n bytes at va lie in RAM, if the vCPU has written to their
// page and they do not leave it; else nil.
func (c *CPU) Window(va, n uint64) unsafe.Pointer {
	e := c.TLB.Write.Find(va, (va+n-1)&^mem.PageMask)
	if e == nil {
		return nil
	}
	return unsafe.Add(nil, va+e.Off)
}

// load reads w bytes.
func (c *CPU) load(va uint64, w uint8, stack bool) uint64 {
	p, pa1, pa2, n1 := c.host(va, uint64(w), mem.Read, stack)
	if p == nil {
		copy(c.scratch[:n1], c.mem.Phys(pa1, n1))
		copy(c.scratch[n1:w], c.mem.Phys(pa2, uint64(w)-n1))
		p = unsafe.Pointer(&c.scratch)
	}
	return get(p, w)
}

// store writes w bytes.
func (c *CPU) store(va, v uint64, w uint8, stack bool) {
	p, pa1, pa2, n1 := c.host(va, uint64(w), mem.Write, stack)
	if p != nil {
		put(p, v, w)
		return
	}
	put(unsafe.Pointer(&c.scratch), v, w)
	copy(c.mem.Phys(pa1, n1), c.scratch[:n1])
	copy(c.mem.Phys(pa2, uint64(w)-n1), c.scratch[n1:w])
}

// canWrite throws if n bytes at va cannot be written.
func (c *CPU) canWrite(va, n uint64, stack bool) { c.host(va, n, mem.Write, stack) }

// loadRMW reads what will be written: both are checked.
func (c *CPU) loadRMW(va uint64, w uint8, stack bool) uint64 {
	c.canWrite(va, uint64(w), stack)
	return c.load(va, w, stack)
}

func get(p unsafe.Pointer, w uint8) uint64 {
	switch w {
	case 1:
		return uint64(*(*uint8)(p))
	case 2:
		return uint64(*(*uint16)(p))
	case 4:
		return uint64(*(*uint32)(p))
	}
	return *(*uint64)(p)
}

func put(p unsafe.Pointer, v uint64, w uint8) {
	switch w {
	case 1:
		*(*uint8)(p) = uint8(v)
	case 2:
		*(*uint16)(p) = uint16(v)
	case 4:
		*(*uint32)(p) = uint32(v)
	default:
		*(*uint64)(p) = v
	}
}

// atomically replaces the w bytes at va, v, by f(v), in one step that no other
// vCPU sees the inside of, and returns v. f may be called more than once.
func (c *CPU) atomically(va uint64, w uint8, stack bool, f func(v uint64) uint64) uint64 {
	p, pa1, pa2, n1 := c.host(va, uint64(w), mem.Write, stack)
	switch {
	case p == nil:
		return c.splitRMW(pa1, pa2, n1, w, f)
	case w == 8 && va&7 == 0:
		for {
			old := atomic.LoadUint64((*uint64)(p))
			if atomic.CompareAndSwapUint64((*uint64)(p), old, f(old)) {
				return old
			}
		}
	case w == 4 && va&3 == 0:
		for {
			old := atomic.LoadUint32((*uint32)(p))
			if atomic.CompareAndSwapUint32((*uint32)(p), old, uint32(f(uint64(old)))) {
				return uint64(old)
			}
		}
	case va&7+uint64(w) <= 8:
		word := (*uint64)(unsafe.Add(p, -int(va&7)))
		shift := va & 7 * 8
		for {
			all := atomic.LoadUint64(word)
			old := all >> shift & mask(w)
			to := all&^(mask(w)<<shift) | f(old)&mask(w)<<shift
			if atomic.CompareAndSwapUint64(word, all, to) {
				return old
			}
		}
	}
	var old uint64
	c.mem.Split(func() {
		old = get(p, w)
		put(p, f(old), w)
	})
	return old
}

// splitRMW is atomically for a word that lies in two pages.
func (c *CPU) splitRMW(pa1, pa2, n1 uint64, w uint8, f func(v uint64) uint64) (old uint64) {
	lo, hi := c.mem.Phys(pa1, n1), c.mem.Phys(pa2, uint64(w)-n1)
	c.mem.Split(func() {
		var b [8]byte
		copy(b[:], lo)
		copy(b[n1:], hi)
		old = binary.LittleEndian.Uint64(b[:]) & mask(w)
		binary.LittleEndian.PutUint64(b[:], f(old))
		copy(lo, b[:n1])
		copy(hi, b[n1:w])
	})
	return old
}

// getReg reads a register of width w, without bits above it.
func (c *CPU) getReg(r, w uint8) uint64 {
	if r >= decode.RegHigh {
		return c.R[r&3] >> 8 & 0xff
	}
	return c.R[r&15] & mask(w)
}

// setReg writes a register as an instruction of width w does: 32-bit results
// clear the upper half, narrower ones keep the rest.
func (c *CPU) setReg(r, w uint8, v uint64) {
	switch {
	case r >= decode.RegHigh:
		p := &c.R[r&3]
		*p = *p&^0xff00 | v&0xff<<8
	case w >= 4:
		c.R[r&15] = v & mask(w)
	default:
		p := &c.R[r&15]
		*p = *p&^mask(w) | v&mask(w)
	}
}
