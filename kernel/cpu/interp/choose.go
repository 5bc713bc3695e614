package interp

import (
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
	"github.com/kprobefs/kprobefs/kernel/mem"
)

// A Handler executes an op, and returns the op to go on with, or nil, and then CPU.br says why.
type Handler = func(*CPU, *Op) *Op

// unlinked is where a branch leads that was never taken: never entered, as no
// budget is enough for it.
var unlinked = Op{Inst: decode.Inst{Disp: dead}}

// choose picks the handler of o: one of its own if it is what kernels are made of, direct
// if it cannot fault, else general.
func choose(o *Op) Handler {
	op := &operations[o.Code]
	switch {
	case op.locked != nil && isLocked(o):
		return op.locked
	case op.fast != nil && o.Flags&(decode.Locked|decode.Addr32|decode.VEX) == 0:
		if f := op.fast(o); f != nil {
			return f
		}
	}
	if safe(o) {
		return direct
	}
	return general
}

// isLocked says whether o is an atomic instruction on memory of 32 or 64 bits; xchg is one
// without LOCK, too.
func isLocked(o *Op) bool {
	return o.W >= 4 && o.Form&decode.DstMem != 0 && o.Flags&decode.Addr32 == 0 &&
		(o.Flags&decode.Locked != 0 || o.Code == decode.XCHG)
}

// always picks h for each form.
func always(h Handler) func(*Op) Handler { return func(*Op) Handler { return h } }

// when picks as fast does if a condition holds.
func when(is func(*Op) bool, fast func(*Op) Handler) func(*Op) Handler {
	return func(o *Op) Handler {
		if !is(o) {
			return nil
		}
		return fast(o)
	}
}

// registers picks as fast does for registers of 32 and 64 bits.
func registers(fast func(*Op) Handler) func(*Op) Handler {
	return when(func(o *Op) bool { return o.Form&decode.HasMem == 0 && o.W >= 4 }, fast)
}

// words picks as fast does for 64 bits.
func words(fast func(*Op) Handler) func(*Op) Handler {
	return when(func(o *Op) bool { return o.W == 8 }, fast)
}

// withoutMemory picks h if there is no operand in memory.
func withoutMemory(h Handler) func(*Op) Handler {
	return when(func(o *Op) bool { return o.Form&decode.HasMem == 0 }, always(h))
}

// wide picks h for 32 and 64 bits.
func wide(h Handler) func(*Op) Handler {
	return when(func(o *Op) bool { return o.W >= 4 }, always(h))
}

// byWidth picks a handler for 32 bits and one for 64.
func byWidth(h32, h64 Handler) func(*Op) Handler {
	return func(o *Op) Handler { return [2]Handler{h32, h64}[o.W>>3] }
}

func fastBranch(o *Op) Handler {
	switch {
	case o.Form&decode.Indirect == 0 && !mem.Canonical(o.Imm), o.Form&decode.SrcMem != 0:
		return general
	case o.Code == decode.JCC:
		switch o.A {
		case 4:
			return je
		case 5:
			return jne
		}
		return jcc
	case o.Code == decode.CALL && o.Form&decode.Indirect != 0:
		return callReg
	case o.Code == decode.CALL:
		return call
	case o.Form&decode.Indirect != 0:
		return jmpReg
	}
	return jmp
}

func fastInt(o *Op) Handler {
	if o.Imm == abi.VecBP {
		return int3
	}
	return exits
}

func fastMov(o *Op) Handler {
	switch {
	case o.Form&decode.DstMem != 0:
		return store
	case o.Form&decode.SrcMem != 0:
		return load
	case o.W < 4:
		return nil
	case o.Form&decode.SrcImm != 0:
		return moveImm
	}
	return move
}

func fastExtend(o *Op) Handler {
	if o.Form&decode.SrcMem != 0 {
		return extendLoad
	}
	return extend
}

func fastSetcc(o *Op) Handler {
	if o.Form&decode.DstMem != 0 {
		return nil
	}
	return setcc
}

// fastALU picks onRegisters for registers of 32 and 64 bits.
func fastALU(onRegisters Handler) func(*Op) Handler {
	return func(o *Op) Handler {
		switch {
		case o.Form&decode.SrcMem != 0:
			return aluLoad
		case o.Form&decode.DstMem == 0 && o.W < 4:
			return nil
		case o.Form&decode.DstMem == 0:
			return onRegisters
		case o.Code == decode.CMP || o.Code == decode.TEST:
			return aluCompare
		}
		return aluStore
	}
}

// fastRotate is for rol and ror by an immediate that is not 0.
func fastRotate(o *Op) Handler {
	if o.Form&decode.SrcImm == 0 || o.Imm == 0 {
		return nil
	}
	return rotateImm
}

// safe says whether exec cannot throw on o.
func safe(o *Op) bool {
	return (o.Form&decode.HasMem == 0 || o.Code == decode.LEA) && !decode.PropertiesOf(o.Code).Faults
}
