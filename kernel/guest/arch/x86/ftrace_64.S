/*
 * ftrace_64.S: the trampolines that armed fentry sites call, and the rethook
 * trampoline that hooked functions return to.
 */
#include <linux/linkage.h>
#include <asm/ptrace.h>
	.text
/* What functions of modules are compiled to call first. The loader makes nops of the calls. */
SYM_FUNC_START __fentry__
	ret
SYM_FUNC_END __fentry__
EXPORT_SYMBOL __fentry__

.macro SAVE_TO_FRAME
	movq	%r15, 0(%rsp)
	movq	%r14, 8(%rsp)
	movq	%r13, 16(%rsp)
	movq	%r12, 24(%rsp)
	movq	%rbp, 32(%rsp)
	movq	%rbx, 40(%rsp)
	movq	%r11, 48(%rsp)
	movq	%r10, 56(%rsp)
	movq	%r9, 64(%rsp)
	movq	%r8, 72(%rsp)
	movq	%rax, 80(%rsp)
	movq	%rcx, 88(%rsp)
	movq	%rdx, 96(%rsp)
	movq	%rsi, 104(%rsp)
	movq	%rdi, 112(%rsp)
.endm
.macro RESTORE_FROM_FRAME
	movq	0(%rsp), %r15
	movq	8(%rsp), %r14
	movq	16(%rsp), %r13
	movq	24(%rsp), %r12
	movq	32(%rsp), %rbp
	movq	40(%rsp), %rbx
	movq	48(%rsp), %r11
	movq	56(%rsp), %r10
	movq	64(%rsp), %r9
	movq	72(%rsp), %r8
	movq	80(%rsp), %rax
	movq	88(%rsp), %rcx
	movq	96(%rsp), %rdx
	movq	104(%rsp), %rsi
	movq	112(%rsp), %rdi
.endm

/*
 * Called by an armed fentry site: (rsp) is the site plus five, 8(rsp) the function's
 * return address. Continues at regs->ip. ftrace_regs_caller is kprobes'; a site
 * with a single listener calls a copy of one of these functions.
 */
.macro SAVE_REGS_TO_FRAME
	pushfq
	.cfi_adjust_cfa_offset 8
	subq	$PT_SIZE, %rsp
	.cfi_adjust_cfa_offset PT_SIZE
	SAVE_TO_FRAME
	movq	PT_SIZE(%rsp), %rax
	movq	%rax, PT_FLAGS(%rsp)
	leaq	PT_SIZE + 16(%rsp), %rax
	movq	%rax, PT_SP(%rsp)
	movq	$__KERNEL_CS, PT_CS(%rsp)
	movq	$__KERNEL_DS, PT_SS(%rsp)
	movq	$0, PT_ORIG_AX(%rsp)
	movq	PT_SIZE + 8(%rsp), %rdi
.endm
.macro RESTORE_REGS_FROM_FRAME
	movq	PT_IP(%rsp), %rax
	movq	%rax, PT_SIZE + 8(%rsp)
	movq	PT_FLAGS(%rsp), %rax
	movq	%rax, PT_SIZE(%rsp)
	RESTORE_FROM_FRAME
	addq	$PT_SIZE, %rsp
	.cfi_adjust_cfa_offset -PT_SIZE
	popfq
	.cfi_adjust_cfa_offset -8
.endm
SYM_FUNC_START ftrace_regs_caller
	.cfi_startproc
	SAVE_REGS_TO_FRAME
	subq	$5, %rdi
	movq	%rdi, PT_IP(%rsp)
	movq	PT_SIZE + 16(%rsp), %rsi
	movq	%rsp, %rdx
	cld
	.globl ftrace_regs_call
ftrace_regs_call:
	call	kprobe_ftrace_handler
	RESTORE_REGS_FROM_FRAME
	.globl ftrace_regs_caller_end
ftrace_regs_caller_end:
	ret
	.cfi_endproc
SYM_FUNC_END ftrace_regs_caller

/*
 * The same where functions of modules listen: regs->ip is the site's end, and the
 * function gets its ftrace_ops. Copies have the address of that behind them.
 */
SYM_FUNC_START ftrace_ops_regs_caller
	.cfi_startproc
	SAVE_REGS_TO_FRAME
	movq	%rdi, PT_IP(%rsp)
	subq	$5, %rdi
	movq	PT_SIZE + 16(%rsp), %rsi
	.globl ftrace_ops_regs_op
ftrace_ops_regs_op:
	movq	function_trace_op(%rip), %rdx
	movq	%rsp, %rcx
	cld
	.globl ftrace_ops_regs_call
