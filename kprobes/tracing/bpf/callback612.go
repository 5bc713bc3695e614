package bpf

import "syscall"

// Since 6.7 the verifier does not know how often a helper calls a function of the program. It follows the function on a path of its own,
// which returns to the call, until a state there is one that was there before; numbers that change from one time to the next, and on
// which nothing has depended, are not known any more.

// pushCallback has the function that a helper calls be followed later: push_callback_call.
func (v *verifier) pushCallback(s *state, site, to int, args []value) error {
	if len(s.frames) == maxFrames {
		return v.refuse(syscall.E2BIG, "the call stack of %d frames is too deep", maxFrames+1)
	}
	v.compareTypes(s, v.function(to))
	other, err := v.later(s, to)
	if err != nil {
		return err
	}
	caller := other.top()
	f := newFunction(len(other.frames), site, to)
	f.callback = true
	copy(f.regs[1:], args)
	f.async, f.refs = caller.async, append([]reference(nil), caller.refs...)
	other.frames = append(other.frames, f)
	other.unrolled++
	caller.calledBack++
	s.top().calledBack = 0
	v.showAll()
	return nil
}

// loopsOn reports whether bpf_loop may call its function once more than it did on the path.
func (v *verifier) loopsOn(s *state) (bool, error) {
	if err := v.precisely(s, 1); err != nil {
		return false, err
	}
	if uint64(s.top().calledBack) < s.regs()[1].umax {
		return true, nil
	}
	s.top().calledBack = 0
	v.log.detail("frame%d bpf_loop iteration limit reached\n", len(s.frames)-1)
	return false, nil
}

// widen is widen_imprecise_scalars: what differs from the last time that a path was at an instruction is not known.
func (v *verifier) widen(s *state) {
	old := v.previous(s)
	if old == nil {
		return
	}
	ids := idMap{next: v.lastID}
	widen := func(was, is *value) {
		if was.typ == regScalar && is.typ == regScalar && !was.precise && !is.precise && !is.exactly(was, &ids) {
			is.forget()
		}
	}
	for frame := len(old.frames) - 1; frame >= 0; frame-- {
		o, f := old.frames[frame], s.frames[frame]
		for r := range r10 {
			widen(&o.regs[r], &f.regs[r])
		}
		for n := range min(len(o.stack), len(f.stack)) {
			if o.stack[n].spilled() && f.stack[n].spilled() {
				widen(&o.stack[n].value, &f.stack[n].value)
			}
		}
	}
}

// previous returns the state that the path had when it was at the instruction before, or nil: find_prev_entry.
func (v *verifier) previous(s *state) *state {
	for k := *v.bucket(s); k != nil; k = k.next {
		if k.pc == s.pc && k.branches > 0 && sameCalls(k.state, s) && k.depth < s.depth {
			return k.state
		}
	}
	return nil
}

// dropsCallback reports whether a helper gets a function that no path comes to, since the helper calls it 0 times, and others are called,
// all of which stand before it: Linux 6.12 removes the first with all else that is never executed, and finds that it is missing when it
// links the others. One that stands after it takes its place.
func (v *verifier) dropsCallback() bool {
	last, any := 0, false
	for n, at := range v.starts[1:] {
		if v.followed[at] {
			last, any = n+1, true
		}
	}
	for n, i := range v.prog.insns {
		if to := n + 1 + int(i.imm); any && i.wideLoad() && i.src == pseudoFunc && v.followed[n] && v.function(to) > last {
			return true
		}
	}
	return false
}
