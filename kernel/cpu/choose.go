package cpu

import (
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/mem"
)

// A handler executes an op, and returns the op to go on with; nil: CPU.br says why.
type handler = func(*CPU, *op) *op

// unlinked is where a branch leads that was never taken: never entered, as no
// budget is enough for it.
var unlinked = op{disp: dead}

// choose picks the handler of o: one of its own if it is what kernels are made of, direct
// if it cannot fault, else general.
func choose(o *op) handler {
	if f := chooseLocked(o); f != nil {
		return f
	}
	if o.flags&(locked|addr32|vex) == 0 {
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
func chooseFlow(o *op) handler {
	switch o.code {
	case cJCC, cJMP, cFETCH, cCALL:
		return chooseBranch(o)
	case cRET:
		return ret
	case cVMCALL:
		return vmcall
	case cINT, cHLT, cPAUSE:
		if o.code == cINT && o.imm == abi.VecBP {
			return int3
		}
		return exits
	case cCLI:
		return cli
	case cSTI:
		return sti
	}
	if o.w != 8 {
		return nil
	}
	switch o.code {
	case cPUSH:
		if o.form&hasMem == 0 {
			return push
		}
	case cPOP:
		if o.form&hasMem == 0 {
			return pop
		}
	case cPUSHF:
		return pushf
	case cPOPF:
		return popf
	case cLEAVE:
		return leave
	}
	return nil
}

func chooseBranch(o *op) handler {
	switch {
	case o.form&indirect == 0 && !mem.Canonical(o.imm), o.form&srcMem != 0:
		return general
	case o.code == cJCC:
		switch o.a {
		case 4:
			return je
		case 5:
			return jne
		}
		return jcc
	case o.code == cCALL && o.form&indirect != 0:
		return callReg
	case o.code == cCALL:
		return call
	case o.form&indirect != 0:
		return jmpReg
	}
	return jmp
}

// chooseData is choose for what computes and moves.
func chooseData(o *op) handler {
	switch o.code {
	case cNOP:
		return nop
	case cMOV, cMOVZX, cMOVSX, cLEA:
		return chooseMove(o)
	case cADD, cOR, cAND, cSUB, cXOR, cCMP, cTEST:
		switch {
		case o.form&srcMem != 0:
			return aluLoad
		case o.form&dstMem == 0:
			return aluReg(o)
		case o.code == cCMP || o.code == cTEST:
			return aluCompare
		}
		return aluStore
	case cSETCC:
		if o.form&dstMem == 0 {
			return setcc
		}
	}
	if o.form&hasMem == 0 && o.w >= 4 {
		return chooseWide(o)
	}
	return nil
}

func chooseMove(o *op) handler {
	switch {
	case o.code == cLEA:
		if o.w >= 4 {
			return lea
		}
		return nil
	case o.code != cMOV:
		if o.form&srcMem != 0 {
			return extendLoad
		}
		return extend
	case o.form&dstMem != 0:
		return store
	case o.form&srcMem != 0:
		return load
	case o.w < 4:
		return nil
	case o.form&srcImm != 0:
		return moveImm
	}
	return move
}

// aluReg is the handler of arithmetic on registers of the usual widths.
func aluReg(o *op) handler {
	if o.w < 4 {
		return nil
	}
	switch o.code {
	case cADD:
		return add
	case cSUB:
		return sub
	case cCMP:
		return cmp
	}
	return logic
}

// chooseWide is choose for what has registers of 32 and 64 bits only.
func chooseWide(o *op) handler {
	switch o.code {
	case cCBW:
		if o.w == 8 {
			return cdqe
		}
	case cSHL, cSAL, cSHR, cSAR:
		return shift
	case cIMUL:
		return [2]handler{imul32, imul64}[o.w>>3]
	case cCMOV:
		return [2]handler{cmov32, cmov64}[o.w>>3]
	case cINC, cDEC:
		return incDec
	case cNEG:
		return neg
	case cNOT:
		return not
	case cBT:
		return bt
	case cROL, cROR:
		if o.form&srcImm != 0 && o.imm != 0 {
			return rotateImm
		}
	case cBSF, cBSR, cTZCNT, cLZCNT:
		return scanBits
	case cADC, cSBB:
		return carried
	}
	return nil
}

// safe says whether exec cannot throw on o.
func safe(o *op) bool {
	if o.form&hasMem != 0 && o.code != cLEA {
		return false
	}
	switch o.code {
	case cPUSH, cPOP, cPUSHF, cPOPF, cLEAVE, cENTER, cDIV, cIDIV, cXLAT:
		return false
	case cCLI, cSTI, cCLAC, cSTAC, cRDTSC, cHLT, cPAUSE, cVMCALL, cINT:
		return true
	case cANDN, cBEXTR, cBZHI, cBLSR, cBLSMSK, cBLSI, cPDEP, cPEXT, cMULX, cRORX, cSHLX, cSHRX, cSARX, cADCX, cADOX:
		return true
	}
	return o.code < cJMP || o.code > cSETCC && o.code < cCLI || o.code == cSETCC || o.code == cCMOV
}