ftrace_ops_regs_call:
	call	arch_ftrace_ops_list_func
	RESTORE_REGS_FROM_FRAME
	.globl ftrace_ops_regs_caller_end
ftrace_ops_regs_caller_end:
	ret
	.cfi_endproc
SYM_FUNC_END ftrace_ops_regs_caller

/*
 * The same for listeners that do not need all registers: only caller-saved ones and rbp
 * are saved, at their offsets in pt_regs. cs is 0: so ftrace_get_regs knows. A site with
 * a single listener calls a copy in which the call at ftrace_call goes to the listener's
 * function.
 */
SYM_FUNC_START ftrace_caller
	.cfi_startproc
	subq	$PT_SIZE, %rsp
	.cfi_adjust_cfa_offset PT_SIZE
	movq	%rbp, 32(%rsp)
	movq	%r11, 48(%rsp)
	movq	%r10, 56(%rsp)
	movq	%r9, 64(%rsp)
	movq	%r8, 72(%rsp)
	movq	%rax, 80(%rsp)
	movq	%rcx, 88(%rsp)
	movq	%rdx, 96(%rsp)
	movq	%rsi, 104(%rsp)
	movq	%rdi, 112(%rsp)
	movq	$0, PT_CS(%rsp)
	leaq	PT_SIZE + 8(%rsp), %rsi
	movq	%rsi, PT_SP(%rsp)
	movq	PT_SIZE(%rsp), %rdi
	movq	%rdi, PT_IP(%rsp)
	subq	$5, %rdi
	movq	PT_SIZE + 8(%rsp), %rsi
	movq	%rsp, %rcx
	.globl ftrace_op
ftrace_op:
	movq	function_trace_op(%rip), %rdx
	.globl ftrace_call
ftrace_call:
	call	arch_ftrace_ops_list_func
	movq	PT_IP(%rsp), %rax
	movq	%rax, PT_SIZE(%rsp)
	movq	48(%rsp), %r11
	movq	56(%rsp), %r10
	movq	64(%rsp), %r9
	movq	72(%rsp), %r8
	movq	80(%rsp), %rax
	movq	88(%rsp), %rcx
	movq	96(%rsp), %rdx
	movq	104(%rsp), %rsi
	movq	112(%rsp), %rdi
	addq	$PT_SIZE, %rsp
	.cfi_adjust_cfa_offset -PT_SIZE
	.globl ftrace_caller_end
ftrace_caller_end:
	ret
	.cfi_endproc
SYM_FUNC_END ftrace_caller

/*
 * A hooked function returns here. The first push replaces the popped return address.
 */
SYM_CODE_START arch_rethook_trampoline
	.cfi_startproc
	.cfi_def_cfa_offset 0
	pushq	$arch_rethook_trampoline
	.cfi_adjust_cfa_offset 8
	pushq	$__KERNEL_DS
	.cfi_adjust_cfa_offset 8
	pushq	%rsp
	.cfi_adjust_cfa_offset 8
	pushfq
	.cfi_adjust_cfa_offset 8
	subq	$144, %rsp
	.cfi_adjust_cfa_offset 144
	SAVE_TO_FRAME
	movq	%rsp, %rdi
	cld
	call	arch_rethook_trampoline_callback
	RESTORE_FROM_FRAME
	/* The flags were copied to the slot of ss, the return address to the one
	 * above. */
	addq	$160, %rsp
	.cfi_adjust_cfa_offset -160
	popfq
	.cfi_adjust_cfa_offset -8
	ret
	.cfi_endproc
SYM_FUNC_END arch_rethook_trampoline
_ASM_NOKPROBE arch_rethook_trampoline

/*
 * A function whose entry function_graph has seen returns here. The first push replaces
 * the popped return address; ftrace_return_to_handler has the real one put there.
 */
SYM_CODE_START return_to_handler
	.cfi_startproc
	.cfi_def_cfa_offset 0
	pushq	$return_to_handler
	.cfi_adjust_cfa_offset 8
	subq	$24, %rsp
	.cfi_adjust_cfa_offset 24
	movq	%rax, (%rsp)
	movq	%rdx, 8(%rsp)
	leaq	24(%rsp), %rdi
	cld
	call	ftrace_return_to_handler
	movq	8(%rsp), %rdx
	movq	(%rsp), %rax
	addq	$24, %rsp
	.cfi_adjust_cfa_offset -24
	ret
	.cfi_endproc
SYM_FUNC_END return_to_handler

/* The function that is called when nothing is traced. */
SYM_FUNC_START ftrace_stub
	ret
SYM_FUNC_END ftrace_stub
	.section .note.GNU-stack,"",@progbits
