package bpf

import "syscall"

// That a state covers another one needs the bounds of a number only if a decision depends on it. When one does, the verifier goes
// back along the path to the instructions that the number came from, and marks it, and what it was made of, in each state that
// was kept on the way.

// wanted are the registers and slots of a function whose numbers have to be precise.
type wanted struct {
	regs  uint32
	slots uint64
}

func (w *wanted) none() bool { return w.regs == 0 && w.slots == 0 }

// precisely has the number in a register be precise.
func (v *verifier) precisely(s *state, r int) error {
	frame := len(s.frames) - 1
	if r < 0 || s.regs()[r].typ != regScalar {
		return nil
	}
	if v.v612 {
		t := trail{frame: frame}
		t.top().regs = 1 << r
		return v.goBackAll(s, &t)
	}
	return v.backtrack(s, frame, wanted{regs: 1 << r})
}

// inheritPrecision has what an older state needs to be precise be so in one that is like it: propagate_precision.
func (v *verifier) inheritPrecision(old, s *state) error {
	if v.v612 {
		return v.inheritAll(old, s)
	}
	for frame := len(old.frames) - 1; frame >= 0; frame-- {
		f := old.frames[frame]
		for r := range r10 {
			if f.regs[r].typ != regScalar || !f.regs[r].precise {
				continue
			}
			v.log.detail("frame %d: propagating r%d\n", frame, r)
			if err := v.backtrackFrom(s, frame, wanted{regs: 1 << r}); err != nil {
				return err
			}
		}
		for n := range f.stack {
			if sl := &f.stack[n]; !sl.spilled() || sl.typ != regScalar || !sl.precise {
				continue
			}
			v.log.detail("frame %d: propagating fp%d\n", frame, -8*(n+1))
			if err := v.backtrackFrom(s, frame, wanted{slots: 1 << n}); err != nil {
				return err
			}
		}
	}
	return nil
}

// backtrackFrom does what backtrack does unless what is wanted is no number now.
func (v *verifier) backtrackFrom(s *state, frame int, w wanted) error {
	f := s.frames[frame]
	for r := range r10 {
		if w.regs&(1<<r) != 0 && f.regs[r].typ != regScalar {
			return nil
		}
	}
	for n := range f.stack {
		if w.slots&(1<<n) != 0 && (!f.stack[n].spilled() || f.stack[n].typ != regScalar) {
			return nil
		}
	}
	return v.backtrack(s, frame, w)
}

// backtrack is __mark_chain_precision. In the state that is followed nothing is marked: only states that are kept are compared.
func (v *verifier) backtrack(s *state, frame int, w wanted) error {
	first, last, here := s.first, v.at, true
	for {
		v.log.detail("last_idx %d first_idx %d\n", last, first)
		if last < 0 {
			return v.entered(s, w)
		}
		all, err := v.goBack(s, first, last, here, &w)
		switch {
		case err != nil:
			return err
		case all:
			s.allPrecise()
			return nil
		case w.none():
			return nil
		}
		here = false
		if s = s.parent; s == nil {
			return nil
		}
		changed, unused := s.markPrecise(frame, &w, false)
		if unused >= 0 {
			s.allPrecise()
			return nil
		}
		if v.log.detailed() {
			had := "already had"
			if changed {
				had = "didn't have"
			}
			v.log.printf("parent %s regs=%x stack=%x marks:%s\n", had, w.regs, w.slots, v.text(s.frames[frame], frame, true))
		}
		if w.none() || !changed {
			return nil
		}
		first, last = s.first, s.last
	}
}

// entered has the arguments of a global function be precise, which a state at its begin was kept of.
func (v *verifier) entered(s *state, w wanted) error {
	const arguments = 1<<6 - 2
	n := v.function(s.frames[0].entry)
	if len(s.frames) > 1 || n == 0 || w.slots != 0 || w.regs&^arguments != 0 {
		return v.refuse(syscall.EFAULT, "BUG backtracking func entry subprog %d reg_mask %x stack_mask %x", n, w.regs, w.slots)
	}
	s.markPrecise(0, &w, false)
	return nil
}

// goBack goes back from an instruction to the first one since the state was kept. all is true if the way cannot be followed: then all
// numbers of the states before have to be precise.
func (v *verifier) goBack(s *state, first, last int, here bool, w *wanted) (all bool, err error) {
	jumps := s.jumps
	for n := last; ; here = false {
		if !here {
			if all, err = v.backOver(n, w); all || err != nil {
				return all, err
			}
		}
		if w.none() || n == first && (len(jumps) == 0 || len(jumps) == 1 && jumps[0].to == n) {
			return false, nil
		}
		if len(jumps) > 0 && jumps[len(jumps)-1].to == n {
			n = jumps[len(jumps)-1].from
			jumps = jumps[:len(jumps)-1]
		} else {
			n--
		}
		if n < 0 || n >= len(v.prog.insns) {
			return false, v.refuse(syscall.EFAULT, "BUG backtracking idx %d", n)
		}
	}
}

