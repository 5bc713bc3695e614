package native

import (
	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
	"github.com/kprobefs/kprobefs/kernel/cpu/native/emit"
)

func (t *translator) mov(i int, o *decode.Inst) {
	switch {
	case o.Form&decode.DstMem != 0 && o.Form&decode.SrcImm != 0:
		m := t.operand(i, o, uint64(o.W), true)
		t.MovMI(o.W, m, o.Imm)
	case o.Form&decode.DstMem != 0:
		m := t.operand(i, o, uint64(o.W), true)
		t.MovMR(o.W, m, t.in(o.B, emit.DX))
	case o.Form&decode.SrcImm != 0 && o.W >= 4:
		r := out(o.A)
		t.MovImm(r, o.Imm&decode.Mask(o.W))
		t.done(o.A)
	case o.Form&decode.SrcImm != 0:
		t.MovMI(o.W, loc(o.A), o.Imm)
	case o.Form&decode.SrcMem != 0:
		t.load(o.A, o.W, t.operand(i, o, uint64(o.W), false))
	default:
		t.load(o.A, o.W, loc(o.B))
	}
}

// load moves w bytes at m to guest register g.
func (t *translator) load(g, w uint8, m emit.Arg) {
	if w >= 4 {
		t.MovRM(w, out(g), m)
		t.done(g)
		return
	}
	if hostReg[g] == emit.SP {
		t.MovRM(w, emit.DX, m)
		t.MovMR(w, loc(g), emit.DX)
		return
	}
	t.MovRM(w, hostReg[g], m)
}

func (t *translator) extend(i int, o *decode.Inst) {
	from := uint8(o.Imm)
	m := loc(o.B)
	if o.Form&decode.SrcMem != 0 {
		m = t.operand(i, o, uint64(from), false)
	}
	r := out(o.A)
	switch {
	case from == 4 && (o.Code == decode.MOVZX || o.W == 4):
		t.MovRM(4, r, m)
	case o.Code == decode.MOVZX:
		t.Movzx(o.W, r, m, from)
	default:
		t.Movsx(o.W, r, m, from)
	}
	t.done(o.A)
}

func (t *translator) lea(_ int, o *decode.Inst) {
	r := out(o.A)
	if o.Base == decode.RegZero && o.Index == decode.RegZero {
		t.MovImm(r, o.Disp&decode.Mask(o.W))
	} else if o.Disp == uint64(int64(int32(o.Disp))) && o.Base != decode.RegZero {
		b := t.in(o.Base, emit.AX)
		if o.Index == decode.RegZero {
			t.Lea(o.W, r, emit.M(b, int32(o.Disp)))
		} else {
			t.Lea(o.W, r, emit.X(b, t.in(o.Index, emit.CX), o.Scale, int32(o.Disp)))
		}
	} else {
		t.address(o)
		t.MovRM(o.W, r, emit.R(emit.AX))
	}
	t.done(o.A)
}

func (t *translator) bswap(_ int, o *decode.Inst) {
	r := t.in(o.A, emit.DX)
	t.Bswap(o.W, r)
	t.done(o.A)
}

func (t *translator) cbw(_ int, o *decode.Inst) {
	if o.W == 8 {
		t.Movsx(8, hostReg[0], loc(0), 4)
		return
	}
	t.Movsx(4, hostReg[0], loc(0), 2)
}

func (t *translator) cwd(_ int, o *decode.Inst) {
	t.MovRM(8, emit.AX, loc(0))
	t.Cwd(o.W)
	t.MovRM(o.W, hostReg[2], emit.R(emit.DX))
}

func (t *translator) setcc(i int, o *decode.Inst) {
	cc := emit.Cond(o.Imm & 15)
	t.host()
	if o.Form&decode.DstMem == 0 {
		t.Set(cc, loc(o.A))
		return
	}
	t.Set(cc, state(offTmp))
	m := t.operand(i, o, 1, true)
	t.MovRM(1, emit.CX, state(offTmp))
	t.MovMR(1, m, emit.CX)
}

func (t *translator) cmov(i int, o *decode.Inst) {
	m := loc(o.B)
	if o.Form&decode.SrcMem != 0 {
		t.MovRM(o.W, emit.CX, t.operand(i, o, uint64(o.W), false))
		m = emit.R(emit.CX)
	}
	t.host()
	t.Cmov(emit.Cond(o.Imm&15), o.W, t.in(o.A, emit.DX), m)
	t.done(o.A)
}

func (t *translator) xchgReg(_ int, o *decode.Inst) {
	t.MovRM(o.W, emit.AX, loc(o.B))
	t.MovRM(o.W, emit.CX, loc(o.A))
	t.MovMR(8, loc(o.A), emit.AX)
	t.MovMR(8, loc(o.B), emit.CX)
}
