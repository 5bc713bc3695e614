package native

import (
	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
	"github.com/kprobefs/kprobefs/kernel/cpu/native/emit"
)

// lockIf makes the next instruction an atomic one if o has LOCK.
func (t *translator) lockIf(o *decode.Inst) {
	if o.Flags&decode.Locked != 0 {
		t.Lock()
	}
}

func (t *translator) lockedALU(i int, o *decode.Inst) {
	m := t.aligned(i, o)
	if o.Form&decode.SrcImm != 0 {
		t.Lock()
		t.aluImm(o, m)
	} else {
		r := t.in(o.B, emit.DX)
		t.Lock()
		t.aluMR(o, m, r)
	}
	t.set(i, fixNone)
}

func (t *translator) xchg(i int, o *decode.Inst) {
	m := t.aligned(i, o)
	t.MovRM(o.W, emit.DX, loc(o.B))
	t.Xchg(o.W, m, emit.DX)
	t.MovMR(8, loc(o.B), emit.DX)
}

func (t *translator) xadd(i int, o *decode.Inst) {
	m := t.aligned(i, o)
	t.MovRM(o.W, emit.DX, loc(o.B))
	t.lockIf(o)
	t.Xadd(o.W, m, emit.DX)
	t.MovMR(8, loc(o.B), emit.DX)
	t.set(i, fixNone)
}

func (t *translator) cmpxchg(i int, o *decode.Inst) {
	t.aligned(i, o)
	t.MovRM(8, emit.CX, emit.R(emit.AX))
	t.MovRM(8, emit.AX, loc(0))
	r := t.in(o.B, emit.DX)
	t.lockIf(o)
	t.Cmpxchg(o.W, emit.M(emit.CX, 0), r)
	equal := t.Jcc(emit.E)
	t.MovRM(o.W, hostReg[0], emit.R(emit.AX))
	t.Here(equal)
	t.set(i, fixNone)
}

func (t *translator) lockedBit(i int, o *decode.Inst) {
	m := t.aligned(i, o)
	t.lockIf(o)
	t.BitMI(bitOp(o), o.W, m, byte(o.Imm)&(8*o.W-1))
	if t.live[i+1] {
		t.mergeCF()
	}
}
