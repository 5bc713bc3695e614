/*
 * module.h: declarations of modules. In the core kernel they have no effect. In a
 * module (MODULE is defined) they are stored in .modinfo, and the init and exit
 * functions get the names that the loader looks up.
 */
#ifndef _LINUX_MODULE_H
#define _LINUX_MODULE_H
#include <linux/export.h>
#include <linux/init.h>

#define THIS_MODULE ((struct module *)0)
struct module;

#ifdef MODULE
#define __MODINFO_AT(line, word) \
	static const char __modinfo_##line[] __used __section(".modinfo") __aligned(1) = word
#define __MODINFO(line, word)	__MODINFO_AT(line, word)
#define MODULE_INFO(key, value)	__MODINFO(__COUNTER__, #key "=" value)
#define MODULE_LICENSE(x)	MODULE_INFO(license, x)
#define MODULE_AUTHOR(x)	MODULE_INFO(author, x)
#define MODULE_DESCRIPTION(x)	MODULE_INFO(description, x)
#define __exit			__section(".exit.text") __cold
#undef module_init
#define module_init(fn)		int init_module(void) __attribute__((alias(#fn), copy(fn)))
#define module_exit(fn)		void cleanup_module(void) __attribute__((alias(#fn), copy(fn)))
#ifdef KERNEL_6_12
MODULE_INFO(vermagic, "6.12.0-kprobefs-amd64 SMP preempt mod_unload modversions ");
#elif defined(KERNEL_5_10)
MODULE_INFO(vermagic, "5.10.0-kprobefs-amd64 SMP mod_unload modversions ");
#else
MODULE_INFO(vermagic, "6.1.0-kprobefs-amd64 SMP preempt mod_unload modversions ");
#endif
MODULE_INFO(name, KBUILD_MODNAME);
#else
#define MODULE_LICENSE(x)
#define MODULE_AUTHOR(x)
#define MODULE_DESCRIPTION(x)
#endif
#endif
