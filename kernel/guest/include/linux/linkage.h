/* linkage.h: functions written in assembly. */
#ifndef _LINUX_LINKAGE_H
#define _LINUX_LINKAGE_H
#ifdef __ASSEMBLY__
/* Where an indirect call or jump may come in. */
.macro ENDBR
#ifdef __CET__
	endbr64
#endif
.endm
.macro SYM_FUNC_START name
	SYM_CODE_START \name
	ENDBR
.endm
/* The same for what is never called by its address. */
.macro SYM_CODE_START name
	.globl \name
	.type \name, @function
	.p2align 4, 0xcc
\name:
.endm
.macro SYM_FUNC_END name
	.size \name, . - \name
.endm
/* One entry of __ex_table: where it may fault, where to go on, and how. */
.macro _ASM_EXTABLE from, to, type=1
	.pushsection __ex_table, "a"
	.p2align 2
	.long (\from) - .
	.long (\to) - .
	.long \type
	.popsection
.endm
.macro _ASM_NOKPROBE entry
	.pushsection _kprobe_blacklist, "aw"
	.p2align 3
	.quad \entry
	.popsection
.endm
#else
#include <linux/compiler.h>
#endif
#endif
