# A program with the kinds of syscall instructions that compilers make. Each kind is called with
# values in all registers that a call keeps, which are looked at afterwards, and data below the
# stack pointer, where functions that call no others may have some.
	.globl _start
	.text

	.macro begin name
	.globl \name
	.type \name, @function
	.balign 16
\name:
	.endm
	.macro end name
	ret
	.size \name, . - \name
	.endm

# The number is a constant right before.
begin constant
	mov $110, %eax
	syscall
	cmp $-4095, %rax
	end constant

# Too short for a jump: what follows goes along.
begin after
	xor %edi, %edi
	xor %eax, %eax
	mov $1, %al
	dec %al
	lea 110(%rax), %eax
	syscall
	cmp $-4095, %rax
	lea counter(%rip), %rcx
	incl (%rcx)
	end after

# A branch follows: what stands before goes along.
begin before
	mov $110, %edx
	lea counter(%rip), %rax
	incl (%rax)
	mov %edx, %eax
	mov %r12, %r12
	syscall
	jmp 1f
	nop
1:
	end before

# The number comes from elsewhere, and is larger than any.
begin unknown
	mov $0x100000, %eax
	nop
	syscall
	nop
	nop
	nop
	end unknown

# A constant with instructions in between.
begin between
	mov $110, %eax
	mov %r12, %rdi
	mov %r13d, %esi
	syscall
	test %eax, %eax
	mov %eax, %eax
	end between

# A function that begins so many bytes before the end of a page.
	.macro atend name left
	.globl \name
	.type \name, @function
	.balign 4096
	.fill 4096 - \left, 1, 0xcc
\name:
	.endm

# A constant right before, but a jump in its place would be in two pages: what follows goes along.
atend crossing 1
	mov $110, %eax
	syscall
	cmp $-4095, %rax
	end crossing

# The same where a branch follows: what stands before goes along.
atend early 6
	mov %r12, %r12
	mov $110, %eax
	syscall
	jmp 1f
	nop
1:
	end early

# The same where the syscall instruction is the last one of the page.
atend last 7
	mov $110, %eax
	syscall
	cmp $-4095, %rax
	end last

	.macro check name want
	movabs $0x1122334455667788, %r12
	mov %r12, -16(%rsp)
	mov %r12, -144(%rsp)
	mov %r12, %rbx
	mov %r12, %rbp
	mov %r12, %r13
	mov %r12, %r14
	mov %r12, %r15
	mov %r12, %r8
	mov %r12, %r9
	mov %r12, %r10
	mov %rsp, sp(%rip)
	call \name
	incl step(%rip)
	cmp %rsp, sp(%rip)
	jne failed
	cmp %r12, %rbx
	jne failed
	cmp %r12, %rbp
	jne failed
	cmp %r12, %r13
	jne failed
	cmp %r12, %r14
	jne failed
	cmp %r12, %r15
	jne failed
	cmp %r12, %r8
	jne failed
	cmp %r12, %r9
	jne failed
	cmp %r12, %r10
	jne failed
	cmp %r12, -16(%rsp)
	jne failed
	cmp \want, %rax
	jne failed
	.endm

begin _start
	mov $110, %eax # getppid, whose result each call must have
	nop
	syscall
	nop
	nop
	nop
	mov %rax, parent(%rip)
	check constant parent(%rip)
	check after parent(%rip)
	check before parent(%rip)
	check unknown $-38
	check between parent(%rip)
	check crossing parent(%rip)
	check early parent(%rip)
	check last parent(%rip)
	xor %edi, %edi
	cmpl $2, counter(%rip)
	je 1f
failed:
	mov step(%rip), %edi
	inc %edi
1:	mov $231, %eax
	syscall
	hlt
	.size _start, . - _start

# Room for the code that rings.
	.globl room
	.type room, @object
	.balign 4096
room:
	.fill 8192, 1, 0xcc
	.size room, 8192

	.bss
	.lcomm parent, 8
	.lcomm sp, 8
	.lcomm counter, 4
	.lcomm step, 4
