/*
 * kprobes_64.S: the return addresses of modules' handlers, in functions with the
 * names of their callers on Linux. The hlt tells the machine that the handler has
 * returned.
 */
#include <linux/linkage.h>
	.text
.macro HANDLER_RETURN name
SYM_CODE_START \name
	nop
	hlt
SYM_FUNC_END \name
_ASM_NOKPROBE \name
.endm
	HANDLER_RETURN aggr_pre_handler
	HANDLER_RETURN opt_pre_handler
	HANDLER_RETURN kretprobe_rethook_handler
#ifdef KERNEL_2_6
	HANDLER_RETURN kprobe_handler
	HANDLER_RETURN post_kprobe_handler
#endif

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
