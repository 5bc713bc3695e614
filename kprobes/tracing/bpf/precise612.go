package bpf

import (
	"fmt"
	"strings"
	"syscall"
)

// Since 6.4 going back from the use of a number goes through functions and callbacks, and since 6.8 it knows which instructions have
// stored registers to a stack or loaded them.

// trail is what has to be precise in each function on the way back, and the function that the way is in: struct backtrack_state.
type trail struct {
	frame int
	want  [maxFrames]wanted
}

func (t *trail) top() *wanted { return &t.want[t.frame] }

func (t *trail) none() bool {
	for n := range t.frame + 1 {
		if !t.want[n].none() {
			return false
		}
	}
	return true
}

// regsText and slotsText name registers and slots.
func (w *wanted) regsText() string {
	var all []string
	for r := range maxReg {
		if w.regs&(1<<r) != 0 {
			all = append(all, fmt.Sprintf("r%d", r))
		}
	}
	return strings.Join(all, ",")
}

func (w *wanted) slotsText() string {
	var all []string
	for n := range stackSize / 8 {
		if w.slots&(1<<n) != 0 {
			all = append(all, fmt.Sprint(-8*(n+1)))
		}
	}
	return strings.Join(all, ",")
}

// goBackAll is __mark_chain_precision.
func (v *verifier) goBackAll(s *state, t *trail) error {
	if t.none() {
		return nil
	}
	now := s
	first, last, next := s.first, v.at, -1
	for here := true; ; here = false {
		v.log.detail("mark_precise: frame%d: last_idx %d first_idx %d subseq_idx %d \n", t.frame, last, first, next)
		if last < 0 {
			return v.entered(s, *t.top())
		}
		all, err := v.goBackOver(s, first, last, &next, here, t)
		switch {
		case err != nil:
			return err
		case !all && t.none():
			return nil
		case all || s.parent == nil:
			v.forceAll(now)
			return nil
		}
		s = s.parent
		if err := v.markAll(s, t); err != nil {
			return err
		}
		if t.none() {
			return nil
		}
		next, last, first = first, s.last, s.first
	}
}

// goBackOver goes back from an instruction to the first one since the state was kept; next is the one that followed.
func (v *verifier) goBackOver(s *state, first, last int, next *int, here bool, t *trail) (all bool, err error) {
	jumps := s.jumps
	for n := last; ; here = false {
		var j *jump
		if len(jumps) > 0 && jumps[len(jumps)-1].to == n {
			j = &jumps[len(jumps)-1]
		}
		if !here {
			if all, err = v.unwind(n, *next, j, t); all || err != nil {
				return all, err
			}
		}
		if t.none() {
			return false, nil
		}
		*next = n
		switch {
		case n == first && (len(jumps) == 0 || len(jumps) == 1 && j != nil):
			return false, nil
		case j != nil:
			n = j.from
			jumps = jumps[:len(jumps)-1]
		default:
			n--
		}
		if n < 0 || n >= len(v.prog.insns) {
			return false, v.refuse(syscall.EFAULT, "BUG backtracking idx %d", n)
		}
	}
}

// markAll marks what is wanted in a state that was kept, and forgets what is no number there, and what was precise.
func (v *verifier) markAll(s *state, t *trail) error {
	for frame := t.frame; frame >= 0; frame-- {
		f, w := s.frames[frame], &t.want[frame]
		if _, unused := s.markPrecise(frame, w, true); unused >= 0 {
			return v.refuse(syscall.EFAULT, "BUG backtracking (stack slot %d, total slots %d)", unused, len(f.stack))
		}
		if v.log.detailed() {
			v.log.printf("mark_precise: frame%d: parent state regs=%s stack=%s: %s\n", frame, w.regsText(), w.slotsText(), v.text(f, frame, true))
		}
	}
	return nil
}

// forceAll marks all numbers of the states that were kept before s: mark_all_scalars_precise.
func (v *verifier) forceAll(s *state) {
	v.log.detail("mark_precise: frame%d: falling back to forcing all scalars precise\n", len(s.frames)-1)
	for s = s.parent; s != nil; s = s.parent {
		for frame, f := range s.frames {
			for r := range r10 {
				if reg := &f.regs[r]; reg.typ == regScalar && !reg.precise {
					reg.precise = true
					v.log.detail("force_precise: frame%d: forcing r%d to be precise\n", frame, r)
				}
			}
			for n := range f.stack {
				if sl := &f.stack[n]; sl.spilled() && sl.typ == regScalar && !sl.precise {
					sl.precise = true
					v.log.detail("force_precise: frame%d: forcing fp%d to be precise\n", frame, -8*(n+1))
				}
			}
		}
	}
}

