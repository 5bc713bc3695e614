/*
 * export.h: symbols that modules may use. The module loader finds the core kernel's
 * names in __ksymtab_strings, and a module's by symbols __ksymtab_NAME.
 */
#ifndef _LINUX_EXPORT_H
#define _LINUX_EXPORT_H
#include <linux/compiler.h>
#ifdef MODULE
#define __EXPORT_SYMBOL(sym, gpl) \
	static const void *const __ksymtab_##sym __used __section("___ksymtab+" #sym) = &sym
#else
#define __EXPORT_SYMBOL(sym, gpl) \
	__asm__(".pushsection __ksymtab_strings,\"a\",@progbits\n" \
		".asciz \"" gpl #sym "\"\n.popsection\n")
#endif
#define EXPORT_SYMBOL(sym) __EXPORT_SYMBOL(sym, "")
#define EXPORT_SYMBOL_GPL(sym) __EXPORT_SYMBOL(sym, "")
#endif
