# A kernel of a few bytes with one of everything that package image reads.
# Made by go generate, see ../image_test.go.
	.section .text, "ax"
	.globl _stext, startup_64, vfs_read
	.balign 16, 0xcc
_stext:
startup_64:
	.type startup_64, @function
	mov %rsi, %rdi
	jmp vfs_read
	.balign 16, 0xcc
	.type vfs_read, @function
vfs_read:
.Lmcount:
	.byte 0x0f, 0x1f, 0x44, 0x00, 0x00
.Llabel:
	.byte 0x0f, 0x1f, 0x44, 0x00, 0x00
.Llabel2:
	.byte 0x66, 0x90
.Lcall:
	call local_fn
.Ltail:
	.byte 0xe9
	.long local_fn - . - 4
.Lfault:
	mov (%rdi), %rax
.Lbug:
	ud2
.Llock:
	lock incl (%rdi)
.Lyes:
	ret
	.balign 16, 0xcc
	.type local_fn, @function
local_fn:
	ret
	.weak weak_fn
weak_fn:
	ret
	.balign 16, 0xcc
	.globl noprobe
	.type noprobe, @function
noprobe:
	ret
	.balign 16, 0xcc
	.globl __kprobes_text_start, __kprobes_text_end
__kprobes_text_start:
__kprobes_text_end:
	.globl __noinstr_text_start, __noinstr_text_end
__noinstr_text_start:
	.globl noinstr_a, noinstr_b
noinstr_a:
	nop
	ret
	.balign 16, 0xcc
noinstr_b:
	ret
__noinstr_text_end:
	.balign 16, 0xcc
	.globl __entry_text_start, __entry_text_end, asm_exc_int3
__entry_text_start:
asm_exc_int3:
	iretq
	.balign 16, 0xcc
__entry_text_end:
	.globl __indirect_thunk_start, __indirect_thunk_end, __x86_indirect_thunk_rax
__indirect_thunk_start:
__x86_indirect_thunk_rax:
	jmp *%rax
__indirect_thunk_end:
	.balign 16, 0xcc
	.globl _etext
_etext:
	.section .init.text, "ax"
	.globl _sinittext, _einittext, start_kernel
_sinittext:
start_kernel:
.Lmcount_init:
	.byte 0x0f, 0x1f, 0x44, 0x00, 0x00
	ret
_einittext:

	.section .rodata, "a"
file:	.asciz "fs/read_write.c"
	.balign 8
	.globl __start_mcount_loc, __stop_mcount_loc
__start_mcount_loc:
	.quad .Lmcount_init, .Lmcount
__stop_mcount_loc:
	.globl __start___jump_table, __stop___jump_table
__start___jump_table:
	.long .Llabel - .
	.long .Lyes - .
	.quad key + 1 - .
	.long .Llabel2 - .
	.long .Lyes - .
	.quad key - .
__stop___jump_table:
	.globl __start_static_call_sites, __stop_static_call_sites
__start_static_call_sites:
	.long .Lcall - .
	.long call_key - .
	.long .Ltail - .
	.long call_key + 1 - .
__stop_static_call_sites:
	.globl __start___bug_table, __stop___bug_table
__start___bug_table:
	.long .Lbug - .
	.long file - .
	.word 452, 3
__stop___bug_table:
	.globl __start___ex_table, __stop___ex_table
__start___ex_table:
	.long .Lfault - .
	.long .Lyes - .
	.long 3
__stop___ex_table:
	.globl __smp_locks, __smp_locks_end
__smp_locks:
	.long .Llock - .
__smp_locks_end:
	.balign 8
	.globl __start_kprobe_blacklist, __stop_kprobe_blacklist
__start_kprobe_blacklist:
	.quad noprobe
__stop_kprobe_blacklist:

	.section .data, "aw"
	.globl key
key:	.quad 0
call_key: .quad local_fn
	.section .data..percpu, "aw"
	.globl __per_cpu_start, fixed_percpu_data, __per_cpu_end
__per_cpu_start:
fixed_percpu_data:
	.fill 40, 1, 0
	.quad 0x5a5a
__per_cpu_end:
	.section .bss, "aw", @nobits
	.globl counter
counter: .quad 0
