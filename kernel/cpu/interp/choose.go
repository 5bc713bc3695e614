package interp

import (
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
	"github.com/kprobefs/kprobefs/kernel/mem"
)

// A Handler executes an op, and returns the op to go on with; nil: CPU.br says why.
type Handler = func(*CPU, *Op) *Op

// unlinked is where a branch leads that was never taken: never entered, as no
// budget is enough for it.
var unlinked = Op{Inst: decode.Inst{Disp: dead}}

// choose picks the handler of o: one of its own if it is what kernels are made of, direct
// if it cannot fault, else general.
func choose(o *Op) Handler {
	if f := chooseLocked(o); f != nil {
		return f
	}
	if o.Flags&(decode.Locked|decode.Addr32|decode.VEX) == 0 {
		if f := chooseFlow(o); f != nil {
			return f
		}
		if f := chooseData(o); f != nil {
			return f
		}
	}
	if safe(o) {
		return direct
	}
	return general
}

// chooseFlow is choose for what changes RIP, the stack or interrupts.
func chooseFlow(o *Op) Handler {
	switch o.Code {
	case decode.JCC, decode.JMP, decode.FETCH, decode.CALL:
		return chooseBranch(o)
	case decode.RET:
		return ret
	case decode.VMCALL:
		return vmcall
	case decode.INT, decode.HLT, decode.PAUSE:
		if o.Code == decode.INT && o.Imm == abi.VecBP {
			return int3
		}
		return exits
	case decode.CLI:
		return cli
	case decode.STI:
		return sti
	}
	if o.W != 8 {
		return nil
	}
	switch o.Code {
	case decode.PUSH:
		if o.Form&decode.HasMem == 0 {
			return push
		}
	case decode.POP:
		if o.Form&decode.HasMem == 0 {
			return pop
		}
	case decode.PUSHF:
		return pushf
	case decode.POPF:
		return popf
	case decode.LEAVE:
		return leave
	}
	return nil
}

func chooseBranch(o *Op) Handler {
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

// chooseData is choose for what computes and moves.
func chooseData(o *Op) Handler {
	switch o.Code {
	case decode.NOP:
		return nop
	case decode.MOV, decode.MOVZX, decode.MOVSX, decode.LEA:
		return chooseMove(o)
	case decode.ADD, decode.OR, decode.AND, decode.SUB, decode.XOR, decode.CMP, decode.TEST:
		switch {
		case o.Form&decode.SrcMem != 0:
			return aluLoad
		case o.Form&decode.DstMem == 0:
			return aluReg(o)
		case o.Code == decode.CMP || o.Code == decode.TEST:
			return aluCompare
		}
		return aluStore
	case decode.SETCC:
		if o.Form&decode.DstMem == 0 {
			return setcc
		}
	}
	if o.Form&decode.HasMem == 0 && o.W >= 4 {
		return chooseWide(o)
	}
	return nil
}

func chooseMove(o *Op) Handler {
	switch {
	case o.Code == decode.LEA:
		if o.W >= 4 {
			return lea
		}
		return nil
	case o.Code != decode.MOV:
		if o.Form&decode.SrcMem != 0 {
			return extendLoad
		}
		return extend
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

// aluReg is the handler of arithmetic on registers of the usual widths.
func aluReg(o *Op) Handler {
	if o.W < 4 {
		return nil
	}
	switch o.Code {
	case decode.ADD:
		return add
	case decode.SUB:
		return sub
	case decode.CMP:
		return cmp
	}
	return logic
}

// chooseWide is choose for what has registers of 32 and 64 bits only.
func chooseWide(o *Op) Handler {
	switch o.Code {
	case decode.CBW:
		if o.W == 8 {
			return cdqe
		}
	case decode.SHL, decode.SAL, decode.SHR, decode.SAR:
		return shift
	case decode.IMUL:
		return [2]Handler{imul32, imul64}[o.W>>3]
	case decode.CMOV:
		return [2]Handler{cmov32, cmov64}[o.W>>3]
	case decode.INC, decode.DEC:
		return incDec
	case decode.NEG:
		return neg
	case decode.NOT:
		return not
	case decode.BT:
		return bt
	case decode.ROL, decode.ROR:
		if o.Form&decode.SrcImm != 0 && o.Imm != 0 {
			return rotateImm
		}
	case decode.BSF, decode.BSR, decode.TZCNT, decode.LZCNT:
		return scanBits
	case decode.ADC, decode.SBB:
		return carried
	}
	return nil
}

// safe says whether exec cannot throw on o.
func safe(o *Op) bool {
	return (o.Form&decode.HasMem == 0 || o.Code == decode.LEA) && !decode.PropertiesOf(o.Code).Faults
}
