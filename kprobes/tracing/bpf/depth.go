package bpf

import "syscall"

// stackWalk looks for calls within calls whose stacks are too large together: check_max_stack_depth.
type stackWalk struct {
	*verifier
	fits map[[2]int]int // by function and how many have called it: with how many bytes below it was fine
}

// stacksFit checks the program's function and those that timers call.
func (v *verifier) stacksFit() error {
	w := stackWalk{v, map[[2]int]int{}}
	for f := range v.starts {
		if f == 0 || v.isAsync(f) {
			if err := w.walk(f, 0, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// isAsync reports whether timers call a function.
func (v *verifier) isAsync(f int) bool {
	for _, a := range v.asyncs {
		if v.function(a.at) == f {
			return true
		}
	}
	return false
}

// walk follows the calls from a function; frames have called it with so many bytes of stack.
func (w *stackWalk) walk(f, frames, bytes int) error {
	each, deep := 32, max(w.depths[f], 1)
	if w.v612 { // if programs are compiled
		each, deep = 16, w.depths[f]
	}
	bytes += (deep + each - 1) &^ (each - 1)
	switch fine, known := w.fits[[2]int{f, frames}]; {
	case bytes > stackSize:
		return w.refuse(syscall.EACCES, "combined stack size of %d calls is %d. Too large", frames+1, bytes)
	case known && bytes <= fine:
		return nil
	}
	end := len(w.prog.insns)
	if f+1 < len(w.starts) {
		end = w.starts[f+1]
	}
	for n := w.starts[f]; n < end; n++ {
		i := w.prog.insns[n]
		call := i.class() == classJMP && i.op() == jmpCALL && i.src == pseudoCall
		if !call && !(i.wideLoad() && i.src == pseudoFunc) {
			continue
		}
		to := w.function(n + 1 + int(i.imm))
		if !call && w.isAsync(to) { // it does not run on this stack
			continue
		}
		if frames+1 >= maxFrames {
			return w.refuse(syscall.E2BIG, "the call stack of %d frames is too deep !", frames+1)
		}
		if err := w.walk(to, frames+1, bytes); err != nil {
			return err
		}
	}
	w.fits[[2]int{f, frames}] = bytes
	return nil
}

// inlineLoops makes the stacks of functions deeper in which a loop takes the place of bpf_loop: it keeps three registers there.
func (v *verifier) inlineLoops() {
	const kept = 3 * 8
	deeper := map[int]bool{}
	for at, l := range v.loops {
		if f := v.function(at); l.fits && !deeper[f] {
			deeper[f] = true
			v.depths[f] += kept
		}
	}
}
