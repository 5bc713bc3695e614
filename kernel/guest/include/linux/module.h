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
#include <linux/elf.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/rbtree.h>
#include <linux/types.h>

struct module;
struct kernel_param;
struct exception_table_entry;
struct bug_entry;

enum module_state { MODULE_STATE_LIVE, MODULE_STATE_COMING, MODULE_STATE_GOING, MODULE_STATE_UNFORMED };

#include <linux/kobject.h>

#define MODULE_NAME_LEN (64 - sizeof(unsigned long))

struct module_param_attrs;
struct module_attribute;
struct kernel_symbol;
struct orc_entry;
struct jump_entry;
struct static_call_site;
struct trace_event_call;
struct trace_eval_map;
struct bpf_raw_event_map;
struct klp_modinfo;
struct module_kobject {
	struct kobject kobj;
	struct module *mod;
	struct kobject *drivers_dir;
	struct module_param_attrs *mp;
	void *kobj_completion;
};

struct module_attribute {
	struct attribute attr;
	ssize_t (*show)(struct module_attribute *, struct module_kobject *, char *);
	ssize_t (*store)(struct module_attribute *, struct module_kobject *, const char *, size_t count);
	void (*setup)(struct module *, const char *);
	int (*test)(struct module *);
	void (*free)(struct module *);
};
static_assert(sizeof(struct module_attribute) == 56, "struct module_attribute");
static_assert(sizeof(struct module_kobject) == 96, "struct module_kobject");

/* Where the symbols of a module are, for kallsyms. */
struct mod_kallsyms {
	Elf_Sym *symtab;
	unsigned int num_symtab;
	char *strtab;
	char *typetab;	/* nm's letters */
};

struct latch_tree_node {
	struct rb_node node[2];
};

/* A node of the tree by which Linux finds the module of an address. Here it is in no tree. */
struct mod_tree_node {
	struct module *mod;
	struct latch_tree_node node;
};

#if GUEST_LINUX >= 612
/* A module's memory: a piece for each kind of section. */
enum mod_mem_type {
	MOD_TEXT,
	MOD_DATA,
	MOD_RODATA,
	MOD_RO_AFTER_INIT,
	MOD_INIT_TEXT,
	MOD_INIT_DATA,
	MOD_INIT_RODATA,

	MOD_MEM_NUM_TYPES,
	MOD_INVALID = -1,
};

#define mod_mem_type_is_init(type)	((type) >= MOD_INIT_TEXT && (type) <= MOD_INIT_RODATA)
#define mod_mem_type_is_core(type)	(!mod_mem_type_is_init(type))
#define mod_mem_type_is_text(type)	((type) == MOD_TEXT || (type) == MOD_INIT_TEXT)
#define mod_mem_type_is_data(type)	(!mod_mem_type_is_text(type))
#define mod_mem_type_is_core_data(type)	(mod_mem_type_is_core(type) && mod_mem_type_is_data(type))
#define for_each_mod_mem_type(type)	for (enum mod_mem_type type = 0; type < MOD_MEM_NUM_TYPES; type++)
#define for_class_mod_mem_type(type, class)	for_each_mod_mem_type(type) if (mod_mem_type_is_##class(type))

struct module_memory {
	void *base;
	unsigned int size;
	struct mod_tree_node mtn;
};
static_assert(sizeof(struct module_memory) == 72, "struct module_memory");
#else
/* A module's memory: text, what is only read, what is only read after init, the rest. */
struct module_layout {
	void *base;
	unsigned int size;
	unsigned int text_size;
	unsigned int ro_size;		/* with the text */
	unsigned int ro_after_init_size; /* with all before it */
	struct mod_tree_node mtn;
};
static_assert(sizeof(struct module_layout) == 80, "struct module_layout");
#endif

struct mod_arch_specific {
	unsigned int num_orcs;
	int *orc_unwind_ip;
	struct orc_entry *orc_unwind;
};

