/* kallsyms.h: names of addresses. */
#ifndef _LINUX_KALLSYMS_H
#define _LINUX_KALLSYMS_H
#include <linux/types.h>
#if defined(KERNEL_2_6) || defined(KERNEL_4_15) || GUEST_LINUX < 601
#define KSYM_NAME_LEN 128
#else
#define KSYM_NAME_LEN 512
#endif
/* "%s+%#lx/%#lx [%s]" with the longest names. */
#define KSYM_SYMBOL_LEN (KSYM_NAME_LEN + 88)
struct module;
unsigned long kallsyms_lookup_name(const char *name);
#if GUEST_LINUX >= 612
int kallsyms_on_each_symbol(int (*fn)(void *, const char *, unsigned long), void *data);
#else
int kallsyms_on_each_symbol(int (*fn)(void *, const char *, struct module *, unsigned long), void *data);
#endif
int sprint_symbol(char *buffer, unsigned long address);
int sprint_symbol_no_offset(char *buffer, unsigned long address);
#endif
