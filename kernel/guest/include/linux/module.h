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
struct kernel_param;
struct exception_table_entry;
struct bug_entry;

enum module_state { MODULE_STATE_LIVE, MODULE_STATE_COMING, MODULE_STATE_GOING, MODULE_STATE_UNFORMED };

#ifndef MODULE
#include <linux/types.h>
/* The fields that something here looks at, where 6.1 has them. The loader fills them in. */
struct module {
	enum module_state state;
	struct list_head list;
	char name[56];
	char __before_kp[184];
	struct kernel_param *kp;
	unsigned int num_kp;
	char __before_num_exentries[24];
	unsigned int num_exentries;
	struct exception_table_entry *extable;
	int (*init)(void);
	char __before_taints[184];
	unsigned long taints;
	unsigned int num_bugs;
	struct list_head bug_list;
	struct bug_entry *bug_table;
	char __before_args[56];
	char *args;
	void *percpu;
	unsigned int percpu_size;
	char __before_exit[228];
	void (*exit)(void);
	atomic_t refcnt;
	char __tail[36];
};
static_assert(offsetof(struct module, kp) == 264, "struct module");
static_assert(offsetof(struct module, num_exentries) == 300, "struct module");
static_assert(offsetof(struct module, init) == 312, "struct module");
static_assert(offsetof(struct module, taints) == 504, "struct module");
static_assert(offsetof(struct module, bug_table) == 536, "struct module");
static_assert(offsetof(struct module, args) == 600, "struct module");
static_assert(offsetof(struct module, percpu_size) == 616, "struct module");
static_assert(offsetof(struct module, exit) == 848, "struct module");
static_assert(offsetof(struct module, refcnt) == 856, "struct module");
static_assert(sizeof(struct module) == 896, "struct module");

const struct exception_table_entry *search_module_extables(unsigned long addr);
struct bug_entry *module_find_bug(unsigned long bugaddr);
bool try_module_get(struct module *module);
void __module_get(struct module *module);
void module_put(struct module *module);
#endif

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
