package bpf

// An op is an instruction as it is executed: what does not change from one run to the next was looked at once, when the
// program was loaded. A program has one for each instruction, so a place in one is the same place in the other; for the
// second half of a 64-bit immediate load it is none.
type op struct {
	do       action
	dst, src uint8
	fromReg  bool // the second operand is the register src rather than imm
	size     uint8
	to       int32 // where a jump or a call leads; of a load or store: what is added to the address, or the place on the stack
	length   int32 // of the function that begins here, in instructions
	imm      uint64
	helper   func(r *run, a *[numArgs]uint64) uint64
	insn     insn
}

// action is what an op does.
type action uint8

const (
	doNothing action = iota // what is no instruction
	doMov
	doWide // a 64-bit immediate, which takes two instructions
	doAdd
	doALU64
	doALU32
	doEqual
	doNotEqual
	doJump
	doAlways
	doLoad
	doLoadStack // at a place that is known
	doStore
	doStoreStack
	doAtomic
	doHelper
	doTailCall
	doCall
	doExit
	doSigned     // arithmetic, or a move, that heeds a sign
	doSwap       // of bytes
	doLoadSigned // a load that extends the sign
)

// translate makes the ops of a program that was verified; starts are where its functions begin, in order.
func (p *Prog) translate(starts []int) {
	p.ops = make([]op, len(p.insns))
	for n := range p.ops {
		p.ops[n].to = -1 // of what is no instruction
	}
	for n := 0; n < len(p.insns); n++ {
		p.ops[n] = p.op(n)
		if p.insns[n].wideLoad() {
			n++
		}
	}
	for n, at := range starts {
		end := len(p.ops)
		if n+1 < len(starts) {
			end = starts[n+1]
		}
		p.ops[at].length = int32(end - at)
	}
}

// op makes the op of an instruction.
func (p *Prog) op(n int) op {
	i := p.insns[n]
	o := op{dst: i.dst, src: i.src, fromReg: i.fromRegister(), size: uint8(i.size()), to: int32(i.off), imm: uint64(int64(i.imm)), insn: i}
	switch i.class() {
	case classALU64:
		switch op := i.op(); {
		case i.off != 0:
			o.do = doSigned
		case op == aluEND:
			o.do = doSwap
		case op == aluMOV:
			o.do = doMov
		case op == aluADD:
			o.do = doAdd
		default:
			o.do = doALU64
		}
	case classALU:
		o.do = doALU32
		if i.off != 0 {
			o.do = doSigned
		}
	case classJMP, classJMP32:
		o.to = int32(n + 1 + i.distance())
		o.do = doJump
		switch {
		case i.op() == jmpCALL:
			o.call(i, n)
		case i.op() == jmpEXIT:
			o.do = doExit
		case i.op() == jmpJA:
			o.do = doAlways
		case i.code&^srcX == classJMP|jmpJEQ:
			o.do = doEqual
		case i.code&^srcX == classJMP|jmpJNE:
			o.do = doNotEqual
		}
	case classLDX:
		o.do = doLoad
		if i.mode() == modeMEMSX {
			o.do = doLoadSigned
		} else {
			o.onStack(doLoadStack, i.src)
		}
	case classST, classSTX:
		o.do, o.fromReg = doStore, i.class() == classSTX
		if i.class() == classSTX && i.mode() == modeAtomic {
			o.do = doAtomic
		} else {
			o.onStack(doStoreStack, i.dst)
		}
	default: // a 64-bit immediate: its value was put together by the verifier
		o.do, o.fromReg, o.imm = doWide, false, p.wide[n]
	}
	return o
}

// call says what is called.
func (o *op) call(i insn, n int) {
	h := helpers[i.imm]
	switch {
	case i.src == pseudoCall:
		o.do, o.to = doCall, int32(n+1+int(i.imm))
	case i.imm == helperTailCall:
		o.do = doTailCall
	case h != nil && i.src == 0:
		o.do, o.helper = doHelper, h.do
	default:
		o.do, o.to = doNothing, -1
	}
}

// onStack has a load or store by the frame pointer know its place.
func (o *op) onStack(do action, base uint8) {
	if base == r10 && o.to >= -stackSize && o.to+int32(o.size) <= 0 {
		o.do, o.to = do, o.to+stackSize
	}
}
