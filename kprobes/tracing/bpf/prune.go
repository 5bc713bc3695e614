package bpf

import "syscall"

// checkpoint is a state from which the paths are followed, or were.
type checkpoint struct {
	*state
	hits, misses int
	next         *checkpoint // an older one
}

// bucket returns the list of the states that were kept for an instruction and a call, and for others that share it.
func (v *verifier) bucket(s *state) **checkpoint {
	return &v.states[uint32(s.pc^s.top().site)%uint32(len(v.states))]
}

// A state is kept when so many jumps and instructions were followed since the last one was, and within a loop when these were.
const (
	keepJumps, keepInsns         = 2, 8
	keepLoopJumps, keepLoopInsns = 20, 100
)

// maxJumps is how much 6.12 notes of a path until it keeps a state.
const maxJumps = 40

// visited is is_state_visited: whether all that can be here was followed before. Otherwise it is kept now and then.
func (v *verifier) visited(s *state) (bool, error) {
	jumps, insns := v.jumps-v.keptJumps, v.processed-v.keptInsns
	callsBack := v.v612 && v.callsBack(s.pc)
	force := callsBack || v.v612 && len(s.jumps) > maxJumps
	keep := force || jumps >= keepJumps && insns >= keepInsns
	v.settle(s)
	seen := 0
	for link := v.bucket(s); *link != nil; {
		k := *link
		seen++
		if k.pc != s.pc {
			link = &k.next
			continue
		}
		if k.branches > 0 { // not followed to its end: it may be part of this path
			if callsBack {
				if v.coveredAs(k.state, s, rangeWithin) {
					k.hits++
					return true, v.join(k.state, s)
				}
			} else if v.looping(k.state, s) {
				v.line(s.pc)
				err := v.refuse(syscall.EINVAL, "infinite loop detected at insn %d", s.pc)
				if v.v612 {
					v.log.printf("cur state:%s\nold state:%s\n", v.text(s.top(), len(s.frames)-1, true), v.text(k.top(), len(s.frames)-1, true))
				}
				return false, err
			}
			keep = force || keep && (jumps >= keepLoopJumps || insns >= keepLoopInsns)
		} else if v.covered(k.state, s) {
			k.hits++
			return true, v.join(k.state, s)
		}
		if keep {
			k.misses++
		}
		worth := 3
		if callsBack && k.branches > 0 {
			worth = 64
		}
		if k.misses > worth*k.hits+worth { // not worth to be compared
			*link = k.next
			if k.settled() {
				v.peakStates--
			}
			continue
		}
		link = &k.next
	}
	v.statesOfInsn = max(v.statesOfInsn, seen)
	if !keep {
		return false, nil
	}
	return false, v.keep(s)
}

// join lets a path end in a state that was followed already: what is read after it, and has to be precise, is so here.
func (v *verifier) join(old, s *state) error {
	v.inheritReads(old, s)
	if v.targets[s.pc] {
		s.jumps = append(s.jumps, jump{to: s.pc, from: v.prev})
	}
	return v.inheritPrecision(old, s)
}

// keep keeps a state, and makes it the parent of the one that is followed. It fails with ENOMEM.
func (v *verifier) keep(s *state) error {
	const often = 64
	if v.totalStates%often == 0 {
		if err := v.prog.sys.conf.Room(often * s.bytes()); err != nil {
			return err
		}
	}
	v.totalStates++
	v.peakStates++
	v.keptJumps, v.keptInsns = v.jumps, v.processed
	s.imprecise()
	k := &checkpoint{state: s.clone()}
	s.depth++
	bucket := v.bucket(s)
	k.next, *bucket = *bucket, k
	s.parent, s.first, s.jumps = k.state, s.pc, nil
	k.branches = 1
	for n, f := range s.frames {
		of := k.frames[n]
		for r := range r10 {
			f.regs[r].live = 0
			if r >= 6 || n == len(s.frames)-1 {
				f.regs[r].parent = &of.regs[r]
			}
		}
		for i := range f.stack {
			f.stack[i].live, f.stack[i].parent = 0, &of.stack[i].value
		}
	}
	return nil
}

// looping reports whether a state on the path that led here is the same.
func (v *verifier) looping(old, s *state) bool {
	if len(old.frames) != len(s.frames) || old.top().async != s.top().async || old.unrolled != s.unrolled {
		return false
	}
	a, b := old.regs(), s.regs()
	for r := range a {
		if !a[r].same(&b[r]) {
			return false
		}
	}
	if v.v612 {
		return v.coveredAs(old, s, exact)
	}
	return s.covered(old)
}

// callsBack reports whether an instruction calls a helper that calls a function of the program.
func (v *verifier) callsBack(n int) bool {
	i := v.prog.insns[n]
	return i.code == classJMP|jmpCALL && i.src == 0 && helpers[i.imm].callsNow(i.imm)
}

// covered reports whether all that can be in s can be in an older state.
func (v *verifier) covered(old, s *state) bool {
	if v.v612 {
		return v.coveredAs(old, s, inexact)
	}
	return s.covered(old)
}

// covered reports whether all that can be in s, and is used after an older state, can be in that: states_equal.
func (s *state) covered(old *state) bool {
	if !sameCalls(old, s) || s.lock != old.lock {
		return false
	}
	var ids pairs
	for n, f := range s.frames {
		o := old.frames[n]
		for r := range f.regs {
			if !f.regs[r].covered(&o.regs[r], &ids) {
				return false
			}
		}
		if !f.stackCovered(o, &ids) || len(f.refs) != len(o.refs) {
			return false
		}
		for n, r := range f.refs {
			if !ids.match(o.refs[n].id, r.id) {
				return false
			}
		}
	}
	return true
}

// pairs has which number of values in an older state stands for which one.
type pairs []struct{ old, now uint32 }

func (p *pairs) match(old, now uint32) bool {
	if (old == 0) != (now == 0) {
		return false
	}
	if old == 0 {
		return true
	}
	for _, pair := range *p {
		if pair.old == old {
			return pair.now == now
		}
	}
	*p = append(*p, struct{ old, now uint32 }{old, now})
	return true
}

// covered reports whether a register can be what it was in an older state, o: regsafe.
func (v *value) covered(o *value, ids *pairs) bool {
	switch {
	case o.live&liveRead == 0:
		return true
	case o.typ == regStack:
		return o.same(v) && o.frame == v.frame
	case o.same(v), o.typ == regNone:
		return true
	case v.typ == regNone:
		return false
	}
	switch o.typ {
	case regScalar:
		return v.typ == regScalar && (!o.precise || o.covers(v))
	case regMapValue, regKey:
		return v.typ == o.typ && v.off == o.off && v.m == o.m && o.covers(v) && ids.match(o.id, v.id)
	case regMapValueOrNull:
		return v.typ == o.typ && v.off == o.off && v.m == o.m && ids.match(o.id, v.id)
	default:
		return false
	}
}

// stackCovered reports whether a stack can be what it was in an older state, o: stacksafe.
func (f *function) stackCovered(o *function, ids *pairs) bool {
	for n := range o.stack {
		old := &o.stack[n]
		if old.live&liveRead == 0 {
			continue
		}
		for b, kind := range old.kind {
			if kind == slotNone || kind == slotMisc { // what was not written may be read, too
				continue
			}
			if n >= len(f.stack) || f.stack[n].kind[b] != kind {
				return false
			}
			if b == 7 && kind == slotSpill && !f.stack[n].value.covered(&old.value, ids) {
				return false
			}
		}
	}
	return true
}