// unwind is backtrack_insn: it turns what is wanted after an instruction into what is wanted before it. j is what was noted of the
// instruction, or nil if nothing was.
func (v *verifier) unwind(n, next int, j *jump, t *trail) (all bool, err error) {
	i := v.prog.insns[n]
	if i.code == 0 { // the second half of a 64-bit immediate
		return false, nil
	}
	if v.log.detailed() {
		v.log.printf("mark_precise: frame%d: regs=%s stack=%s before %d: %s\n", t.frame, t.top().regsText(), t.top().slotsText(), n, v.insnText(n))
	}
	t.linked(j)
	w := t.top()
	dst, src := uint32(1)<<i.dst, uint32(1)<<i.src
	var use slotUse
	if j != nil {
		use = j.slot
	}
	switch i.class() {
	case classALU, classALU64:
		if w.regs&dst == 0 || i.op() == aluEND || i.op() == aluNEG {
			return false, nil
		}
		if i.op() == aluMOV {
			w.regs &^= dst
		}
		if i.fromRegister() && i.src != r10 {
			w.regs |= src
		}
	case classLDX:
		if !t.loads(dst, use) {
			return false, nil
		}
	case classST, classSTX:
		if i.fetches() {
			old := src
			if i.imm == atomicCMPXCHG {
				old = 1
			}
			if !t.loads(old, use) {
				return false, nil
			}
			break
		}
		if w.regs&dst != 0 { // the difference of two pointers
			return true, nil
		}
		if !use.used || t.want[use.frame].slots&(1<<use.n) == 0 {
			return false, nil
		}
		t.want[use.frame].slots &^= 1 << use.n
		if i.class() == classSTX {
			w.regs |= src
		}
	case classLD:
		w.regs &^= dst
		return false, nil
	default:
		if all, done, err := v.unwindJump(n, next, j, t); all || done || err != nil {
			return all, err
		}
	}
	t.linked(j)
	return false, nil
}

// loads replaces a register that was loaded by the slot it was loaded from. It returns false if that ends here.
func (t *trail) loads(to uint32, use slotUse) bool {
	w := t.top()
	if w.regs&to == 0 {
		return false
	}
	w.regs &^= to
	if use.used {
		t.want[use.frame].slots |= 1 << use.n
	}
	return use.used
}

// linked has the numbers that are the same as one that has to be precise be so, too.
func (t *trail) linked(j *jump) {
	if j == nil {
		return
	}
	has := func(l link) bool {
		w := &t.want[l.frame]
		return l.slot && w.slots&(1<<l.n) != 0 || !l.slot && w.regs&(1<<l.n) != 0
	}
	some := false
	for _, l := range j.links {
		some = some || has(l)
	}
	if !some {
		return
	}
	for _, l := range j.links {
		if l.slot {
			t.want[l.frame].slots |= 1 << l.n
		} else {
			t.want[l.frame].regs |= 1 << l.n
		}
	}
}

// unwindJump is unwind for jumps and calls. done says that nothing is left to do for it.
func (v *verifier) unwindJump(n, next int, j *jump, t *trail) (all, done bool, err error) {
	const arguments = 1<<6 - 2
	i, w := v.prog.insns[n], t.top()
	bug := func() (bool, bool, error) { return false, true, v.refuse(syscall.EFAULT, "BUG regs %x", w.regs) }
	switch {
	case i.class() == classJMP && i.op() == jmpCALL && i.src == pseudoCall && v.global(v.function(n+1+int(i.imm))):
		if w.regs&arguments != 0 {
			return bug()
		}
		w.regs &^= 1
		return false, true, nil
	case i.class() == classJMP && i.op() == jmpCALL && i.src == pseudoCall: // the begin of the function
		if w.regs&^arguments != 0 || w.slots != 0 || t.frame == 0 {
			return bug()
		}
		t.want[t.frame-1].regs |= w.regs
		w.regs = 0
		t.frame--
		return false, true, nil
	case i.class() == classJMP && i.op() == jmpCALL && i.src == 0 && helpers[i.imm].callsNow(i.imm) && n != next-1: // the begin of a callback
		if w.regs&^arguments != 0 || w.slots != 0 || t.frame == 0 {
			return bug()
		}
		w.regs = 0
		t.frame--
		return false, true, nil
	case i.class() == classJMP && i.op() == jmpCALL:
		if i.src == pseudoKfuncCall && i.imm == 0 {
			return true, true, nil
		}
		w.regs &^= 1
		if w.regs&arguments != 0 {
			return bug()
		}
	case i.class() == classJMP && i.op() == jmpEXIT:
		called := next > 0 && v.prog.insns[next-1].code == classJMP|jmpCALL && v.prog.insns[next-1].src == pseudoCall
		if called && w.regs&arguments != 0 || t.frame+1 == maxFrames {
			return bug()
		}
		result := w.regs & 1
		w.regs &^= 1
		t.frame++
		if called {
			t.top().regs |= result
		}
		return false, true, nil
	case i.fromRegister() && w.regs&(1<<i.dst|1<<i.src) != 0:
		if j == nil || !j.fromFP {
			w.regs |= 1 << i.src
		}
		if j == nil || !j.toFP {
			w.regs |= 1 << i.dst
		}
	}
	return false, false, nil
}

// callsNow reports whether a helper calls a function of the program before it returns.
func (h *helper) callsNow(nr int32) bool { return h != nil && h.calls() && nr != helperSetCallback }

// inheritAll has what an older state needs to be precise be so in one that is like it.
func (v *verifier) inheritAll(old, s *state) error {
	t := trail{frame: len(s.frames) - 1}
	for frame := len(old.frames) - 1; frame >= 0; frame-- {
		f, w := old.frames[frame], &t.want[frame]
		var names []string
		needs := func(n *value) bool { return n.typ == regScalar && n.precise && n.live&liveRead != 0 }
		for r := range r10 {
			if needs(&f.regs[r]) {
				w.regs |= 1 << r
				names = append(names, fmt.Sprintf("r%d", r))
			}
		}
		for n := range f.stack {
			if f.stack[n].spilled() && needs(&f.stack[n].value) {
				w.slots |= 1 << n
				names = append(names, fmt.Sprintf("fp%d", -8*(n+1)))
			}
		}
		if len(names) == 0 {
			continue
		}
		v.log.detail("frame %d: propagating %s\n", frame, strings.Join(names, ","))
		if !v.log.detailed() {
			v.log.printf("\n")
		}
	}
	return v.goBackAll(s, &t)
}
