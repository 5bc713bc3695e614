/*
 * export.h: symbols that modules may use. The module loader finds the core kernel's
 * names in __ksymtab_strings, and a module's by symbols __ksymtab_NAME, each of which is
 * a struct kernel_symbol: distances to the symbol, its name and its namespace.
 */
#ifndef _LINUX_EXPORT_H
#define _LINUX_EXPORT_H
#include <linux/compiler.h>
#ifdef MODULE
#define __EXPORT_SYMBOL(sym, gpl) \
	static const void *const __addressable_##sym __used __section(".discard.addressable") = &sym; \
	__asm__(".pushsection __ksymtab_strings,\"aMS\",@progbits,1\n" \
		"__kstrtab_" #sym ": .asciz \"" #sym "\"\n__kstrtabns_" #sym ": .asciz \"\"\n.popsection\n" \
		".pushsection __ksymtab" gpl ",\"a\"\n.balign 4\n" \
		"__ksymtab_" #sym ": .long " #sym "-., __kstrtab_" #sym "-., __kstrtabns_" #sym "-.\n.popsection\n")
#else
#define __EXPORT_SYMBOL(sym, gpl) \
	__asm__(".pushsection __ksymtab_strings,\"a\",@progbits\n" \
		".asciz \"" gpl #sym "\"\n.popsection\n")
#endif
#define EXPORT_SYMBOL(sym) __EXPORT_SYMBOL(sym, "")
#ifdef MODULE
#define EXPORT_SYMBOL_GPL(sym) __EXPORT_SYMBOL(sym, "_gpl")
#else
#define EXPORT_SYMBOL_GPL(sym) __EXPORT_SYMBOL(sym, "")
#endif
#endif
