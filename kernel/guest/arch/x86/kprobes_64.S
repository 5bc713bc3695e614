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
	.section .note.GNU-stack,"",@progbits
