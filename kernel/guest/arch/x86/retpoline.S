/* retpoline.S: indirect calls and jumps by ret, so that their targets are not
 * predicted. */
#include <linux/linkage.h>
	.section __indirect_thunk, "ax"
.macro THUNK reg
	.p2align 5, 0xcc
	.globl __x86_indirect_thunk_\reg
	.type __x86_indirect_thunk_\reg, @function
__x86_indirect_thunk_\reg:
	.cfi_startproc
	call	.Ldo_rop_\@
.Lspec_trap_\@:
	pause
	lfence
	jmp	.Lspec_trap_\@
.Ldo_rop_\@:
	.cfi_adjust_cfa_offset 8
	movq	%\reg, (%rsp)
	ret
	.cfi_endproc
	.size __x86_indirect_thunk_\reg, . - __x86_indirect_thunk_\reg
	_ASM_NOKPROBE __x86_indirect_thunk_\reg
	.pushsection __ksymtab_strings, "a"
	.asciz "__x86_indirect_thunk_\reg"
	.popsection
.endm
/* The first one has this name too: the thunks are an array. */
	.p2align 5, 0xcc
	.globl __x86_indirect_thunk_array
__x86_indirect_thunk_array:
	THUNK rax
	THUNK rcx
	THUNK rdx
	THUNK rbx
	THUNK rbp
	THUNK rsi
	THUNK rdi
	THUNK r8
	THUNK r9
	THUNK r10
	THUNK r11
	THUNK r12
	THUNK r13
	THUNK r14
	THUNK r15
/* Where functions of modules are compiled to end. The loader makes returns of the jumps. */
	.text
SYM_CODE_START __x86_return_thunk
	ret
	int3
SYM_FUNC_END __x86_return_thunk
EXPORT_SYMBOL __x86_return_thunk
	.section .note.GNU-stack,"",@progbits
