package native

import (
	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
	"github.com/kprobefs/kprobefs/kernel/cpu/native/emit"
)

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

// runAt finds the longest run that begins with insts[i]; n is 0 or 1 if there is none. It
// ends with the last instruction that accesses the stack.
func runAt(insts []decode.Inst, i int) (run stackRun) {
	var r stackRun
	sp, flags := int32(0), false // where the stack pointer is; flags were changed
	for k := i; k < len(insts); k++ {
		o := &insts[k]
		at, write, ok := stackAccess(o)
		switch {
		case ok && !(o.Code == decode.PUSHF && flags):
			if r.n == 0 {
				r.lo, r.hi = at, at+int32(o.W)
			}
			at += sp
			r.lo, r.hi = min(r.lo, at), max(r.hi, at+int32(o.W))
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
func stackAccess(o *decode.Inst) (at int32, write, ok bool) {
	if o.Flags&^decode.StackSeg != 0 || o.W < 4 {
		return 0, false, false
	}
	switch o.Code {
	case decode.PUSH, decode.PUSHF:
		return -8, true, o.W == 8 && o.Form&decode.HasMem == 0
	case decode.POP:
		return 0, false, o.W == 8 && o.Form&decode.HasMem == 0 && o.A != 4
	case decode.MOV:
		at = int32(o.Disp)
		return at, o.Form&decode.DstMem != 0, o.Form&decode.HasMem != 0 && o.Base == 4 && o.Index == decode.RegZero && o.Seg == decode.RegZero &&
			at >= -maxRun && at <= maxRun && o.Disp == uint64(int64(at)) &&
			(o.Form&decode.DstMem != 0 || o.A != 4)
	}
	return 0, false, false
}

// stackStep is by how much o moves the stack pointer, if it may be in a run.
func stackStep(o *decode.Inst) int32 {
	switch {
	case o.Code == decode.PUSH, o.Code == decode.PUSHF:
		return -8
	case o.Code == decode.POP:
		return 8
	case o.Form&decode.DstMem != 0 || o.A != 4:
	case o.Code == decode.ADD:
		return int32(o.Imm)
	case o.Code == decode.SUB:
		return -int32(o.Imm)
	case o.Code == decode.LEA:
		return int32(o.Disp)
	}
	return 0
}

// betweenAccesses says whether o may stand in a run without accessing memory: it keeps
// AX, and moves the stack pointer by a constant if at all.
func betweenAccesses(o *decode.Inst) bool {
	if o.Flags&^decode.StackSeg != 0 || o.W < 4 || o.A >= decode.RegHigh || o.B >= decode.RegHigh || formOf(o) == nil {
		return false
	}
	small := func(v uint64) bool { return int64(v) >= -maxRun && int64(v) <= maxRun }
	switch o.Code {
	case decode.NOP:
		return true
	case decode.MOV:
		return o.Form&decode.HasMem == 0 && o.A != 4
	case decode.LEA:
		return o.W == 8 && o.Base == 4 && o.Index == decode.RegZero && small(o.Disp)
	case decode.ADD, decode.SUB:
		return o.Form&decode.HasMem == 0 && (o.A != 4 || o.W == 8 && o.Form&decode.SrcImm != 0 && small(o.Imm))
	case decode.AND, decode.OR, decode.XOR, decode.CMP, decode.TEST:
		return o.Form&decode.HasMem == 0 && o.A != 4
	}
	return false
}

// findRuns marks the instructions of runs: runs has the shape where one begins, and inRun
// is true for those after its first.
func (t *translator) findRuns() {
	t.runs, t.inRun = map[int]stackRun{}, make([]bool, len(t.insts))
	for i := 0; i < len(t.insts); {
		r := runAt(t.insts, i)
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

// run translates the run that begins with instruction i.
func (t *translator) run(i int, r stackRun) {
	t.save()
	t.Lea(8, emit.AX, emit.M(hostReg[4], r.lo))
	t.check(i, uint64(r.hi-r.lo), r.writes)
	at := -r.lo       // of the stack pointer, from AX
	moved := int32(0) // how far it is from where the register says
	for k := i; k < i+r.n; k++ {
		o := &t.insts[k]
		off, _, access := stackAccess(o)
		step := stackStep(o)
		switch {
		case !access && step != 0 && o.Code == decode.LEA: // add and sub set flags
			moved += step
		case access && !usesStackPointer(o):
			t.access(o, emit.M(emit.AX, at+off))
			moved += step
		default:
			t.move(&moved)
			if access {
				t.access(o, emit.M(emit.AX, at+off))
				moved += step
			} else {
				formOf(o)(t, k, o)
			}
		}
		at += step
	}
	t.move(&moved)
}

// move moves the stack pointer by what its register lags behind.
func (t *translator) move(by *int32) {
	if *by != 0 {
		t.sp(*by)
		*by = 0
	}
}

// usesStackPointer says whether access o of a run stores the stack pointer itself.
func usesStackPointer(o *decode.Inst) bool {
	stores := o.Code == decode.PUSH || o.Form&decode.DstMem != 0
	return stores && o.Form&decode.SrcImm == 0 && o.B == 4
}

// access translates what an instruction of a run does with the word m of the stack; run
// moves the stack pointer. It keeps AX, and the host's flags but for pushf.
func (t *translator) access(o *decode.Inst, m emit.Arg) {
	switch {
	case o.Code == decode.PUSHF:
		t.storeFlags(m)
	case o.Code == decode.PUSH && o.Form&decode.SrcImm != 0, o.Code == decode.MOV && o.Form&decode.DstMem != 0 && o.Form&decode.SrcImm != 0:
		t.MovMI(o.W, m, o.Imm)
	case o.Code == decode.PUSH, o.Form&decode.DstMem != 0:
		t.MovMR(o.W, m, t.in(o.B, emit.DX))
	default:
		t.load(o.A, o.W, m)
	}
}
