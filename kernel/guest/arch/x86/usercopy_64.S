/* usercopy_64.S: accesses to user addresses, each with an entry in __ex_table. */
#include <linux/linkage.h>
	.text
/*
 * rdi: to, rsi: from, edx: bytes. Returns the number of bytes not copied. Modules choose
 * one of the three by what the processor can do.
 */
.irp name, copy_user_generic_unrolled, copy_user_generic_string, copy_user_enhanced_fast_string
SYM_FUNC_START \name
	movq	%rdx, %rcx
1:	rep movsb
	xorl	%eax, %eax
	ret
2:	movq	%rcx, %rax
	ret
	_ASM_EXTABLE 1b, 2b
SYM_FUNC_END \name
EXPORT_SYMBOL \name
.endr

/* rdi: user address, rsi: bytes. Returns the number of bytes not cleared. */
SYM_FUNC_START clear_user_rep_good
	movq	%rsi, %rcx
	xorl	%eax, %eax
1:	rep stosb
2:	movq	%rcx, %rax
	ret
	_ASM_EXTABLE 1b, 2b
SYM_FUNC_END clear_user_rep_good

.macro CHECK_RANGE reg
	movq	$0x7ffffffff000, %rdx
	cmpq	%rdx, %\reg
.endm
/* rax: user address. rdx: the value, eax: 0 or -EFAULT. */
.macro GET_USER n mov dst
SYM_FUNC_START __get_user_\n
	CHECK_RANGE rax
	jae	bad_get_user
1:	\mov	(%rax), %\dst
	xorl	%eax, %eax
	ret
	_ASM_EXTABLE 1b, bad_get_user
SYM_FUNC_END __get_user_\n
EXPORT_SYMBOL __get_user_\n
.endm
	GET_USER 1 movzbl edx
	GET_USER 2 movzwl edx
	GET_USER 4 movl edx
	GET_USER 8 movq rdx
bad_get_user:
	xorl	%edx, %edx
	movq	$-14, %rax
	ret

/* rcx: user address, rax: the value. ecx: 0 or -EFAULT. */
.macro PUT_USER n mov src
SYM_FUNC_START __put_user_\n
	movq	$0x7ffffffff000, %rbx
	cmpq	%rbx, %rcx
	jae	bad_put_user
1:	\mov	%\src, (%rcx)
	xorl	%ecx, %ecx
	ret
	_ASM_EXTABLE 1b, bad_put_user
SYM_FUNC_END __put_user_\n
EXPORT_SYMBOL __put_user_\n
.endm
	PUT_USER 1 movb al
	PUT_USER 2 movw ax
	PUT_USER 4 movl eax
	PUT_USER 8 movq rax
/* As __get_user_\n and __put_user_\n, for addresses that access_ok has checked. */
.macro GET_USER_NOCHECK n mov dst
SYM_FUNC_START __get_user_nocheck_\n
1:	\mov	(%rax), %\dst
	xorl	%eax, %eax
	ret
	_ASM_EXTABLE 1b, bad_get_user
SYM_FUNC_END __get_user_nocheck_\n
EXPORT_SYMBOL __get_user_nocheck_\n
.endm
	GET_USER_NOCHECK 1 movzbl edx
	GET_USER_NOCHECK 2 movzwl edx
	GET_USER_NOCHECK 4 movl edx
	GET_USER_NOCHECK 8 movq rdx
.macro PUT_USER_NOCHECK n mov src
SYM_FUNC_START __put_user_nocheck_\n
1:	\mov	%\src, (%rcx)
	xorl	%ecx, %ecx
	ret
	_ASM_EXTABLE 1b, bad_put_user
SYM_FUNC_END __put_user_nocheck_\n
EXPORT_SYMBOL __put_user_nocheck_\n
.endm
	PUT_USER_NOCHECK 1 movb al
	PUT_USER_NOCHECK 2 movw ax
	PUT_USER_NOCHECK 4 movl eax
	PUT_USER_NOCHECK 8 movq rax
bad_put_user:
	movl	$-14, %ecx
	ret

/* rdi: to, rsi: from, edx: bytes, eax: 0 or -EFAULT. Addresses are not checked: all
 * kernel addresses are allowed. */
SYM_FUNC_START __copy_nofault
	movq	%rdx, %rcx
1:	rep movsb
	xorl	%eax, %eax
	ret
2:	movl	$-14, %eax
	ret
	_ASM_EXTABLE 1b, 2b
SYM_FUNC_END __copy_nofault
	.section .note.GNU-stack,"",@progbits
