/*
 * kprobes_64.S: the return addresses of modules' handlers, in functions with the
 * names of their callers on Linux. The hlt tells the machine that the handler has
 * returned. Each function has one.
 */
#include <linux/linkage.h>
#include <linux/kprobes.h>
	.text
.macro HANDLER_RETURN name
SYM_CODE_START \name
	nop
	hlt
SYM_FUNC_END \name
_ASM_NOKPROBE \name
.endm
	HANDLER_RETURN aggr_pre_handler
	HANDLER_RETURN kretprobe_rethook_handler
#ifdef KERNEL_2_6
	HANDLER_RETURN kprobe_handler
	HANDLER_RETURN post_kprobe_handler
#endif

/* void opt_pre_handler(struct kprobe *first, struct pt_regs *regs, unsigned long ip): corrects regs,
 * in which the detour has saved the stack pointer after a push, and calls the pre-handlers of first
 * and of what list.next leads to, but not of disabled probes. If others than modules have
 * handlers at the address, the machine calls them all: a module's returns to the hlt. */
SYM_CODE_START opt_pre_handler
	.cfi_startproc
	pushq	%rbx
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset rbx, 0
	pushq	%rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset rbp, 0
	movq	%rdi, %rbx
	movq	%rsi, %rbp
	addq	$8, PT_SP(%rsi)
	movq	$__KERNEL_CS, PT_CS(%rsi)
	movq	%rdx, PT_IP(%rsi)
	movq	$-1, PT_ORIG_AX(%rsi)
	movq	%rdi, %gs:current_kprobe
.Lnext:
	testl	$(KPROBE_FLAG_GONE | KPROBE_FLAG_DISABLED), KPROBE_flags(%rbx)
	jnz	.Lcalled
	movq	KPROBE_pre_handler(%rbx), %rax
	testq	%rax, %rax
	jz	.Lcalled
	movq	%rbx, %rdi
	movq	%rbp, %rsi
	call	*%rax
.Lcalled:
	movq	KPROBE_next(%rbx), %rbx
	testq	%rbx, %rbx
	jnz	.Lnext
	movq	$0, %gs:current_kprobe
	popq	%rbp
	.cfi_adjust_cfa_offset -8
	.cfi_restore rbp
	popq	%rbx
	.cfi_adjust_cfa_offset -8
	.cfi_restore rbx
	ret
	nop
	hlt
	.cfi_endproc
SYM_FUNC_END opt_pre_handler
_ASM_NOKPROBE opt_pre_handler

/*
 * Functions that Linux calls between the trap and the event. Here the machine does
 * their work; they never run, and exist only because stack traces show their names
 * (kprobes/tracing/rendered_frames.go). Each has a call, so that the address after it
 * looks like a return address. If one were called, it would overflow the stack.
 */
.macro ON_THE_WAY name
	.type \name, @function
	.p2align 4, 0xcc
\name:
	call	\name
	ud2
	.size \name, . - \name
.endm
.macro ON_THE_WAY_NOKPROBE name
	ON_THE_WAY \name
	_ASM_NOKPROBE \name
.endm
	.globl rethook_trampoline_handler, trace_event_buffer_commit, event_triggers_call
	ON_THE_WAY_NOKPROBE kprobe_trace_func
	ON_THE_WAY_NOKPROBE kprobe_dispatcher
	ON_THE_WAY_NOKPROBE kretprobe_trace_func
	ON_THE_WAY_NOKPROBE kretprobe_dispatcher
	ON_THE_WAY_NOKPROBE rethook_trampoline_handler
#if GUEST_LINUX >= 612
	ON_THE_WAY_NOKPROBE fentry_trace_func
	ON_THE_WAY_NOKPROBE fentry_dispatcher
	ON_THE_WAY_NOKPROBE fexit_trace_func
	ON_THE_WAY_NOKPROBE fexit_dispatcher
	ON_THE_WAY_NOKPROBE fprobe_exit_handler
#endif
	ON_THE_WAY eprobe_trigger_func
	ON_THE_WAY event_triggers_call
	ON_THE_WAY trace_event_buffer_commit
	.section .note.GNU-stack,"",@progbits
