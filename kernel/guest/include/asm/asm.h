/*
 * asm.h: entries of __ex_table in inline assembly: the instruction that may fault, its
 * fixup, and a type with a register and a value.
 */
#ifndef _ASM_ASM_H
#define _ASM_ASM_H
#define EX_TYPE_NONE 0
#define EX_TYPE_DEFAULT 1
#define EX_TYPE_IMM_REG 17		/* the register = the value */
#define EX_DATA_IMM(imm) ((imm) << 16)
#define EX_TYPE_EFAULT_REG (EX_TYPE_IMM_REG | EX_DATA_IMM(-14))
#define EX_TYPE_ZERO_REG (EX_TYPE_IMM_REG | EX_DATA_IMM(0))
#define __ASM_EX_STR_(x...) #x
#define __ASM_EX_STR(x...) __ASM_EX_STR_(x)
#define _ASM_EXTABLE_TYPE(from, to, type) \
	" .pushsection __ex_table,\"a\"\n .balign 4\n .long (" #from ") - .\n .long (" #to ") - .\n .long " \
	__ASM_EX_STR(type) "\n .popsection\n"
#define _ASM_EXTABLE(from, to) _ASM_EXTABLE_TYPE(from, to, EX_TYPE_DEFAULT)
/* The register's number, found by its name, is in bits 8 to 11. */
#define _ASM_EXTABLE_TYPE_REG(from, to, type, reg) \
	" .pushsection __ex_table,\"a\"\n .balign 4\n .long (" #from ") - .\n .long (" #to ") - .\n .Lex_reg = -1\n .Lex_n = 0\n" \
	" .irp r,rax,rcx,rdx,rbx,rsp,rbp,rsi,rdi,r8,r9,r10,r11,r12,r13,r14,r15\n" \
	" .ifc " #reg ",%%\\r\n .Lex_reg = .Lex_n\n .endif\n .Lex_n = .Lex_n + 1\n .endr\n .Lex_n = 0\n" \
	" .irp r,eax,ecx,edx,ebx,esp,ebp,esi,edi,r8d,r9d,r10d,r11d,r12d,r13d,r14d,r15d\n" \
	" .ifc " #reg ",%%\\r\n .Lex_reg = .Lex_n\n .endif\n .Lex_n = .Lex_n + 1\n .endr\n" \
	" .if .Lex_reg < 0\n .error \"not a register: " #reg "\"\n .endif\n" \
	" .long " __ASM_EX_STR(type) " + (.Lex_reg << 8)\n .popsection\n"
#endif
