package native

import (
	"unsafe"

	"github.com/kprobefs/kprobefs/kernel/cpu/core"
	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
	"github.com/kprobefs/kprobefs/kernel/cpu/native/emit"
	"github.com/kprobefs/kprobefs/kernel/mem"
)

const slotSize = int32(unsafe.Sizeof(core.Slot{}))

// slowIf leaves the block for instruction i on condition cc.
func (t *translator) slowIf(cc emit.Cond, i int) {
	t.stubs = append(t.stubs, stub{pos: t.Jcc(cc), exit: t.exit(Slow, i)})
}

// address sets AX to the guest's address of o's memory operand. It leaves the host's
// flags, and uses CX and DX.
func (t *translator) address(o *decode.Inst) {
	fits := o.Disp == uint64(int64(int32(o.Disp)))
	disp := int32(o.Disp)
	if !fits {
		disp = 0
	}
	base, index := o.Base, o.Index
	switch {
	case base == decode.RegZero && index == decode.RegZero:
		t.MovImm(emit.AX, o.Disp)
		fits = true
	case base == decode.RegZero:
		t.Lea(8, emit.AX, emit.Abs(t.in(index, emit.CX), o.Scale, disp))
	case index == decode.RegZero:
		t.Lea(8, emit.AX, emit.M(t.in(base, emit.AX), disp))
	default:
		b, x := t.in(base, emit.AX), t.in(index, emit.CX)
		t.Lea(8, emit.AX, emit.X(b, x, o.Scale, disp))
	}
	if !fits {
		t.MovImm(emit.DX, o.Disp)
		t.Lea(8, emit.AX, emit.X(emit.AX, emit.DX, 0, 0))
	}
	if o.Seg != decode.RegZero && o.Code != decode.LEA {
		t.MovRM(8, emit.CX, loc(o.Seg))
		t.Lea(8, emit.AX, emit.X(emit.AX, emit.CX, 0, 0))
	}
}

// check turns the guest's address in AX into the host's, for w bytes; if they are
// not in the TLB, or in two pages, instruction i is left to the interpreter. The flags are
// saved. It uses CX and DX.
func (t *translator) check(i int, w uint64, write bool) {
	t.inHost = false
	slots, fill := offRSlots, &t.fillRead
	if write {
		slots, fill = offWSlots, &t.fillWrite
	}
	slot := slots + slotSize*int32(t.slot&core.SlotMask)
	t.slot++
	t.MovRM(8, emit.DX, emit.R(emit.AX))
	t.ALURM(emit.Sub, 8, emit.DX, state(slot))
	t.ALURM(emit.Cmp, 8, emit.DX, state(slot+16))
	miss := tlbMiss{pos: [2]int{t.Jcc(emit.AE)}, fill: *fill, slot: slot, last: int32(w - 1), exit: t.exit(Slow, i)}
	if w > 8 { // the last word, too
		t.Lea(8, emit.DX, emit.M(emit.DX, int32(w-8)))
		t.ALURM(emit.Cmp, 8, emit.DX, state(slot+16))
		miss.pos[1] = t.Jcc(emit.AE)
	}
	miss.back = t.Len()
	t.misses = append(t.misses, miss)
	t.ALURM(emit.Add, 8, emit.AX, state(slot+8))
}

// A tlbMiss is a page that is not the one that an access used last: the TLB has
// it, or the interpreter looks for it.
type tlbMiss struct {
	pos  [2]int // of the jumps, the second 0 if there is one only
	back int    // where they come from
	fill int    // which of the common routines
	slot int32
	last int32 // byte of the access
	exit uint32
}

func (t *translator) miss(m *tlbMiss) {
	t.Here(m.pos[0])
	if m.pos[1] != 0 {
		t.Here(m.pos[1])
	}
	t.MovImm(emit.CX, uint64(m.slot))
	t.Lea(8, emit.DX, emit.M(emit.AX, m.last))
	t.pageOfDX()
	t.calls = append(t.calls, call32{t.Call(), m.fill})
	slow := t.Jcc(emit.NE)
	t.To(t.Jmp(), m.back)
	t.Here(slow)
	t.returnWith(m.exit)
}

// pageOfDX makes an address in DX the address of its page.
func (t *translator) pageOfDX() {
	t.ALUMI32(emit.And, 8, emit.R(emit.DX), ^uint32(mem.PageMask))
}

// fillSlot makes the routine that copies the TLB's entry for address AX, whose last
// byte is in page DX, to slot CX; it answers with ZF whether there is one.
func fillSlot(tlb int32) []byte {
	var t translator
	t.MovMR(8, state(offTmp2), emit.CX)
	t.MovRM(4, emit.CX, emit.R(emit.AX))
	t.ShiftMI(emit.Shr, 4, emit.R(emit.CX), 8)
	t.ALUMI32(emit.And, 4, emit.R(emit.CX), core.PageMask<<4)
	t.ALURM(emit.Add, 8, emit.CX, state(tlb))
	t.ALURM(emit.Cmp, 8, emit.DX, emit.M(emit.CX, 0))
	first := t.Jcc(emit.E)
	t.ALUMI32(emit.Xor, 8, emit.R(emit.CX), core.SecondPlace<<4) // xor: the other place, since Pages is aligned to its size
	t.ALURM(emit.Cmp, 8, emit.DX, emit.M(emit.CX, 0))
	no := t.Jcc(emit.NE)
	t.Here(first)
	t.MovRM(8, emit.DX, emit.M(emit.CX, 8))
	t.MovRM(8, emit.CX, state(offTmp2)) // an xchg would lock
	t.MovMR(8, emit.X(emit.BP, emit.CX, 0, 8), emit.DX)
	t.MovRM(8, emit.DX, emit.R(emit.AX))
	t.pageOfDX()
	t.MovMR(8, emit.X(emit.BP, emit.CX, 0, 0), emit.DX)
	t.MovMI(8, emit.X(emit.BP, emit.CX, 0, 16), core.SlotLimit)
	t.ALUMR(emit.Cmp, 4, emit.R(emit.AX), emit.AX) // cmp: ZF
	t.Here(no)
	t.Ret()
	return t.B
}

// operand makes AX the host's address of o's memory operand.
func (t *translator) operand(i int, o *decode.Inst, w uint64, write bool) emit.Arg {
	t.save()
	t.address(o)
	t.check(i, w, write)
	return emit.M(emit.AX, 0)
}

// aligned is operand of a locked instruction.
func (t *translator) aligned(i int, o *decode.Inst) emit.Arg {
	t.spoil()
	t.address(o)
	t.TestAX(1, uint32(o.W-1))
	t.slowIf(emit.NE, i)
	t.check(i, uint64(o.W), true)
	return emit.M(emit.AX, 0)
}

// store stores a constant. It uses CX.
func (t *translator) store(m emit.Arg, v uint64) {
	if v == uint64(int64(int32(v))) {
		t.MovMI(8, m, v)
		return
	}
	t.MovImm(emit.CX, v)
	t.MovMR(8, m, emit.CX)
}
