package native

import (
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/cpu/core"
	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
	"github.com/kprobefs/kprobefs/kernel/cpu/native/emit"
)

// sp moves the stack pointer, and leaves the flags.
func (t *translator) sp(by int32) {
	t.Lea(8, hostReg[4], emit.M(hostReg[4], by))
}

// top makes AX the host's address of the stack pointer's word, or of that below.
func (t *translator) top(i int, push bool) emit.Arg {
	off := int32(0)
	if push {
		off = -8
	}
	t.save()
	t.Lea(8, emit.AX, emit.M(hostReg[4], off))
	t.check(i, 8, push)
	return emit.M(emit.AX, 0)
}

func (t *translator) push(i int, o *decode.Inst) {
	if o.Form&decode.SrcMem != 0 {
		m := t.operand(i, o, 8, false)
		t.MovRM(8, emit.AX, m)
		t.MovMR(8, state(offTmp), emit.AX)
	}
	m := t.top(i, true)
	switch {
	case o.Form&decode.SrcImm != 0:
		t.MovMI(8, m, o.Imm)
	case o.Form&decode.SrcMem != 0:
		t.MovRM(8, emit.DX, state(offTmp))
		t.MovMR(8, m, emit.DX)
	default:
		t.MovMR(8, m, t.in(o.B, emit.DX))
	}
	t.sp(-8)
}

func (t *translator) pop(i int, o *decode.Inst) {
	m := t.top(i, false)
	t.MovRM(8, emit.DX, m)
	t.sp(8)
	t.MovMR(8, loc(o.A), emit.DX)
}

func (t *translator) leaveFrame(i int, _ *decode.Inst) {
	t.save()
	t.MovRM(8, emit.AX, loc(5))
	t.check(i, 8, false)
	t.MovRM(8, emit.DX, emit.M(emit.AX, 0))
	t.Lea(8, hostReg[4], emit.M(hostReg[5], 8))
	t.MovRM(8, hostReg[5], emit.R(emit.DX))
}

func (t *translator) pushf(i int, _ *decode.Inst) {
	t.spoil()
	t.storeFlags(t.top(i, true))
	t.sp(-8)
}

// popf is for flags that leave interrupts and single-stepping as they are.
func (t *translator) popf(i int, _ *decode.Inst) {
	m := t.top(i, false)
	t.MovRM(8, emit.DX, m)
	t.MovRM(4, emit.AX, state(offRF))
	t.ALURM(emit.Xor, 4, emit.AX, emit.R(emit.DX))
	t.TestAX(4, abi.FlagIF|abi.FlagTF)
	t.slowIf(emit.NE, i)
	t.ALUAX(emit.And, 4, core.FlagMask) // what changes
	t.ALUMR(emit.Xor, 4, state(offRF), emit.AX)
	t.MovMR(1, emit.R(emit.AH), emit.DX)
	t.BitMI(emit.Bt, 4, emit.R(emit.DX), bitOF)
	t.Set(emit.C, emit.R(emit.AX))
	t.MovMR(2, state(offNF), emit.AX)
	t.sp(8)
	t.inHost, t.inMem = false, true
}
