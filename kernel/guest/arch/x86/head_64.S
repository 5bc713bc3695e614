/* head_64.S: the processors' first instructions. */
#include <linux/linkage.h>
#include <asm/ptrace.h>
	.section .head.text, "ax"
#if GUEST_LINUX >= 612 /* so that _text is not startup_64 */
	.fill 16, 1, 0xcc
#endif
/* rsi: boot_params. No stack, interrupts off. */
SYM_CODE_START startup_64
	leaq	init_stack + 16384 - PT_SIZE(%rip), %rsp
	movl	$0xc0000101, %ecx
	movq	$__per_cpu_load, %rax
	movq	%rax, %rdx
	shrq	$32, %rdx
	wrmsr
	pushq	$2
	popfq
	movq	%rsi, %rdi
	xorl	%ebp, %ebp
	call	x86_64_start_kernel
	ud2
SYM_FUNC_END startup_64

/* rdi: this CPU's number, rsp: the top of its idle task's stack. */
SYM_CODE_START secondary_startup_64
	movq	__per_cpu_offset(,%rdi,8), %rax
	movq	%rax, %rdx
	shrq	$32, %rdx
	movl	$0xc0000101, %ecx
	wrmsr
	pushq	$2
	popfq
	xorl	%ebp, %ebp
	call	start_secondary
	ud2
SYM_FUNC_END secondary_startup_64

	.section .note.GNU-stack,"",@progbits
