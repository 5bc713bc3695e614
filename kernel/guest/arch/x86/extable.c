/* extable.c: instructions that may fault, and the addresses of their fixups. */
#include <linux/kernel.h>
#include <asm/traps.h>

extern const struct exception_table_entry __start___ex_table[], __stop___ex_table[];

static unsigned long ex_to_insn(const struct exception_table_entry *e)
{
	return (unsigned long)&e->insn + e->insn;
}

static unsigned long ex_fixup_addr(const struct exception_table_entry *e)
{
	return (unsigned long)&e->fixup + e->fixup;
}

/* The table is in the order of the object files. It is short enough for a linear
 * search. */
const struct exception_table_entry *search_extable(const struct exception_table_entry *base,
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

const struct exception_table_entry *search_exception_tables(unsigned long addr)
{
	return search_kernel_exception_table(addr);
}

bool fixup_exception(struct pt_regs *regs, int trapnr, unsigned long error_code, unsigned long fault_addr)
{
	const struct exception_table_entry *e = search_exception_tables(regs->ip);

	if (!e)
		return false;
	regs->ip = ex_fixup_addr(e);
	return true;
}