// backOver replaces what is wanted after an instruction by what is wanted before it: backtrack_insn.
func (v *verifier) backOver(n int, w *wanted) (all bool, err error) {
	i := v.prog.insns[n]
	if i.code == 0 { // the second half of a 64-bit immediate
		return false, nil
	}
	if v.log.detailed() {
		v.log.printf("regs=%x stack=%x before %d: %s\n", w.regs, w.slots, n, v.insnText(n))
	}
	dst, src := uint32(1)<<i.dst, uint32(1)<<i.src
	switch i.class() {
	case classALU, classALU64:
		if w.regs&dst == 0 || i.op() == aluEND || i.op() == aluNEG {
			return false, nil
		}
		if i.op() == aluMOV {
			w.regs &^= dst
		}
		if i.fromRegister() {
			w.regs |= src
		}
	case classLDX:
		w.load(i, dst, i.src)
	case classST, classSTX:
		if i.fetches() {
			old := src
			if i.imm == atomicCMPXCHG {
				old = 1
			}
			w.load(i, old, i.dst)
			return false, nil
		}
		if w.regs&dst != 0 { // the difference of two pointers
			return true, nil
		}
		if i.dst != r10 || w.slots&slotOf(i) == 0 {
			return false, nil
		}
		w.slots &^= slotOf(i)
		if i.class() == classSTX {
			w.regs |= src
		}
	case classLD:
		w.regs &^= dst
		return false, nil
	default:
		return v.backOverJump(i, w)
	}
	return false, nil
}

// load replaces a register that was loaded by what it was loaded from, if that is a slot: other memory keeps no precision.
func (w *wanted) load(i insn, to uint32, from uint8) {
	if w.regs&to == 0 {
		return
	}
	w.regs &^= to
	if from == r10 {
		w.slots |= slotOf(i)
	}
}

// slotOf returns the slot that an instruction accesses by the frame pointer.
func slotOf(i insn) uint64 {
	n, _ := at(int(i.off))
	return 1 << uint8(n)
}

func (v *verifier) backOverJump(i insn, w *wanted) (all bool, err error) {
	const arguments = 1<<6 - 1
	switch {
	case i.op() == jmpEXIT && i.class() == classJMP:
		return true, nil
	case i.op() == jmpCALL && i.class() == classJMP:
		if h := helpers[i.imm]; i.src == pseudoCall || h != nil && h.calls() {
			return true, nil
		}
		w.regs &^= 1
		if w.regs&arguments != 0 {
			return false, v.refuse(syscall.EFAULT, "BUG regs %x", w.regs)
		}
	case i.fromRegister() && w.regs&(1<<i.dst|1<<i.src) != 0:
		w.regs |= 1<<i.dst | 1<<i.src
	}
	return false, nil
}

// calls reports whether a helper calls a function of the program.
func (h *helper) calls() bool {
	for _, a := range h.args {
		if a == argFunc {
			return true
		}
	}
	return false
}

// markPrecise marks what is wanted in a state that was kept, and forgets what is no number there, and, with news, what was precise.
// unused is a slot that is wanted and was not used yet, or -1.
func (s *state) markPrecise(frame int, w *wanted, news bool) (changed bool, unused int) {
	f := s.frames[frame]
	mark := func(v *value) bool {
		if v.typ != regScalar || news && v.precise {
			return false
		}
		changed = changed || !v.precise
		v.precise = true
		return true
	}
	for r := range maxReg {
		if w.regs&(1<<r) != 0 && !mark(&f.regs[r]) {
			w.regs &^= 1 << r
		}
	}
	for n := range stackSize / 8 {
		switch {
		case w.slots&(1<<n) == 0:
		case n >= len(f.stack):
			return changed, n
		case !f.stack[n].spilled() || !mark(&f.stack[n].value):
			w.slots &^= 1 << n
		}
	}
	return changed, -1
}

// allPrecise marks all numbers of the states that were kept before s.
func (s *state) allPrecise() {
	for s = s.parent; s != nil; s = s.parent {
		s.eachPart(func(v *value, _ bool) { v.precise = v.precise || v.typ == regScalar })
	}
}

// imprecise forgets what had to be precise until now.
func (s *state) imprecise() { s.eachPart(func(v *value, _ bool) { v.precise = false }) }
