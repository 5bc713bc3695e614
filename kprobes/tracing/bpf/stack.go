package bpf

import (
	"math"
	"math/bits"
	"syscall"
)

// stackWrite follows a store to the stack: from is the stored register, or -1.
func (v *verifier) stackWrite(s *state, p value, lo, hi int, a access) error {
	f := s.frames[p.frame]
	if !p.isConst() {
		return v.stackWriteSomewhere(s, f, lo, hi+a.size, a)
	}
	n, b := at(lo)
	sl := &f.stack[n]
	v.shownStack |= 1 << n
	reg := a.stored(s)
	if v.v612 && (reg != nil && (reg.typ != regScalar || b == 7) || reg == nil && !a.anything && b == 7) {
		v.note(s).slot = slotUse{true, int(p.frame), n}
	}
	switch {
	case v.v612 && reg != nil && reg.typ == regScalar && b == 7:
		fits := bits.Len64(reg.umax) <= 8*a.size
		if fits {
			v.number(reg)
		}
		sl.spill612(*reg, a.size)
		if !fits {
			sl.id = 0
		}
		return nil
	case v.v612 && reg == nil && !a.anything && b == 7:
		sl.spill612(constant(uint64(int64(a.imm))), a.size)
		return nil
	case reg != nil && reg.typ == regScalar && reg.bounded() && !reg.isNull() && b == 7:
		if a.reg != r10 { // going back from a use recognizes slots by [fp - n] only
			if err := v.precisely(s, a.from); err != nil {
				return err
			}
		}
		sl.spill(*reg, a.size)
		return nil
	case reg == nil && !a.anything && a.imm != 0 && b == 7:
		sl.spill(constant(uint64(int64(a.imm))), a.size)
		return nil
	case reg != nil && reg.typ != regScalar:
		if a.size != 8 {
			v.line(s.pc - 1)
			return v.refuse(syscall.EACCES, "invalid size of register spill")
		}
		if f != s.top() && reg.typ == regStack {
			return v.refuse(syscall.EINVAL, "cannot spill pointers to stack into stack frame of the caller")
		}
		sl.spill(*reg, 8)
		return nil
	}
	return v.stackBytes(s, sl, b, a)
}

// spill stores the lower size bytes of a register.
func (sl *slot) spill(reg value, size int) {
	sl.become(reg)
	if size == 8 {
		sl.live |= liveWritten
	} else if reg.umax > uint64(math.MaxUint64)>>(64-8*size) {
		sl.id = 0
	}
	for n := range sl.kind {
		if n >= 8-size {
			sl.kind[n] = slotSpill
		} else {
			scrub(&sl.kind[n])
		}
	}
}

// spill612 does that as 6.12: zeros beside the bytes stay what they are.
func (sl *slot) spill612(reg value, size int) {
	sl.become(reg)
	if size == 8 {
		sl.live |= liveWritten
	}
	for n := range sl.kind {
		switch {
		case n >= 8-size:
			sl.kind[n] = slotSpill
		case sl.kind[n] != slotZero:
			scrub(&sl.kind[n])
		}
	}
}

// stackBytes stores bytes of which nothing is known, or zeros.
func (v *verifier) stackBytes(s *state, sl *slot, b int, a access) error {
	sl.typ = regNone
	if sl.spilled() {
		for n := range sl.kind {
			scrub(&sl.kind[n])
		}
	}
	if a.size == 8 { // so reads of fewer bytes than 8 mark the slots of all states before
		sl.live |= liveWritten
	}
	kind := slotMisc
	if a.zero(s) {
		if a.from >= 0 {
			if err := v.precisely(s, a.from); err != nil {
				return err
			}
		}
		kind = slotZero
	}
	for n := range a.size {
		sl.kind[b-n] = kind
	}
	return nil
}

// stackWriteSomewhere follows a store to bytes from lo up to hi of which it is not known to which.
func (v *verifier) stackWriteSomewhere(s *state, f *function, lo, hi int, a access) error {
	zero, used := a.zero(s), false
	for off := lo; off < hi; off++ {
		n, b := at(off)
		sl := &f.stack[n]
		v.shownStack |= 1 << n
		if v.v612 {
			if zero && sl.kind[b] == slotSpill && sl.spilled() && sl.isNull() {
				used = true
				continue
			}
			if sl.spilled() {
				for k := range sl.kind {
					scrub(&sl.kind[k])
				}
			}
		}
		sl.typ = regNone
		if zero && sl.kind[b] == slotZero {
			used = true
			continue
		}
		sl.kind[b] = slotMisc
	}
	if used && a.from >= 0 {
		return v.precisely(s, a.from)
	}
	return nil
}

// stackRead follows a load from the stack into a register; to is -1 if it goes nowhere.
func (v *verifier) stackRead(s *state, p value, lo, hi int, a access) error {
	f := s.frames[p.frame]
	if !p.isConst() {
		if err := v.usedStack(f, p, lo, hi+a.size, a, false); err != nil {
			return err
		}
		return v.stackLoad(s, f, lo, hi+a.size, a.to)
	}
	n, b := at(lo)
	sl := &f.stack[n]
	if v.v612 {
		v.shownStack |= 1 << n
	}
	if !sl.spilled() {
		for n := a.size - 1; n >= 0; n-- {
			if k, b := at(lo + n); f.stack[k].kind[b] == slotDynptr {
				return v.refuse(syscall.EACCES, "invalid read from stack off %d+%d size %d", lo, a.size-1-n, a.size)
			}
		}
		v.read(&sl.value, sl.parent, liveRead64)
		return v.stackLoad(s, f, lo, lo+a.size, a.to)
	}
	stored := 0
	for n := 7; n >= 0 && sl.kind[n] == slotSpill; n-- {
		stored++
	}
	if (a.size != 8 || stored != 8) && sl.typ != regScalar {
		v.line(s.pc - 1)
		return v.refuse(syscall.EACCES, "invalid size of register fill")
	}
	v.read(&sl.value, sl.parent, liveRead64)
	if a.to < 0 {
		return nil
	}
	to := &s.regs()[a.to]
	switch {
	case v.v612:
		v.fill(s, to, int(p.frame), n, b, stored, a.size)
	case b == 7 && a.size == stored:
		to.become(sl.value)
	default:
		to.forget()
	}
	to.live |= liveWritten
	return nil
}

