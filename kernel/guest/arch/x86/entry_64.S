/* entry_64.S: entry points of system calls, exceptions and interrupts, the switch of
 * stacks, and the start of new tasks. */
#include <linux/linkage.h>
#include <asm/ptrace.h>
#include <asm/host.h>

.macro PUSH_REGS
	pushq	%rdi
	pushq	%rsi
	pushq	%rdx
	pushq	%rcx
	pushq	%rax
	pushq	%r8
	pushq	%r9
	pushq	%r10
	pushq	%r11
	pushq	%rbx
	pushq	%rbp
	pushq	%r12
	pushq	%r13
	pushq	%r14
	pushq	%r15
.endm
.macro POP_REGS
	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%rbp
	popq	%rbx
	popq	%r11
	popq	%r10
	popq	%r9
	popq	%r8
	popq	%rax
	popq	%rcx
	popq	%rdx
	popq	%rsi
	popq	%rdi
.endm

.macro idtentry asmsym cfunc has_error_code
SYM_FUNC_START \asmsym
	cld
	.if !\has_error_code
	pushq	$-1
	.endif
	PUSH_REGS
	movq	%rsp, %rdi
	.if \has_error_code
	movq	PT_ORIG_AX(%rsp), %rsi
	movq	$-1, PT_ORIG_AX(%rsp)
	.endif
	call	\cfunc
	jmp	error_return
#if !defined(KERNEL_2_6) && !defined(KERNEL_4_15)
	.ifc \cfunc, exc_int3	/* a probe's handler that has slept comes here: Machine.findSlept */
	call	irqentry_nmi_exit
	.endif
#endif
SYM_FUNC_END \asmsym
.endm

	.section .entry.text, "ax"
	.p2align 4, 0xcc
SYM_CODE_START error_return
	POP_REGS
	addq	$8, %rsp
	iretq
SYM_FUNC_END error_return

idtentry asm_exc_divide_error		exc_divide_error	0
idtentry asm_exc_debug			exc_debug		0
idtentry asm_exc_nmi			exc_nmi			0
idtentry asm_exc_int3			exc_int3		0
idtentry asm_exc_overflow		exc_overflow		0
idtentry asm_exc_bounds			exc_bounds		0
idtentry asm_exc_invalid_op		exc_invalid_op		0
idtentry asm_exc_device_not_available	exc_device_not_available 0
idtentry asm_exc_double_fault		exc_double_fault	1
idtentry asm_exc_invalid_tss		exc_invalid_tss		1
idtentry asm_exc_segment_not_present	exc_segment_not_present	1
idtentry asm_exc_stack_segment		exc_stack_segment	1
idtentry asm_exc_general_protection	exc_general_protection	1
idtentry asm_exc_page_fault		exc_page_fault		1
idtentry asm_exc_alignment_check	exc_alignment_check	1
idtentry asm_sysvec_apic_timer_interrupt	sysvec_apic_timer_interrupt	0
idtentry asm_sysvec_reschedule_ipi		sysvec_reschedule_ipi		0
idtentry asm_sysvec_call_function_single	sysvec_call_function_single	0
idtentry asm_sysvec_kvm_asyncpf_interrupt	sysvec_kvm_asyncpf_interrupt	0
idtentry asm_sysvec_reboot			sysvec_reboot			0
idtentry asm_common_interrupt			common_interrupt		1
idtentry asm_spurious_interrupt			spurious_interrupt		0

/* The entries of the interrupts of devices: each pushes its vector, and is 16 bytes. */
	.section .entry.text, "ax"
	.p2align 4, 0xcc
SYM_CODE_START irq_entries_start
	vector = FIRST_EXTERNAL_VECTOR
	.rept ISA_IRQ_VECTOR(16) - FIRST_EXTERNAL_VECTOR
	.p2align 4, 0xcc
	pushq	$vector
	jmp	asm_common_interrupt
	vector = vector + 1
	.endr
SYM_FUNC_END irq_entries_start

/*
 * rdi: pt_regs, esi: number. Entry point of system calls. Its callers stand for user
 * mode, so stack traces end here.
 */
	.section .entry.text, "ax"
SYM_FUNC_START entry_SYSCALL_64
	subq	$8, %rsp
	.globl entry_SYSCALL_64_after_hwframe
	.type entry_SYSCALL_64_after_hwframe, @function
entry_SYSCALL_64_after_hwframe:
	call	do_syscall_64
	addq	$8, %rsp
	ret
SYM_FUNC_END entry_SYSCALL_64

/* A function that returns 0 and is too short for an optimized probe. */
	.section .entry.text, "ax"
SYM_FUNC_START paravirt_ret0
	xorl	%eax, %eax
	ret
SYM_FUNC_END paravirt_ret0
#if GUEST_LINUX < 601
	.text
#else
	.section .noinstr.text, "ax"
#endif
SYM_FUNC_START native_save_fl
	.cfi_startproc
	pushfq
	.cfi_adjust_cfa_offset 8
	popq	%rax
	.cfi_adjust_cfa_offset -8
	ret
	.cfi_endproc
SYM_FUNC_END native_save_fl
EXPORT_SYMBOL native_save_fl

/* rdi: prev, rsi: next. Returns prev, on next's stack. */
	.text
SYM_FUNC_START __switch_to_asm
	pushq	%rbp
	pushq	%rbx
	pushq	%r12
	pushq	%r13
	pushq	%r14
	pushq	%r15
	movq	%rsp, 5400(%rdi)
	movq	5400(%rsi), %rsp
	movq	2424(%rsi), %rbx
	movq	%rbx, %gs:0x28
	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%rbx
	popq	%rbp
	jmp	__switch_to
SYM_FUNC_END __switch_to_asm

/* rax: prev, rbx: a kernel thread's function or 0, r12: its argument. */
SYM_CODE_START ret_from_fork
	movq	%rax, %rdi
	call	schedule_tail
	testq	%rbx, %rbx
	jnz	1f
	/* The loop of a host task stands for user mode. */
2:	movq	%rsp, %rdi
	call	syscall_exit_to_user_mode
	call	host_user_mode
	ud2
1:	movq	%r12, %rdi
	movq	%rbx, %rax
	call	__x86_indirect_thunk_rax
	movq	$0, 80(%rsp)
	jmp	2b
SYM_FUNC_END ret_from_fork

/* edi: signal. The stack may be corrupt: restart at its top. */
SYM_CODE_START rewind_stack_and_make_dead
	xorl	%ebp, %ebp
	movq	%gs:current_task, %rax
	movq	32(%rax), %rax
	leaq	16384 - PT_SIZE(%rax), %rsp
	call	make_task_dead
	ud2
SYM_FUNC_END rewind_stack_and_make_dead

	.section .note.GNU-stack,"",@progbits
