package bpf

import (
	"encoding/binary"
	"errors"
	"syscall"
)

// dynptrSize is the size of struct bpf_dynptr, bytes, and maxDynptr what one may point to: DYNPTR_MAX_SIZE.
const (
	dynptrSize = 16
	maxDynptr  = 1<<24 - 1
)

// A dynptr has 16 bytes: the address and the size of its memory. Programs make them on their stacks, of memory of a map or of a
// record of a ring buffer, or get one from bpf_user_ringbuf_drain.

// dynptrKind says of what a dynptr is (enum bpf_dynptr_type).
type dynptrKind uint8

const (
	dynptrNone dynptrKind = iota
	dynptrLocal
	dynptrRing // its record has to be given back
)

// dynptr are the two slots of a stack that can have a dynptr.
type dynptr struct{ first, second *slot }

// dynptrAt returns the slots that a pointer to a stack points to; they are nil if the stack is not used there.
func (s *state) dynptrAt(p value) dynptr {
	if p.off >= 0 {
		return dynptr{}
	}
	n, _ := at(int(p.off))
	f := s.frames[p.frame]
	if n < 1 || n >= len(f.stack) {
		return dynptr{}
	}
	return dynptr{&f.stack[n], &f.stack[n-1]}
}

// ref returns the reference of a record, or 0.
func (d dynptr) ref() uint32 {
	if d.first == nil {
		return 0
	}
	return d.first.id
}

// touched reports whether a byte of the slots is a part of a dynptr.
func (d dynptr) touched() bool {
	for n := range 8 {
		if d.first.kind[n] == slotDynptr || d.second.kind[n] == slotDynptr {
			return true
		}
	}
	return false
}

// whole reports whether the slots have a dynptr.
func (d dynptr) whole() bool {
	all := [8]slotKind{slotDynptr, slotDynptr, slotDynptr, slotDynptr, slotDynptr, slotDynptr, slotDynptr, slotDynptr}
	return d.first != nil && d.first.dynptr != dynptrNone && d.first.kind == all && d.second.kind == all
}

// dynptrArgument checks a dynptr, or room for one.
func (v *verifier) dynptrArgument(s *state, c *helperCall, r uint8, want argType) error {
	p := s.regs()[r]
	if err := v.pointsToDynptr(p, r); err != nil {
		return err
	}
	d := dynptr{}
	if p.typ == regStack {
		d = s.dynptrAt(p)
	}
	if want == argRingDynptr {
		if d.ref() == 0 {
			return v.refuse(syscall.EINVAL, "arg %d is an unacquired reference", r)
		}
		c.ended = r
	}
	switch {
	case p.typ == regDynptr: // a helper has made it
		return nil
	case want == argNewDynptr || want == argNewRingDynptr:
		if d.first != nil && d.touched() {
			return v.refuse(syscall.EINVAL, "Dynptr has to be an uninitialized dynptr")
		}
		c.dynptr = r
	case !d.whole():
		return v.refuse(syscall.EINVAL, "Expected an initialized dynptr as arg #%d", r)
	case want == argRingDynptr && d.first.dynptr != dynptrRing:
		return v.refuse(syscall.EINVAL, "Expected a dynptr of type ringbuf as arg #%d", r)
	}
	return nil
}

// pointsToDynptr checks what a dynptr's argument points to.
func (v *verifier) pointsToDynptr(p value, r uint8) error {
	name := v.typeName(regDynptr)
	switch {
	case p.typ == regStack && p.off%8 != 0:
		return v.refuse(syscall.EINVAL, "cannot pass in dynptr at an offset")
	case p.typ == regStack:
		return nil
	case p.typ != regDynptr:
		return v.refuse(syscall.EACCES, "R%d type=%s expected=%s, %s", r, v.typeName(p.typ), v.typeName(regStack), name)
	case p.off < 0:
		return v.refuse(syscall.EACCES, "negative offset %s ptr R%d off=%d disallowed", name, r, p.off)
	case p.off != 0:
		return v.refuse(syscall.EACCES, "dereference of modified %s ptr R%d off=%d disallowed", name, r, p.off)
	case !p.isConst() || p.bits != 0:
		return v.refuse(syscall.EACCES, "variable %s access var_off=%s disallowed", name, v.bitsText(p.tnum))
	}
	return nil
}

