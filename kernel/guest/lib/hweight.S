// __sw_hweight32 and __sw_hweight64: the number of set bits of edi, rdi in eax.
// Alternatives call them in place of popcnt, so all other registers are preserved and
// there is no fentry site.
#include <linux/linkage.h>

	.text
	.p2align 4
	.globl __sw_hweight32
	.type __sw_hweight32, @function
__sw_hweight32:
	ENDBR
	push %rdi
	mov %edi, %eax
	shr %edi
	and $0x55555555, %edi		// pairs
	sub %edi, %eax
	mov %eax, %edi
	shr $2, %eax
	and $0x33333333, %edi		// fours
	and $0x33333333, %eax
	add %edi, %eax
	mov %eax, %edi
	shr $4, %edi
	add %edi, %eax
	and $0x0f0f0f0f, %eax		// bytes
	imul $0x01010101, %eax, %eax
	shr $24, %eax			// the top byte has their sum
	pop %rdi
	ret
	.size __sw_hweight32, . - __sw_hweight32
EXPORT_SYMBOL __sw_hweight32

	.p2align 4
	.globl __sw_hweight64
	.type __sw_hweight64, @function
__sw_hweight64:
	ENDBR
	push %rdi
	push %rdx
	mov %rdi, %rdx
	movabs $0x5555555555555555, %rax
	shr %rdx
	and %rax, %rdx
	sub %rdx, %rdi
	movabs $0x3333333333333333, %rax
	mov %rdi, %rdx
	shr $2, %rdi
	and %rax, %rdx
	and %rax, %rdi
	add %rdi, %rdx
	mov %rdx, %rax
	shr $4, %rax
	add %rax, %rdx
	movabs $0x0f0f0f0f0f0f0f0f, %rax
	and %rax, %rdx
	movabs $0x0101010101010101, %rax
	imul %rdx, %rax
	shr $56, %rax
	pop %rdx
	pop %rdi
	ret
	.size __sw_hweight64, . - __sw_hweight64
EXPORT_SYMBOL __sw_hweight64
