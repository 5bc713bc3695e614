package bpf

// Only what is read after a state decides whether another one is like it. A register or slot points to its parent, which is the
// same one in the state that was kept last on the path. A read marks the parent, its parent and so on, up to the first that was
// written after its own parent's state was kept.

// liveness says what has happened to a register or slot since its parent's state was kept; of one that was kept, also what
// the paths from there read.
type liveness uint8

const (
	liveRead32  liveness = 1 << iota // its lower half was read
	liveRead64                       // it was read
	liveWritten                      // it was written
	liveDone                         // all paths from here have been followed

	liveRead = liveRead32 | liveRead64
)

// read marks what a register's parents have as read.
func (v *verifier) read(reg, parent *value, how liveness) {
	direct := parent == reg.parent // otherwise the register is one of another state that is like it
	steps := 0
	for ; parent != nil; reg, parent = parent, parent.parent {
		if direct && reg.live&liveWritten != 0 {
			break
		}
		if parent.live&liveRead == how || parent.live&liveRead64 != 0 {
			break
		}
		parent.live |= how
		if how == liveRead64 {
			parent.live &^= liveRead32
		}
		direct = true
		steps++
	}
	v.longestRead = max(v.longestRead, steps)
}

// reads returns how an instruction reads a register: is_reg64 of a source.
func (i insn) reads(reg *value) liveness {
	wide := true
	switch i.class() {
	case classALU:
		wide = i.op() == aluEND && i.imm == 64
	case classJMP32:
		wide = false
	case classSTX:
		wide = reg.typ != regScalar || i.size() == 8
	}
	if wide {
		return liveRead64
	}
	return liveRead32
}

// settle is clean_live_states: from the states that are kept for an instruction, and followed to the end, it drops what is not
// read after them.
func (v *verifier) settle(s *state) {
	for k := *v.bucket(s); k != nil; k = k.next {
		if k.branches == 0 && k.pc == s.pc && sameCalls(k.state, s) {
			k.settle()
		}
	}
}

// sameCalls reports whether the same calls have led to two states.
func sameCalls(a, b *state) bool {
	if len(a.frames) != len(b.frames) {
		return false
	}
	for n, f := range a.frames {
		if f.site != b.frames[n].site {
			return false
		}
	}
	return true
}

func (s *state) settle() {
	if s.settled() {
		return
	}
	for _, f := range s.frames {
		for r := range r10 {
			f.regs[r].settle()
		}
		for n := range f.stack {
			if f.stack[n].settle() {
				f.stack[n].kind = [8]slotKind{}
			}
		}
	}
}

func (s *state) settled() bool { return s.frames[0].regs[0].live&liveDone != 0 }

// settle reports whether a register or slot was not read; what was in it is dropped then.
func (v *value) settle() (unread bool) {
	v.live |= liveDone
	if v.live&liveRead != 0 {
		return false
	}
	v.become(none())
	return true
}

// none returns what a register is that was not written.
func none() value {
	v := unknown()
	v.typ = regNone
	return v
}

// inheritReads marks what is read after an older state as read in one that is like it: propagate_liveness.
func (v *verifier) inheritReads(old, s *state) {
	for n, f := range s.frames {
		o := old.frames[n]
		first := 0
		if n < len(s.frames)-1 {
			first = 6 // a function that waits for a call to end
		}
		for r := first; r < r10; r++ {
			v.inheritRead(&o.regs[r], &f.regs[r])
		}
		for k := range min(len(o.stack), len(f.stack)) {
			v.inheritRead(&o.stack[k].value, &f.stack[k].value)
		}
	}
}

func (v *verifier) inheritRead(old, reg *value) {
	how := old.live & liveRead
	if how == 0 || reg.live&liveRead == liveRead64 || reg.live&liveRead == how {
		return
	}
	v.read(old, reg, how)
}
