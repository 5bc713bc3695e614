package native

import (
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
	"github.com/kprobefs/kprobefs/kernel/mem"
)

// An emitter translates instruction i, which is o.
type emitter func(t *translator, i int, o *decode.Inst)

// Translatable says whether translated code can execute o.
func Translatable(o *decode.Inst) bool { return formOf(o) != nil }

// formOf returns how o is translated, or nil if the interpreter executes it.
func formOf(o *decode.Inst) emitter {
	if o.Flags&(decode.Addr32|decode.VEX) != 0 || o.A >= decode.RegHigh || o.B >= decode.RegHigh {
		return nil
	}
	if o.Flags&decode.Locked != 0 || o.Code == decode.XCHG && o.Form&decode.DstMem != 0 || o.Code == decode.CMPXCHG || o.Code == decode.XADD {
		return lockedTranslation(o)
	}
	switch o.Code {
	case decode.NOP:
		return func(*translator, int, *decode.Inst) {}
	case decode.MOV:
		return (*translator).mov
	case decode.MOVZX, decode.MOVSX:
		if o.W >= 4 {
			return (*translator).extend
		}
	case decode.LEA:
		if o.W >= 4 {
			return (*translator).lea
		}
	case decode.ADD, decode.OR, decode.AND, decode.SUB, decode.XOR, decode.CMP, decode.TEST:
		return (*translator).alu
	case decode.ADC, decode.SBB:
		if o.Form&decode.DstMem == 0 {
			return (*translator).alu
		}
	case decode.INC, decode.DEC, decode.NEG, decode.NOT:
		return (*translator).unary
	case decode.SHL, decode.SAL, decode.SHR, decode.SAR:
		if o.Form&decode.DstMem == 0 && o.W >= 4 {
			if o.Form&decode.ByCL != 0 {
				return (*translator).shiftCL
			}
			return (*translator).shift
		}
	case decode.ROL, decode.ROR:
		if o.Form&decode.DstMem == 0 && o.W >= 4 && o.Form&decode.SrcImm != 0 && o.Imm != 0 {
			return (*translator).rotate
		}
	case decode.IMUL:
		if o.W >= 4 {
			return (*translator).imul
		}
	case decode.MUL, decode.IMUL1:
		if o.W >= 4 {
			return (*translator).mul
		}
	case decode.DIV:
		if o.W >= 4 && o.Form&decode.HasMem == 0 {
			return (*translator).div
		}
	case decode.BT, decode.BTS, decode.BTR, decode.BTC:
		if o.Form&decode.HasMem == 0 && o.W >= 4 {
			return (*translator).bitTest
		}
	case decode.POPCNT:
		if o.W >= 4 {
			return (*translator).popcnt
		}
	case decode.BSWAP:
		if o.W >= 4 {
			return (*translator).bswap
		}
	case decode.CBW:
		if o.W >= 4 {
			return (*translator).cbw
		}
	case decode.CWD:
		if o.W >= 4 {
			return (*translator).cwd
		}
	case decode.SETCC:
		return (*translator).setcc
	case decode.CMOV:
		if o.W >= 4 {
			return (*translator).cmov
		}
	case decode.XCHG:
		if o.W >= 4 {
			return (*translator).xchgReg
		}
	case decode.PUSH, decode.POP, decode.PUSHF, decode.POPF, decode.LEAVE:
		return stackForm(o)
	case decode.CLD:
		return (*translator).cld
	case decode.CLI:
		return (*translator).cli
	case decode.JMP, decode.JCC, decode.CALL, decode.RET, decode.FETCH:
		return branchForm(o)
	case decode.VMCALL:
		return (*translator).event
	case decode.INT:
		if o.Imm == abi.VecBP {
			return (*translator).event
		}
	}
	return nil
}

func stackForm(o *decode.Inst) emitter {
	if o.W != 8 {
		return nil
	}
	switch o.Code {
	case decode.PUSH:
		return (*translator).push
	case decode.POP:
		if o.Form&decode.DstMem == 0 {
			return (*translator).pop
		}
	case decode.PUSHF:
		return (*translator).pushf
	case decode.POPF:
		return (*translator).popf
	case decode.LEAVE:
		return (*translator).leaveFrame
	}
	return nil
}

func branchForm(o *decode.Inst) emitter {
	if o.Form&decode.Indirect == 0 && o.Code != decode.RET && !mem.Canonical(o.Imm) {
		return nil
	}
	switch o.Code {
	case decode.JCC:
		return (*translator).jcc
	case decode.JMP, decode.FETCH:
		if o.Form&decode.Indirect != 0 {
			return (*translator).jmpTo
		}
		return (*translator).jmp
	case decode.CALL:
		if o.Form&decode.Indirect != 0 {
			return (*translator).callTo
		}
		return (*translator).call
	}
	return (*translator).ret
}

// lockedTranslation is formOf for what LOCK may stand before.
func lockedTranslation(o *decode.Inst) emitter {
	if o.W < 4 || o.Form&decode.DstMem == 0 {
		return nil
	}
	switch o.Code {
	case decode.ADD, decode.SUB, decode.AND, decode.OR, decode.XOR:
		return (*translator).lockedALU
	case decode.INC, decode.DEC, decode.NEG, decode.NOT:
		return (*translator).unary
	case decode.XCHG:
		return (*translator).xchg
	case decode.XADD:
		return (*translator).xadd
	case decode.CMPXCHG:
		return (*translator).cmpxchg
	case decode.BTS, decode.BTR, decode.BTC:
		if o.Form&decode.SrcImm != 0 {
			return (*translator).lockedBit
		}
	}
	return nil
}
