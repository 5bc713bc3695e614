/*
 * Start of the recorder's machine: multiboot, long mode, then main. Below, how an
 * instruction is entered by iretq with TF set and how every exception comes back.
 */
	.section .head, "ax"
	.code32
	.balign 4
multiboot:
	.long 0x1badb002, 0x10003, -(0x1badb002 + 0x10003)
	.long multiboot, 0x100000, edata, end, start
	.globl start
start:
	cli
	mov $stack_top, %esp
	mov %ebx, info
	mov %cr4, %eax
	or $0x10220, %eax		/* PAE, OSFXSR, FSGSBASE */
	mov %eax, %cr4
	mov $pml4, %eax
	mov %eax, %cr3
	mov $0xc0000080, %ecx
	rdmsr
	or $0x901, %eax			/* SCE, LME, NXE */
	wrmsr
	mov %cr0, %eax
	or $0x80010033, %eax		/* PG, WP, NE, ET, MP, PE */
	and $~0xc, %eax			/* EM, TS */
	mov %eax, %cr0
	lgdt gdt_pointer
	ljmp $0x10, $1f
	.code64
1:	mov $0x18, %eax
	mov %eax, %ss
	xor %eax, %eax
	mov %eax, %ds
	mov %eax, %es
	mov %eax, %fs
	mov %eax, %gs
	mov $stack_top, %rsp
	mov info(%rip), %edi
	call main
1:	hlt
	jmp 1b

	.text
/* enter(regs): loads the registers and goes to regs->rip; returns by an exception. */
	.globl enter
enter:
	push %rbx
	push %rbp
	push %r12
	push %r13
	push %r14
	push %r15
	mov %rsp, saved_sp(%rip)
	mov %rdi, %rax
	push $0x18
	push 32(%rax)			/* rsp */
	push 136(%rax)			/* flags */
	push $0x10
	push 128(%rax)			/* rip */
	mov 8(%rax), %rcx
	mov 16(%rax), %rdx
	mov 24(%rax), %rbx
	mov 40(%rax), %rbp
	mov 48(%rax), %rsi
	mov 56(%rax), %rdi
	mov 64(%rax), %r8
	mov 72(%rax), %r9
	mov 80(%rax), %r10
	mov 88(%rax), %r11
	mov 96(%rax), %r12
	mov 104(%rax), %r13
	mov 112(%rax), %r14
	mov 120(%rax), %r15
	mov (%rax), %rax
	iretq

/* Exceptions: on a stack of their own. Vector and error code are pushed. */
	.macro stub n
	.balign 16
	.if !(\n == 8 || (\n >= 10 && \n <= 14) || \n == 17 || \n == 21 || \n == 29 || \n == 30)
	push $0
	.endif
	push $\n
	jmp trap
	.endm
	.globl stubs
	.balign 16
stubs:
	.set i, 0
	.rept 32
	stub i
	.set i, i + 1
	.endr
trap:
	cld
	mov %rax, out(%rip)
	mov %rcx, out + 8(%rip)
	mov %rdx, out + 16(%rip)
	mov %rbx, out + 24(%rip)
	mov %rbp, out + 40(%rip)
	mov %rsi, out + 48(%rip)
	mov %rdi, out + 56(%rip)
	mov %r8, out + 64(%rip)
	mov %r9, out + 72(%rip)
	mov %r10, out + 80(%rip)
	mov %r11, out + 88(%rip)
	mov %r12, out + 96(%rip)
	mov %r13, out + 104(%rip)
	mov %r14, out + 112(%rip)
	mov %r15, out + 120(%rip)
	pop out_vector(%rip)
	pop out_error(%rip)
	pop out + 128(%rip)		/* rip */
	pop out_cs(%rip)
	pop out + 136(%rip)		/* flags */
	pop out + 32(%rip)		/* rsp */
	pop out_ss(%rip)
	mov saved_sp(%rip), %rsp
	push $2
	popf
	pop %r15
	pop %r14
	pop %r13
	pop %r12
	pop %rbp
	pop %rbx
	ret

	.data
	.balign 8
	.globl gdt
gdt_pointer:
	.word 0xffff
	.quad gdt
	.balign 16
gdt:	.quad 0, 0, 0x00af9b000000ffff, 0x00cf93000000ffff
	.fill 508, 8, 0			/* the task state segment's descriptor is at 0x40 */

	.balign 4096
pml4:	.quad pdpt + 3
	.fill 511, 8, 0
pdpt:	.quad pd + 3
	.fill 511, 8, 0
pd:	.set i, 0
	.rept 32
	.quad i << 21 | 0x83		/* 64 MB as they are */
	.set i, i + 1
	.endr
	.fill 96, 8, 0
	.quad data_pt + 3		/* 0x10000000 */
	.fill 127, 8, 0
	.quad code_pt + 3		/* 0x20000000 */
	.fill 255, 8, 0
data_pt: .quad data_page + 3
	.fill 511, 8, 0
code_pt: .quad code_page + 3
	.fill 511, 8, 0
	.globl data_page, code_page
data_page: .fill 4096, 1, 0
code_page: .fill 4096, 1, 0

	.bss
	.balign 16
	.fill 65536, 1, 0
stack_top:
	.globl trap_stack_top
	.fill 65536, 1, 0
trap_stack_top:
info:	.quad 0
saved_sp: .quad 0
	.globl out, out_vector, out_error, out_cs, out_ss
out:	.fill 18, 8, 0
out_vector: .quad 0
out_error: .quad 0
out_cs:	.quad 0
out_ss:	.quad 0
	.section .note.GNU-stack, "", @progbits
