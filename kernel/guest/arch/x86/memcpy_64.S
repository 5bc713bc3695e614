/* memcpy_64.S: copying and filling with string instructions. All functions return
 * their first argument. */
#include <linux/linkage.h>
/* Until 6.2 the names without underscores are weak, and so not the ones by which an
 * address is shown. */
#if GUEST_LINUX >= 612
#define ALIAS .globl
#else
#define ALIAS .weak
#endif
#if defined(KERNEL_2_6) || defined(KERNEL_4_15)
	.text
#else
	.section .noinstr.text, "ax"
#endif
	ALIAS memcpy
	.type memcpy, @function
SYM_CODE_START __memcpy
memcpy:
	ENDBR
	movq	%rdi, %rax
	movq	%rdx, %rcx
	shrq	$3, %rcx
	andl	$7, %edx
	rep movsq
	movl	%edx, %ecx
	rep movsb
	ret
SYM_FUNC_END __memcpy
	.size memcpy, . - memcpy
EXPORT_SYMBOL memcpy
EXPORT_SYMBOL __memcpy

#if GUEST_LINUX < 612
	.text
#endif
	.globl memset
	.type memset, @function
SYM_CODE_START __memset
memset:
	ENDBR
	movq	%rdi, %r9
	movq	%rdx, %rcx
	andl	$7, %edx
	shrq	$3, %rcx
	movzbl	%sil, %esi
	movabsq	$0x0101010101010101, %rax
	imulq	%rsi, %rax
	rep stosq
	movl	%edx, %ecx
	rep stosb
	movq	%r9, %rax
	ret
SYM_FUNC_END __memset
	.size memset, . - memset
EXPORT_SYMBOL memset
EXPORT_SYMBOL __memset

	.globl memmove
	.type memmove, @function
SYM_CODE_START __memmove
memmove:
	ENDBR
	movq	%rdi, %rax
	movq	%rdx, %rcx
	movq	%rdi, %r8
	subq	%rsi, %r8
	cmpq	%rdx, %r8
	jb	1f
	rep movsb
	ret
1:	leaq	-1(%rdi,%rdx), %rdi
	leaq	-1(%rsi,%rdx), %rsi
	std
	rep movsb
	cld
	ret
SYM_FUNC_END __memmove
	.size memmove, . - memmove
EXPORT_SYMBOL memmove
EXPORT_SYMBOL __memmove

	.text
SYM_FUNC_START clear_page_rep
	movl	$512, %ecx
	xorl	%eax, %eax
	rep stosq
	ret
SYM_FUNC_END clear_page_rep

SYM_FUNC_START copy_page
	movl	$512, %ecx
	rep movsq
	ret
SYM_FUNC_END copy_page
	.section .note.GNU-stack,"",@progbits