// fill is what 6.12 knows of size bytes from byte b on of a slot in which stored bytes are a register's: of the lower ones as much as
// of the register, and that zeros are zeros.
func (v *verifier) fill(s *state, to *value, frame, n, b, stored, size int) {
	sl := &s.frames[frame].stack[n]
	spilled, zeros := 0, 0
	for k := range size {
		switch sl.kind[b-k] {
		case slotSpill:
			spilled++
		case slotZero:
			zeros++
		default:
		}
	}
	use := slotUse{true, frame, n}
	switch {
	case b == 7 && size <= stored:
		wide := bits.Len64(sl.umax) > 8*size
		to.become(sl.value)
		if wide && sl.typ == regScalar {
			to.unlink()
		}
	case spilled == size && sl.isNull():
		to.become(constant(0))
	case zeros == size:
		to.become(constant(0))
		use = slotUse{}
	default:
		to.forget()
		use = slotUse{}
	}
	if use.used {
		v.note(s).slot = use
	}
}

// stackLoad is mark_reg_stack_read: what bytes from lo up to hi are that are no register.
func (v *verifier) stackLoad(s *state, f *function, lo, hi, to int) error {
	if to < 0 {
		return nil
	}
	zero := true
	for off := lo; off < hi; off++ {
		n, b := at(off)
		if v.v612 && zero {
			v.shownStack |= 1 << n
		}
		zero = zero && f.stack[n].kind[b] == slotZero
	}
	reg := &s.regs()[to]
	if zero {
		reg.become(constant(0))
		reg.precise = !v.v612 // going back from a use ends here
	} else {
		reg.forget()
	}
	reg.live |= liveWritten
	return nil
}

// usedStack follows the use of bytes by a load, or by a helper, which may write them.
func (v *verifier) usedStack(f *function, p value, lo, hi int, a access, helper bool) error {
	for off := lo; off < hi; off++ {
		n, b := at(off)
		sl := &f.stack[n]
		if sl.kind[b] == slotDynptr && !sl.spilled() {
			how := ""
			if helper {
				how = " indirect"
			}
			if p.isConst() {
				return v.refuse(syscall.EACCES, "invalid%s read from stack R%d off %d+%d size %d", how, a.reg, lo, off-lo, a.size)
			}
			return v.refuse(syscall.EACCES, "invalid%s read from stack R%d var_off %s+%d size %d", how, a.reg, v.bitsText(p.tnum), off-lo, a.size)
		}
		if helper && sl.kind[b] != slotMisc {
			if sl.kind[b] == slotSpill || sl.spilled() && sl.kind[b] != slotZero && sl.kind[b] != slotNone {
				sl.forget()
				for k := range sl.kind {
					scrub(&sl.kind[k])
				}
			} else {
				sl.kind[b] = slotMisc
			}
		}
		v.read(&sl.value, sl.parent, liveRead64)
	}
	return nil
}

// stackAccess is an access to a stack.
func (v *verifier) stackAccess(s *state, p value, a access) error {
	if at := p.bits + uint64(int64(p.off)+int64(a.off)); (at|p.mask)&uint64(a.size-1) != 0 {
		return v.refuse(syscall.EACCES, "misaligned stack access off %s+%d+%d size %d", v.bitsText(p.tnum), p.off, a.off, a.size)
	}
	verb := "read from"
	if a.write {
		verb = "write to"
	}
	lo, hi, err := v.stackRange(p, a, verb, verb)
	if err != nil {
		return err
	}
	v.deepen(s.frames[p.frame], lo)
	if a.write {
		return v.stackWrite(s, p, lo, hi, a)
	}
	return v.stackRead(s, p, lo, hi, a)
}

// stackRange returns where an access to a stack can begin. It fails if a part of it can be outside.
func (v *verifier) stackRange(p value, a access, what, unbounded string) (first, last int, err error) {
	at := int64(p.off) + int64(a.off)
	lo, hi := at+int64(p.bits), at+int64(p.bits)
	if !p.isConst() {
		if p.smin <= -1<<29 || p.smax >= 1<<29 {
			return 0, 0, v.refuse(syscall.EACCES, "invalid unbounded variable-offset %s stack R%d", unbounded, a.reg)
		}
		lo, hi = at+p.smin, at+p.smax
	}
	errno := syscall.Errno(0)
	switch {
	case lo < -stackSize || lo > -1:
		errno = syscall.EACCES
	case hi+int64(a.size) > 0:
		errno = syscall.EINVAL
	}
	switch {
	case errno == 0:
		return int(lo), int(hi), nil
	case p.isConst():
		return 0, 0, v.refuse(errno, "invalid %s stack R%d off=%d size=%d", what, a.reg, lo, a.size)
	}
	return 0, 0, v.refuse(errno, "invalid variable-offset %s stack R%d var_off=%s off=%d size=%d", what, a.reg, v.bitsText(p.tnum), at, a.size)
}

// deepen has a function's stack reach down to an offset.
func (v *verifier) deepen(f *function, off int) {
	f.grow(off)
	n := v.function(f.entry)
	v.depths[n] = max(v.depths[n], 8*len(f.stack))
}
