/* stacktrace.h: the return addresses on the stack. */
#ifndef _LINUX_STACKTRACE_H
#define _LINUX_STACKTRACE_H
#include <linux/types.h>
unsigned int stack_trace_save(unsigned long *store, unsigned int size, unsigned int skipnr);
void stack_trace_print(const unsigned long *entries, unsigned int nr_entries, int spaces);
int stack_trace_snprint(char *buf, size_t size, const unsigned long *entries, unsigned int nr_entries, int spaces);
#endif
