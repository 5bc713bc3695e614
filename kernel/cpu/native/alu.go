package native

import (
	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
	"github.com/kprobefs/kprobefs/kernel/cpu/native/emit"
)

// alu is add, or, adc, sbb, and, sub, xor, cmp and test.
func (t *translator) alu(i int, o *decode.Inst) {
	writes := o.Code != decode.TEST && o.Code != decode.CMP
	carry := o.Code == decode.ADC || o.Code == decode.SBB
	switch {
	case o.Form&decode.DstMem != 0:
		m := t.operand(i, o, uint64(o.W), writes)
		if o.Form&decode.SrcImm != 0 {
			t.aluImm(o, m)
		} else {
			t.aluMR(o, m, t.in(o.B, emit.DX))
		}
	case o.Form&decode.SrcMem != 0:
		m := t.operand(i, o, uint64(o.W), false)
		if carry {
			t.MovRM(8, emit.CX, emit.R(emit.AX))
			t.host()
			m = emit.M(emit.CX, 0)
		}
		r := t.in(o.A, emit.DX)
		t.aluRM(o, r, m)
		if writes {
			t.done(o.A)
		}
	default:
		if carry {
			t.host()
		}
		r := t.in(o.A, emit.DX)
		if o.Form&decode.SrcImm != 0 {
			t.aluImm(o, emit.R(r))
		} else {
			t.aluRM(o, r, loc(o.B))
		}
		if writes {
			t.done(o.A)
		}
	}
	t.set(i, fixNone)
}

// aluOp is the operation of add to cmp.
func aluOp(o *decode.Inst) emit.ALU { return emit.ALU(o.Code - decode.ADD) }

// aluRM is o with a register and what is at m; aluMR is the other way round.
func (t *translator) aluRM(o *decode.Inst, r emit.Reg, m emit.Arg) {
	if o.Code == decode.TEST {
		t.TestMR(o.W, m, r)
		return
	}
	t.ALURM(aluOp(o), o.W, r, m)
}

func (t *translator) aluMR(o *decode.Inst, m emit.Arg, r emit.Reg) {
	if o.Code == decode.TEST {
		t.TestMR(o.W, m, r)
		return
	}
	t.ALUMR(aluOp(o), o.W, m, r)
}

// aluImm is o with its immediate.
func (t *translator) aluImm(o *decode.Inst, m emit.Arg) {
	if o.Code == decode.TEST {
		t.TestMI(o.W, m, o.Imm)
		return
	}
	t.ALUMI(aluOp(o), o.W, m, o.Imm)
}

// unaryOps are the operations of inc to neg, from decode.INC on.
var unaryOps = [...]emit.Unary{emit.Inc, emit.Dec, emit.Not, emit.Neg}

// unary is inc, dec, neg and not. The first two leave CF as it is.
func (t *translator) unary(i int, o *decode.Inst) {
	m := emit.Arg{}
	if o.Form&decode.DstMem != 0 {
		if o.Flags&decode.Locked != 0 {
			t.aligned(i, o)
		} else {
			t.operand(i, o, uint64(o.W), true)
		}
		t.MovRM(8, emit.CX, emit.R(emit.AX))
		m = emit.M(emit.CX, 0)
	}
	if (o.Code == decode.INC || o.Code == decode.DEC) && t.live[i+1] {
		t.host()
	}
	if o.Form&decode.DstMem == 0 {
		m = emit.R(t.in(o.A, emit.DX))
	}
	t.lockIf(o)
	t.Unary(unaryOps[o.Code-decode.INC], o.W, m)
	if o.Form&decode.DstMem == 0 {
		t.done(o.A)
	}
	if o.Code != decode.NOT {
		t.set(i, fixNone)
	}
}

// imul is the one with two or three operands.
func (t *translator) imul(i int, o *decode.Inst) {
	m := loc(o.B)
	if o.Form&decode.SrcMem != 0 {
		m = t.operand(i, o, uint64(o.W), false)
	}
	if o.Form&decode.ThreeOp != 0 {
		t.IMulRMI(o.W, out(o.A), m, uint32(o.Imm))
	} else {
		t.IMulRM(o.W, t.in(o.A, emit.DX), m)
	}
	t.done(o.A)
	t.product(i, o.W, out(o.A))
}

// product makes the flags of a product, of which r is the lower half.
func (t *translator) product(i int, w uint8, r emit.Reg) {
	t.set(i, fixNone)
	if !t.live[i+1] {
		return
	}
	t.Set(emit.O, emit.R(emit.CX))
	t.TestMR(w, emit.R(r), r)
	t.Lahf()
	t.clearAF()
	t.ALUMR(emit.Or, 1, emit.R(emit.AH), emit.CX) // CF is OF
	t.MovMR(1, emit.R(emit.AX), emit.CX)
	t.MovMR(2, state(offNF), emit.AX)
	t.inHost, t.inMem = false, true
}

// mul is mul and imul with one operand.
func (t *translator) mul(i int, o *decode.Inst) {
	m := loc(o.B)
	if o.Form&decode.SrcMem != 0 {
		t.operand(i, o, uint64(o.W), false)
		t.MovRM(8, emit.CX, emit.R(emit.AX))
		m = emit.M(emit.CX, 0)
	}
	t.MovRM(8, emit.AX, loc(0))
	op := emit.Mul
	if o.Code == decode.IMUL1 {
		op = emit.IMul1
	}
	t.Unary(op, o.W, m)
	t.MovRM(o.W, hostReg[0], emit.R(emit.AX))
	t.MovRM(o.W, hostReg[2], emit.R(emit.DX))
	t.product(i, o.W, hostReg[0])
}

// div is for what is no more than one word: the others are left to the
// interpreter, with what divides by 0.
func (t *translator) div(i int, o *decode.Inst) {
	t.spoil()
	r := t.in(o.B, emit.CX)
	t.TestMR(o.W, emit.R(r), r)
	t.slowIf(emit.E, i)
	t.TestMR(o.W, emit.R(hostReg[2]), hostReg[2])
	t.slowIf(emit.NE, i)
	t.MovRM(o.W, emit.AX, loc(0))
	t.ALUMR(emit.Xor, 4, emit.R(emit.DX), emit.DX)
	t.Unary(emit.Div, o.W, emit.R(r))
	t.MovRM(o.W, hostReg[0], emit.R(emit.AX))
	t.MovRM(o.W, hostReg[2], emit.R(emit.DX))
}
