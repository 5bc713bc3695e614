#include "textflag.h"
#include "go_asm.h"

// func enter(c *core.CPU, code uintptr) uint64
// Enters translated code with the guest's registers where translate.go
// has them, and puts them back. The frame makes the assembler save BP.
TEXT ·enter(SB), NOSPLIT, $8-24
	MOVQ c+0(FP), AX
	MOVQ code+8(FP), CX
	MOVQ AX, BP
	MOVQ const_leftOffset(BP), R14
	MOVQ 0(BP), BX
	MOVQ 8(BP), SI
	MOVQ 16(BP), DI
	MOVQ 24(BP), R8
	MOVQ 32(BP), R9
	MOVQ 40(BP), R10
	MOVQ 48(BP), R11
	MOVQ 56(BP), R12
	MOVQ 64(BP), R13
	MOVQ 72(BP), R15
	CALL CX
	MOVQ BX, 0(BP)
	MOVQ SI, 8(BP)
	MOVQ DI, 16(BP)
	MOVQ R8, 24(BP)
	MOVQ R9, 32(BP)
	MOVQ R10, 40(BP)
	MOVQ R11, 48(BP)
	MOVQ R12, 56(BP)
	MOVQ R13, 64(BP)
	MOVQ R15, 72(BP)
	MOVQ R14, const_leftOffset(BP)
	MOVQ AX, ret+16(FP)
	RET