// makeDynptr is mark_stack_slots_dynptr: a helper makes a dynptr at an argument.
func (v *verifier) makeDynptr(s *state, c *helperCall, insn int) error {
	p := s.regs()[c.dynptr]
	for n := 0; n < dynptrSize; n += 8 {
		if err := v.access(s, access{reg: int(c.dynptr), off: n, size: 8, write: true, from: -1, to: -1, anything: true}); err != nil {
			return err
		}
	}
	d := s.dynptrAt(p)
	if d.first == nil {
		return syscall.EINVAL
	}
	for n := range 8 {
		d.first.kind[n], d.second.kind[n] = slotDynptr, slotDynptr
	}
	d.first.dynptr, d.second.dynptr = dynptrLocal, dynptrNone
	if c.args[c.dynptr-1] == argNewRingDynptr {
		id := v.newID()
		s.acquire(id, insn)
		d.first.dynptr, d.first.id, d.second.id = dynptrRing, id, id
	}
	return nil
}

// endDynptr is unmark_stack_slots_dynptr: the record of a dynptr is given back, and the dynptr is none any more. If a callback may
// not give the record back, the dynptr is gone nevertheless, and the record is missed later.
func (v *verifier) endDynptr(s *state, r uint8) {
	d := s.dynptrAt(s.regs()[r])
	d.first.kind, d.second.kind = [8]slotKind{}, [8]slotKind{}
	s.release(d.first.id)
	d.first.id, d.second.id, d.first.dynptr = 0, 0, dynptrNone
}

// dynptrFromMem is bpf_dynptr_from_mem. It leaves a dynptr without memory if it fails.
func (r *run) dynptrFromMem(a *[numArgs]uint64) uint64 {
	n := uint64(uint32(a[1]))
	switch {
	case n > maxDynptr:
		return r.putDynptr(a[3], 0, 0, syscall.E2BIG)
	case a[2] != 0:
		return r.putDynptr(a[3], 0, 0, syscall.EINVAL)
	}
	return r.putDynptr(a[3], a[0], n, nil)
}

// putDynptr writes a dynptr, and returns what the helper returns that makes it.
func (r *run) putDynptr(at, addr, n uint64, err error) uint64 {
	b := r.fetch(at, dynptrSize)
	if b == nil {
		return 0
	}
	binary.LittleEndian.PutUint64(b, addr)
	binary.LittleEndian.PutUint64(b[8:], n)
	return errno(err)
}

// reserveDynptr is bpf_ringbuf_reserve_dynptr.
func (r *run) reserveDynptr(a *[numArgs]uint64) uint64 {
	m, ok := r.ringOf(a[0])
	n := uint64(uint32(a[1]))
	switch {
	case a[2] != 0 || !ok:
		return r.putDynptr(a[3], 0, 0, syscall.EINVAL)
	case n > maxDynptr:
		return r.putDynptr(a[3], 0, 0, syscall.E2BIG)
	}
	at, ok := m.ring.reserve(n)
	if !ok {
		return r.putDynptr(a[3], 0, 0, syscall.EINVAL)
	}
	return r.putDynptr(a[3], mapBase+uint64(m.index)<<mapShift+uint64(at), n, nil)
}

// endDynptr is bpf_ringbuf_submit_dynptr, or bpf_ringbuf_discard_dynptr. Of a dynptr without memory there is nothing to give back.
func endDynptr(discard bool) func(r *run, a *[numArgs]uint64) uint64 {
	return func(r *run, a *[numArgs]uint64) uint64 {
		b := r.fetch(a[0], dynptrSize)
		if b == nil || binary.LittleEndian.Uint64(b) == 0 {
			return 0
		}
		r.ringEnd(&[numArgs]uint64{binary.LittleEndian.Uint64(b), a[1]}, discard)
		return r.putDynptr(a[0], 0, 0, nil)
	}
}

