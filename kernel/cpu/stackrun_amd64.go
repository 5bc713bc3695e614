package cpu

import "github.com/kprobefs/kprobefs/kernel/cpu/emit"

// A stack run is a row of instructions that access words at fixed distances from the
// stack pointer, as a function's prologue and whoever saves all registers have it: pushes,
// pops, moves to and from the stack, and what stands between them. They are checked at
// once: the bytes that they access lie in one page, which is in the TLB. If that does not
// hold, the interpreter executes them one by one.

// maxRun is how many bytes a stack run accesses at most.
const maxRun = 1024

// stackRun is the shape of a run.
type stackRun struct {
	n      int   // instructions
	lo, hi int32 // the bytes that are accessed, from the stack pointer at its beginning
	writes bool
}

// runAt finds the longest run that begins with ops[i]; n is 0 or 1 if there is none. It
// ends with the last instruction that accesses the stack.
func runAt(ops []op, i int) (run stackRun) {
	var r stackRun
	sp, flags := int32(0), false // where the stack pointer is; flags were changed
	for k := i; k < len(ops); k++ {
		o := &ops[k]
		at, write, ok := stackAccess(o)
		switch {
		case ok && !(o.code == cPUSHF && flags):
			if r.n == 0 {
				r.lo, r.hi = at, at+int32(o.w)
			}
			at += sp
			r.lo, r.hi = min(r.lo, at), max(r.hi, at+int32(o.w))
			r.writes = r.writes || write
		case r.n == 0 || !betweenAccesses(o):
			return run
		}
		if r.hi-r.lo > maxRun {
			return run
		}
		r.n++
		sp += stackStep(o)
		flags = flags || setsFlags(o)
		if ok {
			run = r
		}
	}
	return run
}

// stackAccess says where o accesses memory, from the stack pointer before it, if that is
// a word of the stack and its translation needs no register that runs need.
func stackAccess(o *op) (at int32, write, ok bool) {
	if o.flags&^stackSeg != 0 || o.w < 4 {
		return 0, false, false
	}
	switch o.code {
	case cPUSH, cPUSHF:
		return -8, true, o.w == 8 && o.form&hasMem == 0
	case cPOP:
		return 0, false, o.w == 8 && o.form&hasMem == 0 && o.a != 4
	case cMOV:
		at = int32(o.disp)
		return at, o.form&dstMem != 0, o.form&hasMem != 0 && o.base == 4 && o.index == regZero && o.seg == regZero &&
			at >= -maxRun && at <= maxRun && o.disp == uint64(int64(at)) &&
			(o.form&dstMem != 0 || o.a != 4)
	}
	return 0, false, false
}

// stackStep is by how much o moves the stack pointer, if it may be in a run.
func stackStep(o *op) int32 {
	switch {
	case o.code == cPUSH, o.code == cPUSHF:
		return -8
	case o.code == cPOP:
		return 8
	case o.form&dstMem != 0 || o.a != 4:
	case o.code == cADD:
		return int32(o.imm)
	case o.code == cSUB:
		return -int32(o.imm)
	case o.code == cLEA:
		return int32(o.disp)
	}
	return 0
}

// betweenAccesses says whether o may stand in a run without accessing memory: it keeps
// AX, and moves the stack pointer by a constant if at all.
func betweenAccesses(o *op) bool {
	if o.flags&^stackSeg != 0 || o.w < 4 || o.a >= regHigh || o.b >= regHigh || formOf(o) == nil {
		return false
	}
	small := func(v uint64) bool { return int64(v) >= -maxRun && int64(v) <= maxRun }
	switch o.code {
	case cNOP:
		return true
	case cMOV:
		return o.form&hasMem == 0 && o.a != 4
	case cLEA:
		return o.w == 8 && o.base == 4 && o.index == regZero && small(o.disp)
	case cADD, cSUB:
		return o.form&hasMem == 0 && (o.a != 4 || o.w == 8 && o.form&srcImm != 0 && small(o.imm))
	case cAND, cOR, cXOR, cCMP, cTEST:
		return o.form&hasMem == 0 && o.a != 4
	}
	return false
}

// findRuns marks the instructions of runs: runs has the shape where one begins, and inRun
// is true for those after its first.
func (t *translator) findRuns() {
	t.runs, t.inRun = map[int]stackRun{}, make([]bool, len(t.ops))
	for i := firstTranslated; i < len(t.ops); {
		r := runAt(t.ops, i)
		if r.n < 2 {
			i++
			continue
		}
		t.runs[i] = r
		for k := 1; k < r.n; k++ {
			t.inRun[i+k] = true
		}
		i += r.n
	}
}

// run translates the run that begins with op i.
func (t *translator) run(i int, r stackRun) {
	t.save()
	t.Op(8, 0x8d, emit.AX, emit.M(hostReg[4], r.lo))
	t.check(i, uint64(r.hi-r.lo), r.writes)
	at := -r.lo // of the stack pointer, from AX
	for k := i; k < i+r.n; k++ {
		o := &t.ops[k]
		if off, _, ok := stackAccess(o); ok {
			t.access(o, emit.M(emit.AX, at+off))
		} else {
			formOf(o)(t, k, o)
		}
		at += stackStep(o)
	}
}

// access translates an instruction of a run that accesses the word m of the stack. It
// keeps AX, and the host's flags but for pushf.
func (t *translator) access(o *op, m emit.Arg) {
	switch {
	case o.code == cPUSHF:
		t.storeFlags(m)
	case o.code == cPUSH && o.form&srcImm != 0, o.code == cMOV && o.form&dstMem != 0 && o.form&srcImm != 0:
		t.Op(o.w, 0xc7, 0, m)
		t.Imm32(uint32(o.imm))
	case o.code == cPUSH, o.form&dstMem != 0:
		t.Op(o.w, 0x89, t.in(o.b, emit.DX), m)
	default:
		t.load(o.a, o.w, m)
	}
	if step := stackStep(o); step != 0 {
		t.sp(step)
	}
}
