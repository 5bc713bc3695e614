/* linkage.h: functions written in assembly. */
#ifndef _LINUX_LINKAGE_H
#define _LINUX_LINKAGE_H
#ifdef __ASSEMBLY__
/* A target of indirect calls or jumps. */
.macro ENDBR
#ifdef __CET__
	endbr64
#endif
.endm
.macro SYM_FUNC_START name
	SYM_CODE_START \name
	ENDBR
.endm
/* The same for functions that are never called indirectly. */
.macro SYM_CODE_START name
	.globl \name
	.type \name, @function
	.p2align 4, 0xcc
\name:
.endm
.macro SYM_FUNC_END name
	.size \name, . - \name
.endm
/* A symbol that modules may use. */
.macro EXPORT_SYMBOL name
	.pushsection __ksymtab_strings, "a"
	.asciz "\name"
	.popsection
.endm
/* An entry of __ex_table: the instruction that may fault, its fixup, and the type. */
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
