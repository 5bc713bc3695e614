package native

import (
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
	"github.com/kprobefs/kprobefs/kernel/mem"
)

// An emitter translates instruction i, which is o.
type emitter func(t *translator, i int, o *decode.Inst)

// A form is how the instructions of a code are translated.
type form struct {
	emit emitter
	when func(*decode.Inst) bool // whether emit can translate it; nil means that it always can

	// leaves means that the code can be left at the instruction even if it has no operand in
	// memory, so that the flags before it are needed.
	leaves bool

	// locked translates atomic forms of 32 and 64 bits that change memory.
	locked     emitter
	lockedWhen func(*decode.Inst) bool // as when
	unlocked   bool                    // locked is for the same without LOCK, too
}

// forms are the codes that are translated; the interpreter executes the others.
var forms = [decode.Codes + 1]form{
	// Moves.
	decode.MOV:   {emit: (*translator).mov},
	decode.MOVZX: {emit: (*translator).extend, when: wide},
	decode.MOVSX: {emit: (*translator).extend, when: wide},
	decode.LEA:   {emit: (*translator).lea, when: wide},
	decode.XCHG:  {emit: (*translator).xchgReg, when: wideRegisters, locked: (*translator).xchg, unlocked: true},
	decode.BSWAP: {emit: (*translator).bswap, when: wide},
	decode.CMOV:  {emit: (*translator).cmov, when: wide},
	decode.SETCC: {emit: (*translator).setcc},
	decode.CBW:   {emit: (*translator).cbw, when: wide},
	decode.CWD:   {emit: (*translator).cwd, when: wide},
	decode.NOP:   {emit: func(*translator, int, *decode.Inst) {}},

	// Arithmetic and logic.
	decode.ADD:     {emit: (*translator).alu, locked: (*translator).lockedALU},
	decode.OR:      {emit: (*translator).alu, locked: (*translator).lockedALU},
	decode.ADC:     {emit: (*translator).alu, when: toRegister},
	decode.SBB:     {emit: (*translator).alu, when: toRegister},
	decode.AND:     {emit: (*translator).alu, locked: (*translator).lockedALU},
	decode.SUB:     {emit: (*translator).alu, locked: (*translator).lockedALU},
	decode.XOR:     {emit: (*translator).alu, locked: (*translator).lockedALU},
	decode.CMP:     {emit: (*translator).alu},
	decode.TEST:    {emit: (*translator).alu},
	decode.INC:     {emit: (*translator).unary, locked: (*translator).unary},
	decode.DEC:     {emit: (*translator).unary, locked: (*translator).unary},
	decode.NOT:     {emit: (*translator).unary, locked: (*translator).unary},
	decode.NEG:     {emit: (*translator).unary, locked: (*translator).unary},
	decode.MUL:     {emit: (*translator).mul, when: wide},
	decode.IMUL1:   {emit: (*translator).mul, when: wide},
	decode.IMUL:    {emit: (*translator).imul, when: wide},
	decode.DIV:     {emit: (*translator).div, leaves: true, when: wideRegisters},
	decode.XADD:    {locked: (*translator).xadd, unlocked: true},
	decode.CMPXCHG: {locked: (*translator).cmpxchg, unlocked: true},

	// Shifts and bits.
	decode.ROL:    {emit: (*translator).rotate, when: byImmediate},
	decode.ROR:    {emit: (*translator).rotate, when: byImmediate},
	decode.SHL:    {emit: (*translator).shift, when: wideRegisters},
	decode.SHR:    {emit: (*translator).shift, when: wideRegisters},
	decode.SAL:    {emit: (*translator).shift, when: wideRegisters},
	decode.SAR:    {emit: (*translator).shift, when: wideRegisters},
	decode.BT:     {emit: (*translator).bitTest, when: wideRegisters},
	decode.BTS:    {emit: (*translator).bitTest, when: wideRegisters, locked: (*translator).lockedBit, lockedWhen: hasImmediate},
	decode.BTR:    {emit: (*translator).bitTest, when: wideRegisters, locked: (*translator).lockedBit, lockedWhen: hasImmediate},
	decode.BTC:    {emit: (*translator).bitTest, when: wideRegisters, locked: (*translator).lockedBit, lockedWhen: hasImmediate},
	decode.POPCNT: {emit: (*translator).popcnt, when: wide},

	// The stack.
	decode.PUSH:  {emit: (*translator).push, leaves: true, when: words},
	decode.POP:   {emit: (*translator).pop, leaves: true, when: wordsToRegister},
	decode.PUSHF: {emit: (*translator).pushf, leaves: true, when: words},
	decode.POPF:  {emit: (*translator).popf, leaves: true, when: words},
	decode.LEAVE: {emit: (*translator).leaveFrame, leaves: true, when: words},

	// Branches.
	decode.JMP:   {emit: (*translator).jmpAny, leaves: true, when: goesSomewhere},
	decode.JCC:   {emit: (*translator).jcc, leaves: true, when: goesSomewhere},
	decode.CALL:  {emit: (*translator).callAny, leaves: true, when: goesSomewhere},
	decode.RET:   {emit: (*translator).ret, leaves: true},
	decode.FETCH: {emit: (*translator).jmp, leaves: true, when: goesSomewhere},

	// What others answer, and flags.
	decode.VMCALL: {emit: (*translator).event, leaves: true},
	decode.INT:    {emit: (*translator).event, leaves: true, when: func(o *decode.Inst) bool { return o.Imm == abi.VecBP }},
	decode.CLD:    {emit: (*translator).cld},
	decode.CLI:    {emit: (*translator).cli},
}

// What form.when asks.
func wide(o *decode.Inst) bool            { return o.W >= 4 }
func words(o *decode.Inst) bool           { return o.W == 8 }
func toRegister(o *decode.Inst) bool      { return o.Form&decode.DstMem == 0 }
func wordsToRegister(o *decode.Inst) bool { return words(o) && toRegister(o) }
func wideRegisters(o *decode.Inst) bool   { return wide(o) && o.Form&decode.HasMem == 0 }
func hasImmediate(o *decode.Inst) bool    { return o.Form&decode.SrcImm != 0 }
func byImmediate(o *decode.Inst) bool     { return wideRegisters(o) && hasImmediate(o) && o.Imm != 0 }

// goesSomewhere says whether a branch's target is an address, or is not known yet.
func goesSomewhere(o *decode.Inst) bool {
	return o.Form&decode.Indirect != 0 || mem.Canonical(o.Imm)
}

// Translatable says whether translated code can execute o.
func Translatable(o *decode.Inst) bool { return formOf(o) != nil }

// formOf returns how o is translated, or nil if the interpreter executes it.
func formOf(o *decode.Inst) emitter {
	if o.Flags&(decode.Addr32|decode.VEX) != 0 || o.A >= decode.RegHigh || o.B >= decode.RegHigh {
		return nil
	}
	f := &forms[o.Code]
	if o.Flags&decode.Locked == 0 && f.emit != nil && (f.when == nil || f.when(o)) {
		return f.emit
	}
	if (o.Flags&decode.Locked != 0 || f.unlocked) && wide(o) && o.Form&decode.DstMem != 0 &&
		(f.lockedWhen == nil || f.lockedWhen(o)) {
		return f.locked
	}
	return nil
}
