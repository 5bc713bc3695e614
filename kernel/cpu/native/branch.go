package native

import (
	"unsafe"

	"github.com/kprobefs/kprobefs/kernel/cpu/core"
	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
	"github.com/kprobefs/kprobefs/kernel/cpu/native/emit"
)

// A site is a jump to another block, once that is known.
type site struct {
	inst int    // index of the branch in the block
	to   uint64 // the block's address
	pos  int    // of the jump's distance
	exit int    // where it leads as long as the target is not known
}

// event leaves the code behind instruction i, a vmcall or int3, for others to answer it; the
// code goes on behind a vmcall.
func (t *translator) event(i int, o *decode.Inst) {
	t.spoil()
	t.giveBack(t.rest(i))
	t.store(state(offRIP), o.Disp)
	if o.Code == decode.INT {
		t.returnWith(t.exit(Breakpoint, i))
		return
	}
	resume := t.LeaCode(emit.CX)
	t.MovMR(8, state(offResume), emit.CX)
	t.returnWith(t.exit(Hypercall, i))
	t.Here(resume)
	t.giveBack(-t.rest(i))
	t.inMem = true
}

// chain goes on where branch instruction i leads; the flags are saved.
func (t *translator) chain(i int, add int64) {
	t.giveBack(add)
	pos := t.JmpAligned()
	t.Here(pos)
	t.sites = append(t.sites, site{inst: i, to: t.insts[i].Imm, pos: pos, exit: t.Len()})
	t.returnWith(t.exit(Branch, i))
}

func (t *translator) jcc(i int, o *decode.Inst) {
	t.host()
	t.stubs = append(t.stubs, stub{
		pos: t.Jcc(emit.Cond(o.A)), exit: uint32(i), add: t.rest(i),
		save: !t.inMem, fix: t.fix, branch: true,
	})
}

func (t *translator) jmp(i int, o *decode.Inst) {
	t.spoil()
	t.chain(i, t.rest(i))
}

func (t *translator) call(i int, _ *decode.Inst) {
	m := t.top(i, true)
	t.pushRIP(m)
	t.chain(i, t.rest(i))
}

// pushRIP stores the address behind a call, which is the block's end.
func (t *translator) pushRIP(m emit.Arg) {
	t.store(m, t.end)
	t.sp(-8)
}

func (t *translator) jmpAny(i int, o *decode.Inst) {
	if o.Form&decode.Indirect != 0 {
		t.jmpTo(i, o)
		return
	}
	t.jmp(i, o)
}

func (t *translator) callAny(i int, o *decode.Inst) {
	if o.Form&decode.Indirect != 0 {
		t.callTo(i, o)
		return
	}
	t.call(i, o)
}

func (t *translator) jmpTo(i int, o *decode.Inst) {
	t.target(i, o)
	t.find(i)
	t.jump(i)
}

func (t *translator) callTo(i int, o *decode.Inst) {
	t.target(i, o)
	t.find(i)
	t.MovRM(8, emit.CX, emit.X(emit.BP, emit.CX, 0, offNJC+8))
	t.MovMR(8, state(offTmp), emit.CX)
	t.pushRIP(t.top(i, true))
	t.giveBack(t.rest(i))
	t.JmpTo(state(offTmp))
}

func (t *translator) ret(i int, o *decode.Inst) {
	m := t.top(i, false)
	t.MovRM(8, emit.DX, m)
	t.find(i)
	t.sp(8 + int32(o.Imm))
	t.jump(i)
}

// target makes DX the target of an indirect branch.
func (t *translator) target(i int, o *decode.Inst) {
	if o.Form&decode.SrcMem != 0 {
		t.MovRM(8, emit.DX, t.operand(i, o, 8, false))
		return
	}
	t.spoil()
	t.MovRM(8, emit.DX, loc(o.B))
}

// find makes CX the place in Targets of the code for DX; if there is none, instruction i is left
// to the interpreter.
func (t *translator) find(i int) {
	t.MovRM(4, emit.CX, emit.R(emit.DX))
	t.ShiftMI(emit.Shr, 4, emit.R(emit.CX), core.TargetShift)
	t.ALURM(emit.Xor, 4, emit.CX, emit.R(emit.DX))
	t.ALUMI32(emit.And, 4, emit.R(emit.CX), core.TargetMask)
	t.ShiftMI(emit.Shl, 4, emit.R(emit.CX), 5)
	t.ALURM(emit.Cmp, 8, emit.DX, emit.X(emit.BP, emit.CX, 0, offNJC))
	other := t.Jcc(emit.NE)
	t.others = append(t.others, otherTarget{other, t.Len(), t.exit(Slow, i)})
}

// An otherTarget looks at the second one of a pair in Targets.
type otherTarget struct {
	pos, back int
	exit      uint32
}

func (t *translator) other(o *otherTarget) {
	t.Here(o.pos)
	t.ALUMI(emit.Add, 8, emit.R(emit.CX), uint64(unsafe.Sizeof(core.Target{})))
	t.ALURM(emit.Cmp, 8, emit.DX, emit.X(emit.BP, emit.CX, 0, offNJC))
	no := t.Jcc(emit.NE)
	t.To(t.Jmp(), o.back)
	t.Here(no)
	t.returnWith(o.exit)
}

// jump goes to the code that find has found.
func (t *translator) jump(i int) {
	t.giveBack(t.rest(i))
	t.JmpTo(emit.X(emit.BP, emit.CX, 0, offNJC+8))
}