/* A module that uses another one: its place on the lists of both. */
struct module_use {
	struct list_head source_list;
	struct list_head target_list;
	struct module *source, *target;
};

/* As it is in the kernel of each release. load_module fills it in. */
struct module {
	enum module_state state;
	struct list_head list;
	char name[MODULE_NAME_LEN];
	struct module_kobject mkobj;
	struct module_attribute *modinfo_attrs;
	const char *version;
	const char *srcversion;
	struct kobject *holders_dir;
	const struct kernel_symbol *syms;
	const s32 *crcs;
	unsigned int num_syms;
	struct mutex param_lock;
	struct kernel_param *kp;
	unsigned int num_kp;
	unsigned int num_gpl_syms;
	const struct kernel_symbol *gpl_syms;
	const s32 *gpl_crcs;
	bool using_gplonly_symbols;
	bool sig_ok;
	bool async_probe_requested;
#if GUEST_LINUX < 601
	const struct kernel_symbol *gpl_future_syms;
	const s32 *gpl_future_crcs;
	unsigned int num_gpl_future_syms;
#endif
	unsigned int num_exentries;
	struct exception_table_entry *extable;
	int (*init)(void);
#if GUEST_LINUX >= 612
	struct module_memory mem[MOD_MEM_NUM_TYPES];
#else
	struct module_layout core_layout __attribute__((aligned(64)));
	struct module_layout init_layout;
#endif
	struct mod_arch_specific arch;
	unsigned long taints;
	unsigned int num_bugs;
	struct list_head bug_list;
	struct bug_entry *bug_table;
	struct mod_kallsyms *kallsyms;
	struct mod_kallsyms core_kallsyms;
	struct module_sect_attrs *sect_attrs;
	struct module_notes_attrs *notes_attrs;
	char *args;
	void *percpu;
	unsigned int percpu_size;
	void *noinstr_text_start;
	unsigned int noinstr_text_size;
	unsigned int num_tracepoints;
	const int *tracepoints_ptrs;	/* each is the distance from here to a struct tracepoint */
	unsigned int num_srcu_structs;
	struct srcu_struct **srcu_struct_ptrs;
	unsigned int num_bpf_raw_events;
	struct bpf_raw_event_map *bpf_raw_events;
#if GUEST_LINUX >= 601
	unsigned int btf_data_size;
#if GUEST_LINUX >= 612
	unsigned int btf_base_data_size;
#endif
	void *btf_data;
#endif
#if GUEST_LINUX >= 612
	void *btf_base_data;
#endif
	struct jump_entry *jump_entries;
	unsigned int num_jump_entries;
	unsigned int num_trace_bprintk_fmt;
	const char **trace_bprintk_fmt_start;
	struct trace_event_call **trace_events;
	unsigned int num_trace_events;
	struct trace_eval_map **trace_evals;
	unsigned int num_trace_evals;
	unsigned int num_ftrace_callsites;
	unsigned long *ftrace_callsites;
	void *kprobes_text_start;
	unsigned int kprobes_text_size;
	unsigned long *kprobe_blacklist;
	unsigned int num_kprobe_blacklist;
	int num_static_call_sites;
	struct static_call_site *static_call_sites;
	bool klp;
	bool klp_alive;
	struct klp_modinfo *klp_info;
	struct list_head source_list;	/* the modules that use it: struct module_use */
	struct list_head target_list;	/* the modules that it uses */
	void (*exit)(void);
	atomic_t refcnt;
#if GUEST_LINUX >= 601
	int its_num_pages;
	void **its_page_array;
#endif
#if GUEST_LINUX >= 612
	struct {
		void *descs, *classes;
		unsigned int num_descs, num_classes;
	} dyndbg_info;
#endif
} __attribute__((aligned(64)));
static_assert(offsetof(struct module, mkobj) == 80, "struct module");
static_assert(offsetof(struct module, kp) == 264, "struct module");
/* These differ. kernel/module/debian.go has the last two. */
#if GUEST_LINUX < 601
#define MODULE_OFFSETS(v5_10, v6_1, v6_12) (v5_10)
#elif GUEST_LINUX >= 612
#define MODULE_OFFSETS(v5_10, v6_1, v6_12) (v6_12)
#else
#define MODULE_OFFSETS(v5_10, v6_1, v6_12) (v6_1)
#endif
static_assert(offsetof(struct module, num_exentries) == MODULE_OFFSETS(0x144, 0x12c, 0x12c), "struct module");
static_assert(offsetof(struct module, init) == MODULE_OFFSETS(0x150, 0x138, 0x138), "struct module");
static_assert(offsetof(struct module, taints) == MODULE_OFFSETS(0x238, 0x1f8, 0x350), "struct module");
static_assert(offsetof(struct module, kallsyms) == MODULE_OFFSETS(0x260, 0x220, 0x378), "struct module");
static_assert(offsetof(struct module, args) == MODULE_OFFSETS(0x298, 0x258, 0x3b0), "struct module");
static_assert(offsetof(struct module, jump_entries) == MODULE_OFFSETS(0x2e8, 0x2b8, 0x418), "struct module");
static_assert(offsetof(struct module, static_call_sites) == MODULE_OFFSETS(0x348, 0x318, 0x478), "struct module");
static_assert(offsetof(struct module, source_list) == MODULE_OFFSETS(0x360, 0x330, 0x490), "struct module");
static_assert(offsetof(struct module, exit) == MODULE_OFFSETS(0x380, 0x350, 0x4b0), "struct module");
static_assert(offsetof(struct module, refcnt) == MODULE_OFFSETS(0x388, 0x358, 0x4b8), "struct module");
static_assert(sizeof(struct module) == MODULE_OFFSETS(960, 896, 1280), "struct module");
#undef MODULE_OFFSETS

