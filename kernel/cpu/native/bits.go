package native

import (
	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
	"github.com/kprobefs/kprobefs/kernel/cpu/native/emit"
)

// shiftOp is the operation of rol to sar.
func shiftOp(o *decode.Inst) emit.Shift { return emit.Shift(o.Code - decode.ROL) }

// shiftBy shifts or rotates r by the immediate of instruction i. OF is defined after a shift by one
// only: where flags are needed, the last bit is shifted by itself.
func (t *translator) shiftBy(i int, o *decode.Inst, r emit.Reg) {
	n := byte(o.Imm)
	if t.live[i+1] && n > 1 {
		t.ShiftMI(shiftOp(o), o.W, emit.R(r), n-1)
		n = 1
	}
	t.ShiftMI(shiftOp(o), o.W, emit.R(r), n)
}

// shift is by an immediate or by CL.
func (t *translator) shift(i int, o *decode.Inst) {
	if o.Form&decode.ByCL != 0 {
		t.shiftCL(i, o)
		return
	}
	r := t.in(o.A, emit.DX)
	if o.Imm == 0 {
		t.MovRM(o.W, r, emit.R(r))
		t.done(o.A)
		return
	}
	t.shiftBy(i, o, r)
	t.done(o.A)
	t.set(i, fixAF)
}

// shiftCL is by CL, which may be 0: then the flags stay.
func (t *translator) shiftCL(i int, o *decode.Inst) {
	t.spoil()
	r := t.in(o.A, emit.DX)
	t.MovRM(4, emit.CX, loc(1))
	if !t.live[i+1] {
		t.ShiftMC(shiftOp(o), o.W, emit.R(r))
		t.done(o.A)
		return
	}
	if o.W == 4 {
		t.MovRM(4, r, emit.R(r))
	}
	t.ALUMI(emit.And, 4, emit.R(emit.CX), uint64(8*o.W-1))
	skip := t.Jcc(emit.E)
	t.Unary(emit.Dec, 4, emit.R(emit.CX))
	t.ShiftMC(shiftOp(o), o.W, emit.R(r))
	t.ShiftM1(shiftOp(o), o.W, emit.R(r))
	t.saveFlags(fixAF)
	t.Here(skip)
	t.done(o.A)
}

// rotate is by an immediate; it sets CF and OF.
func (t *translator) rotate(i int, o *decode.Inst) {
	t.spoil()
	r := t.in(o.A, emit.DX)
	t.shiftBy(i, o, r)
	t.done(o.A)
	if !t.live[i+1] {
		return
	}
	t.Set(emit.O, emit.R(emit.AX))
	t.mergeCF()
	t.MovMR(1, state(offNF), emit.AX)
}

// bitOp is the operation of bt to btc.
func bitOp(o *decode.Inst) emit.Bit { return emit.Bt + emit.Bit(o.Code-decode.BT) }

// bitTest sets CF.
func (t *translator) bitTest(i int, o *decode.Inst) {
	t.spoil()
	r := t.in(o.A, emit.DX)
	if o.Form&decode.SrcImm != 0 {
		t.BitMI(bitOp(o), o.W, emit.R(r), byte(o.Imm))
	} else {
		t.BitMR(bitOp(o), o.W, emit.R(r), t.in(o.B, emit.AX))
	}
	if o.Code != decode.BT {
		t.done(o.A)
	}
	if t.live[i+1] {
		t.mergeCF()
	}
}

func (t *translator) popcnt(i int, o *decode.Inst) {
	m := loc(o.B)
	if o.Form&decode.SrcMem != 0 {
		m = t.operand(i, o, uint64(o.W), false)
	}
	t.Popcnt(o.W, out(o.A), m)
	t.done(o.A)
	t.set(i, fixNone)
}
