/*
 * module.h: declarations of modules. In the core kernel they have no effect. In a
 * module (MODULE is defined) they are stored in .modinfo, and the init and exit
 * functions get the names that the loader looks up.
 */
#ifndef _LINUX_MODULE_H
#define _LINUX_MODULE_H
#include <linux/export.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/moduleparam.h>
#include <linux/types.h>

struct module;
struct kernel_param;
struct exception_table_entry;
struct bug_entry;

enum module_state { MODULE_STATE_LIVE, MODULE_STATE_COMING, MODULE_STATE_GOING, MODULE_STATE_UNFORMED };

#include <linux/kobject.h>

struct module_param_attrs;
struct module_kobject {
	struct kobject kobj;
	struct module *mod;
	struct kobject *drivers_dir;
	struct module_param_attrs *mp;
	void *kobj_completion;
};
static_assert(sizeof(struct module_kobject) == 96, "struct module_kobject");

/* The fields that something here looks at, where 6.1 has them. The loader fills them in. */
struct module {
	enum module_state state;
	struct list_head list;
	char name[56];
	struct module_kobject mkobj;
	char __before_kp[88];
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
	char __before_tracepoints[16];
	unsigned int num_tracepoints;
	const int *tracepoints_ptrs;	/* each is the distance from here to a struct tracepoint */
	unsigned int num_srcu_structs;
	struct srcu_struct **srcu_struct_ptrs;
	char __before_fmts[44];
	unsigned int num_trace_bprintk_fmt;
	const char **trace_bprintk_fmt_start;
	char __before_exit[128];
	void (*exit)(void);
	atomic_t refcnt;
	char __tail[36];
};
static_assert(offsetof(struct module, mkobj) == 80, "struct module");
static_assert(offsetof(struct module, kp) == 264, "struct module");
static_assert(offsetof(struct module, num_exentries) == 300, "struct module");
static_assert(offsetof(struct module, init) == 312, "struct module");
static_assert(offsetof(struct module, taints) == 504, "struct module");
static_assert(offsetof(struct module, bug_table) == 536, "struct module");
static_assert(offsetof(struct module, args) == 600, "struct module");
static_assert(offsetof(struct module, percpu_size) == 616, "struct module");
static_assert(offsetof(struct module, tracepoints_ptrs) == 640, "struct module");
static_assert(offsetof(struct module, srcu_struct_ptrs) == 656, "struct module");
static_assert(offsetof(struct module, trace_bprintk_fmt_start) == 712, "struct module");
static_assert(offsetof(struct module, exit) == 848, "struct module");
static_assert(offsetof(struct module, refcnt) == 856, "struct module");
static_assert(sizeof(struct module) == 896, "struct module");

const struct exception_table_entry *search_module_extables(unsigned long addr);
struct bug_entry *module_find_bug(unsigned long bugaddr);
bool try_module_get(struct module *module);
struct notifier_block;
int register_module_notifier(struct notifier_block *nb);
int unregister_module_notifier(struct notifier_block *nb);
void __module_get(struct module *module);
void module_put(struct module *module);

static inline const char *module_name(struct module *mod) { return mod ? mod->name : "kernel"; }
int module_refcount(struct module *mod);
int mod_sysfs_setup(struct module *mod);
void mod_sysfs_teardown(struct module *mod);

#ifdef MODULE
extern struct module __this_module;
extern int init_module(void);
extern void cleanup_module(void);
#define THIS_MODULE		(&__this_module)
#define __exit			__section(".exit.text") __cold notrace
#define __exitdata		__section(".exit.data")
#undef module_init
/* Documents write both with and without a semicolon. */
#define module_init(fn)		int init_module(void) __attribute__((alias(#fn), copy(fn)));
#define module_exit(fn)		void cleanup_module(void) __attribute__((alias(#fn), copy(fn)));
#else
#define THIS_MODULE		((struct module *)0)
#define __exit			__section(".exit.text") __cold
#endif
#ifdef MODULE_BARE	/* without a struct module: the modules of kernel/guest/modules */
#include <linux/vermagic.h>
MODULE_INFO(vermagic, VERMAGIC_STRING);
MODULE_INFO(name, KBUILD_MODNAME);
#endif
#define MODULE_LICENSE(x)	MODULE_INFO(license, x)
#define MODULE_AUTHOR(x)	MODULE_INFO(author, x)
#define MODULE_DESCRIPTION(x)	MODULE_INFO(description, x)
#define MODULE_VERSION(x)	MODULE_INFO(version, x)
#define MODULE_ALIAS(x)		MODULE_INFO(alias, x)
#define MODULE_SOFTDEP(x)	MODULE_INFO(softdep, x)
#define MODULE_FIRMWARE(x)	MODULE_INFO(firmware, x)
#define MODULE_IMPORT_NS(x)	MODULE_INFO(import_ns, #x)
#define MODULE_SUPPORTED_DEVICE(x)
#define MODULE_DEVICE_TABLE(type, name)

#if defined(MODULE) && !defined(MODULE_BARE)
/* What sources have without including it, as on Linux. */
#include <linux/hex.h>
#include <linux/kallsyms.h>
#include <linux/kstrtox.h>
#include <linux/mutex.h>
#include <linux/notifier.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/sprintf.h>
#include <linux/string.h>
#include <linux/workqueue.h>
#endif
#endif
