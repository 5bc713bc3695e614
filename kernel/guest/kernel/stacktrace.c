/* stacktrace.c: stack traces as arrays of addresses. */
#include <linux/kernel.h>
#include <asm/host.h>

/*
 * Stores the caller's address and the return addresses after it, without the first
 * skipnr. Returns their number.
 */
noinline unsigned int stack_trace_save(unsigned long *store, unsigned int size, unsigned int skipnr)
{
	return hypercall3(HC_STACK_SAVE, store, size, skipnr);
}
EXPORT_SYMBOL_GPL(stack_trace_save);

void stack_trace_print(const unsigned long *entries, unsigned int nr_entries, int spaces)
{
	unsigned int i;

	for (i = 0; i < nr_entries; i++)
		printk("%*c%pS\n", 1 + spaces, ' ', (void *)entries[i]);
}
EXPORT_SYMBOL_GPL(stack_trace_print);

/* Returns the number of characters that fit, without the final NUL. */
int stack_trace_snprint(char *buf, size_t size, const unsigned long *entries, unsigned int nr_entries, int spaces)
{
	unsigned int i;
	size_t len = 0;

	for (i = 0; i < nr_entries && len + 1 < size; i++)
		len += scnprintf(buf + len, size - len, "%*c%pS\n", 1 + spaces, ' ', (void *)entries[i]);
	return len;
}
EXPORT_SYMBOL_GPL(stack_trace_snprint);
