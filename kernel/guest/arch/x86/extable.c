/* extable.c: instructions that may fault, and the addresses of their fixups. */
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <asm/traps.h>

extern const struct exception_table_entry __start___ex_table[], __stop___ex_table[];

/* Held on Linux while text is changed. Here the machine does that while nothing runs. */
__used DEFINE_MUTEX(text_mutex);

static unsigned long ex_to_insn(const struct exception_table_entry *e)
{
	return (unsigned long)&e->insn + e->insn;
}

static unsigned long ex_fixup_addr(const struct exception_table_entry *e)
{
	return (unsigned long)&e->fixup + e->fixup;
}

/* Types of entries, of which code outside of the kernel has those that change registers. */
#define EX_TYPE_WRMSR_SAFE 10	/* reg = -EIO */
#define EX_TYPE_RDMSR_SAFE 11	/* the same */
#define EX_TYPE_POP_REG 16	/* a word is taken off the stack, and reg = imm */
#define EX_TYPE_IMM_REG 17	/* reg = imm */
#define EX_TYPE_UCOPY_LEN 19	/* cx = reg + imm * cx */

/* An entry's data: the type in bits 0 to 7, reg in 8 to 11, imm in 16 to 31. */
static void ex_change_regs(struct pt_regs *regs, int data)
{
	/* In the order in which instructions number them. */
	unsigned long *const numbered[] = {
		&regs->ax, &regs->cx, &regs->dx, &regs->bx, &regs->sp, &regs->bp, &regs->si, &regs->di,
		&regs->r8, &regs->r9, &regs->r10, &regs->r11, &regs->r12, &regs->r13, &regs->r14, &regs->r15,
	};
	unsigned long *reg = numbered[(data >> 8) & 0xf];
	long imm = data >> 16;

	switch (data & 0xff) {
	case EX_TYPE_WRMSR_SAFE:
	case EX_TYPE_RDMSR_SAFE:
		*reg = -EIO;
		break;
	case EX_TYPE_POP_REG:
		regs->sp += sizeof(long);
		fallthrough;
	case EX_TYPE_IMM_REG:
		*reg = imm;
		break;
	case EX_TYPE_UCOPY_LEN:
		regs->cx = *reg + imm * regs->cx;
		break;
	}
}

/* The table is in the order of the object files. It is short enough for a linear
 * search. */
notrace noinline const struct exception_table_entry *search_extable(const struct exception_table_entry *base,
						   const size_t num, unsigned long value)
{
	size_t i;

	for (i = 0; i < num; i++)
		if (ex_to_insn(base + i) == value)
			return base + i;
	return NULL;
}

const struct exception_table_entry *search_kernel_exception_table(unsigned long addr)
{
	return search_extable(__start___ex_table, __stop___ex_table - __start___ex_table, addr);
}

noinline const struct exception_table_entry *search_exception_tables(unsigned long addr)
{
	return search_kernel_exception_table(addr) ?: search_module_extables(addr);
}

bool fixup_exception(struct pt_regs *regs, int trapnr, unsigned long error_code, unsigned long fault_addr)
{
	const struct exception_table_entry *e = search_exception_tables(regs->ip);

	if (!e)
		return false;
	regs->ip = ex_fixup_addr(e);
	ex_change_regs(regs, e->data);
	return true;
}