// dynptr returns the address of n bytes at an offset of a dynptr's memory. It fails with EINVAL if it has none, and with E2BIG if
// the memory ends before.
func (r *run) dynptr(at, off, n uint64) (addr uint64, err error) {
	b := r.fetch(at, dynptrSize)
	if b == nil || binary.LittleEndian.Uint64(b) == 0 {
		return 0, syscall.EINVAL
	}
	size := uint64(binary.LittleEndian.Uint32(b[8:]))
	off, n = uint64(uint32(off)), uint64(uint32(n))
	if n > size || off > size-n {
		return 0, syscall.E2BIG
	}
	return binary.LittleEndian.Uint64(b) + off, nil
}

// dynptrRead is bpf_dynptr_read.
func (r *run) dynptrRead(a *[numArgs]uint64) uint64 {
	if a[4] != 0 {
		return errno(syscall.EINVAL)
	}
	from, err := r.dynptr(a[2], a[3], a[1])
	if err != nil {
		return errno(err)
	}
	return r.move(a[0], from, a[1])
}

// dynptrWrite is bpf_dynptr_write.
func (r *run) dynptrWrite(a *[numArgs]uint64) uint64 {
	if a[4] != 0 {
		return errno(syscall.EINVAL)
	}
	to, err := r.dynptr(a[0], a[1], a[3])
	if err != nil {
		return errno(err)
	}
	return r.move(to, a[2], a[3])
}

// move copies n bytes within the program's memory.
func (r *run) move(to, from, n uint64) uint64 {
	dst, src := r.fetch(to, int(uint32(n))), r.fetch(from, int(uint32(n)))
	if dst != nil && src != nil {
		copy(dst, src)
	}
	return 0
}

// dynptrData is bpf_dynptr_data: NULL if the dynptr has not so many bytes.
func (r *run) dynptrData(a *[numArgs]uint64) uint64 {
	addr, err := r.dynptr(a[0], a[1], a[2])
	if err != nil {
		return 0
	}
	return addr
}

// maxDrained is BPF_MAX_USER_RINGBUF_SAMPLES.
const maxDrained = 128 << 10

// ringDrain is bpf_user_ringbuf_drain: it shows each record to a function of the program, until that returns 1. It returns
// how many there were.
func (r *run) ringDrain(a *[numArgs]uint64) uint64 {
	m := r.mapAt(a[0])
	if a[3]&^(ringNoWakeup|ringForceWakeup) != 0 || m == nil || m.kind != mapUserRingbuf {
		return errno(syscall.EINVAL)
	}
	if m.draining {
		return errno(syscall.EBUSY)
	}
	if r.nested >= maxNested {
		r.end("the call stack is too deep")
		return 0
	}
	m.draining = true
	defer func() { m.draining = false }()
	callback, context, flags := int(a[1]-funcBase), a[2], a[3]
	shown, failed := 0, error(nil)
	for range maxDrained {
		at, n, err := m.ring.peek()
		if errors.Is(err, syscall.EAGAIN) {
			continue
		}
		if err != nil {
			if !errors.Is(err, syscall.ENODATA) {
				failed = err
			}
			break
		}
		d := &r.dyns[r.nested]
		binary.LittleEndian.PutUint64(d[:], mapBase+uint64(m.index)<<mapShift+uint64(at))
		binary.LittleEndian.PutUint64(d[8:], uint64(n))
		stop := r.callback(callback, dynBase+uint64(r.nested)*dynptrSize, context) != 0
		if r.fault != "" {
			return 0
		}
		m.ring.take(n)
		shown++
		if stop {
			break
		}
	}
	if flags&ringForceWakeup != 0 || flags&ringNoWakeup == 0 && shown > 0 {
		m.ring.wake()
	}
	if failed != nil {
		return errno(failed)
	}
	return uint64(shown)
}
