/* kallsyms.c: names of addresses. The table is outside of the guest, and looked up by
 * %pS and %ps. */
#include <linux/kernel.h>

#define KSYM_SYMBOL_LEN 600

/* Writes "name+0xoffset/0xsize [module]", or the address in hexadecimal. Returns the
 * length. */
int sprint_symbol(char *buffer, unsigned long address)
{
	return scnprintf(buffer, KSYM_SYMBOL_LEN, "%pS", (void *)address);
}
EXPORT_SYMBOL_GPL(sprint_symbol);

int sprint_symbol_no_offset(char *buffer, unsigned long address)
{
	return scnprintf(buffer, KSYM_SYMBOL_LEN, "%ps", (void *)address);
}
EXPORT_SYMBOL_GPL(sprint_symbol_no_offset);