#if GUEST_LINUX >= 612
static inline bool within_module_mem_type(unsigned long addr, const struct module *mod, enum mod_mem_type type)
{
	return addr - (unsigned long)mod->mem[type].base < mod->mem[type].size;
}

static inline bool within_module_core(unsigned long addr, const struct module *mod)
{
	for_class_mod_mem_type(type, core)
		if (within_module_mem_type(addr, mod, type))
			return true;
	return false;
}

static inline bool within_module_init(unsigned long addr, const struct module *mod)
{
	for_class_mod_mem_type(type, init)
		if (within_module_mem_type(addr, mod, type))
			return true;
	return false;
}
#else
static inline bool within_module_core(unsigned long addr, const struct module *mod)
{
	return addr - (unsigned long)mod->core_layout.base < mod->core_layout.size;
}

static inline bool within_module_init(unsigned long addr, const struct module *mod)
{
	return addr - (unsigned long)mod->init_layout.base < mod->init_layout.size;
}
#endif

static inline bool within_module(unsigned long addr, const struct module *mod)
{
	return within_module_init(addr, mod) || within_module_core(addr, mod);
}

static inline bool module_is_live(struct module *mod) { return mod->state != MODULE_STATE_GOING; }
static inline bool module_requested_async_probing(struct module *module) { return module && module->async_probe_requested; }
static inline bool is_livepatch_module(struct module *mod) { return mod->klp; }
static inline bool module_sig_ok(struct module *module) { return module->sig_ok; }
#if GUEST_LINUX >= 601
static inline const unsigned char *module_buildid(struct module *mod) { return NULL; }
#endif
static inline unsigned long kallsyms_symbol_value(const Elf_Sym *sym) { return sym->st_value; }

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
#include <linux/container_of.h>
#include <linux/hex.h>
#include <linux/kallsyms.h>
#include <linux/kstrtox.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/notifier.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/sprintf.h>
#include <linux/string.h>
#include <linux/workqueue.h>
#endif
#endif
