package bpf

import (
	"slices"
	"unsafe"
)

// slotKind says what a byte of a stack is.
type slotKind uint8

const (
	slotNone slotKind = iota // not written
	slotSpill
	slotMisc
	slotZero
	slotDynptr
)

// slot is 8 bytes of a stack frame.
type slot struct {
	value // a register that was stored there
	kind  [8]slotKind

	dynptr dynptrKind // of the dynptr whose first half the slot is, or was
}

// spilled reports whether the slot has a register, or a part of one.
func (sl *slot) spilled() bool { return sl.kind[7] == slotSpill }

// scrub makes what was known of a byte be unknown.
func scrub(k *slotKind) {
	if *k != slotNone {
		*k = slotMisc
	}
}

// at returns the slot and the number in it of a byte of the stack, which is at a negative offset from the
// frame pointer. The bytes of a slot are counted down, too: the last one is at the lowest address.
func at(off int) (slot, byteOf int) { return (-off - 1) / 8, (-off - 1) & 7 }

// function is one function that is running on a path.
type function struct {
	regs     [maxReg]value
	stack    []slot // as deep as it was used, from the frame pointer down
	site     int    // the call; -1 of the main function
	entry    int    // its first instruction
	callback bool
	async    int // counts the timers that have called it

	calledBack int // how often a helper has called a function of the program, on the path from the call back to it

	refs []reference // what has to be given back, also what its callers have acquired
}

// grow makes the stack at least as deep as an offset.
func (f *function) grow(off int) {
	if n := (-off + 7) / 8; n > len(f.stack) {
		f.stack = slices.Grow(f.stack, n-len(f.stack))[:n]
	}
}

// state holds what the verifier knows at one point of a path.
type state struct {
	pc     int
	frames []*function
	lock   uint32 // the value whose lock is taken, or 0

	unrolled int // how many callbacks the path has gone through
	depth    int // how many states were kept on it

	parent      *state // what was kept last on the path
	branches    int    // paths from it that have not ended
	first, last int    // the instruction from which the path was followed since then, and the one that came before
	jumps       []jump // since then

	from int // the instruction before pc, for one that is followed later
	log  int // and how long the log was
}

// jump says from where a path came to an instruction. On 6.12 it also says what going back from a use has to know of the instruction.
type jump struct {
	to, from int
	slot     slotUse
	fromFP   bool   // the second operand points to a stack
	toFP     bool   // the first one does
	links    []link // numbers that were the same, of which one was narrowed
}

// slotUse is a slot of a stack that a register was stored to, or loaded from.
type slotUse struct {
	used     bool
	frame, n int
}

// link is a register or a slot that has the same number as another one.
type link struct {
	frame, n int
	slot     bool
}

// reference is a record that has to be given back.
type reference struct {
	id       uint32
	insn     int
	callback int // the frame of the callback that has acquired it, or 0: only that one may give it back
}

func (s *state) top() *function { return s.frames[len(s.frames)-1] }

func (s *state) regs() *[maxReg]value { return &s.top().regs }

func (s *state) clone() *state {
	c := *s
	c.jumps = slices.Clone(s.jumps)
	c.frames = make([]*function, len(s.frames))
	for n, f := range s.frames {
		copied := *f
		copied.stack, copied.refs = slices.Clone(f.stack), slices.Clone(f.refs)
		c.frames[n] = &copied
	}
	return &c
}

// bytes returns how much memory a copy takes.
func (s *state) bytes() int {
	n := int(unsafe.Sizeof(*s))
	for _, f := range s.frames {
		n += int(unsafe.Sizeof(*f)) + len(f.stack)*int(unsafe.Sizeof(slot{}))
	}
	return n
}

// each calls do with all registers, and with all slots that have a whole one, of all functions.
func (s *state) each(do func(v *value)) {
	s.eachPart(func(v *value, whole bool) {
		if whole {
			do(v)
		}
	})
}

// eachPart calls do with all registers, and with all slots that have one, or only its lower bytes.
func (s *state) eachPart(do func(v *value, whole bool)) {
	for _, f := range s.frames {
		for r := range f.regs {
			do(&f.regs[r], true)
		}
		for k := range f.stack {
			if sl := &f.stack[k]; sl.spilled() {
				do(&sl.value, sl.kind[0] == slotSpill)
			}
		}
	}
}

// ended says that a path has ended: what was kept on it is followed to its end when that was the last one.
func (s *state) ended() {
	for ; s != nil; s = s.parent {
		if s.branches--; s.branches > 0 {
			return
		}
	}
}

// acquire notes a record that has to be given back.
func (s *state) acquire(id uint32, insn int) {
	f := s.top()
	callback := 0
	if f.callback {
		callback = len(s.frames) - 1
	}
	f.refs = append(f.refs, reference{id, insn, callback})
}

// drop forgets a record that was given back. It returns false if the function that is running may not do that.
func (s *state) drop(ref uint32) bool {
	f := s.top()
	for n, r := range f.refs {
		if r.id != ref {
			continue
		}
		if f.callback && r.callback != len(s.frames)-1 {
			return false
		}
		last := len(f.refs) - 1
		f.refs[n] = f.refs[last]
		f.refs = f.refs[:last]
		return true
	}
	return false
}

// leaks returns what a function that ends had to give back.
func (s *state) leaks() (all []reference) {
	f := s.top()
	if len(s.frames) > 1 && !f.callback {
		return nil
	}
	for _, r := range f.refs {
		if !f.callback || r.callback == len(s.frames)-1 {
			all = append(all, r)
		}
	}
	return all
}

// isNull makes all copies of a pointer NULL, or not.
func (s *state) isNull(p value, null bool) {
	s.each(func(v *value) {
		if v.id != p.id || !v.typ.mayBeNull() {
			return
		}
		if null {
			v.typ, v.id, v.ref = regScalar, 0, 0
			v.m, v.to, v.size = nil, nil, 0
			return
		}
		v.typ--
		if v.m == nil || !v.m.lock.has() {
			v.id = 0
		}
		if v.typ == regMapValue && v.m.inner != nil { // what such an element holds is a map
			v.typ, v.m = regMap, v.m.meta
		}
	})
	if null && p.ref != 0 && p.ref == p.id { // not of a part of the record, which a dynptr gives
		s.drop(p.ref)
	}
}

// equals makes all scalars that are the same number as n what n is, except what only its lower bytes were stored of.
func (s *state) equals(n *value) {
	known := *n
	s.each(func(v *value) {
		if v.typ == regScalar && v.id == known.id {
			v.become(known)
		}
	})
}
