/* kallsyms.c: names of addresses. The table stands outside of the guest: %pS and %ps look into it. */
#include <linux/kernel.h>

#define KSYM_SYMBOL_LEN 600

/* "name+0xoffset/0xsize [module]", or the address in hexadecimal. The result is the length. */
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
