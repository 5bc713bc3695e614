/* kallsyms.c: names of addresses. The table is outside of the guest, and looked up by
 * %pS and %ps. */
#include <linux/kernel.h>
#include <linux/errno.h>
#include <linux/kallsyms.h>
#include <linux/mutex.h>
#include <linux/string.h>
#include <asm/host.h>

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

/* The address of "symbol" or "module:symbol", the first one if there are several, or 0. */
unsigned long kallsyms_lookup_name(const char *name)
{
	return hypercall2(HC_LOOKUP_NAME, name, strnlen(name, KSYM_NAME_LEN));
}

/* Calls fn for each symbol of the kernel, in the order of their addresses, until it
 * returns something else than 0. The table does not change meanwhile. */
#if GUEST_LINUX >= 612
int kallsyms_on_each_symbol(int (*fn)(void *, const char *, unsigned long), void *data)
#else
int kallsyms_on_each_symbol(int (*fn)(void *, const char *, struct module *, unsigned long), void *data)
#endif
{
	static DEFINE_MUTEX(lock);
	static char name[KSYM_NAME_LEN];
	unsigned long i, addr;
	int ret = 0;

	mutex_lock(&lock);
	for (i = 0; !ret && hypercall4(HC_SYMBOL_AT, i, &addr, name, sizeof(name)) == 0; i++)
#if GUEST_LINUX >= 612
		ret = fn(data, name, addr);
#else
		ret = fn(data, name, NULL, addr);
#endif
	mutex_unlock(&lock);
	return ret;
}
