/*
 * kprobes_64.S: what handlers of modules return to, by Linux's names for what
 * calls them there. The hlt tells the machine that they are done.
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

/*
 * What Linux has between the trap and whom an event tells of it. Here the machine
 * does their work, and they never run: they give an address to names that its
 * stack traces write in (kprobes/tracing/rendered_frames.go). The call makes that
 * address one behind a call, as a return address is; who comes here all the same
 * ends by running out of stack.
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
	ON_THE_WAY_NOKPROBE ftrace_ops_assist_func
#ifdef KERNEL_6_12
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
