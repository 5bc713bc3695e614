/*
 * main.c: the modules that are loaded, as the kernel sees them. The machine puts a
 * module in place and resolves its symbols (struct load_info); what is done by the
 * kernel's own code, such as filling in its struct module, is here. Modules without a
 * struct module are not listed.
 */
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/atomic.h>
#include <linux/dynamic_debug.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/notifier.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <asm/host.h>
#include <asm/traps.h>
#include "internal.h"

static LIST_HEAD(modules);
static LIST_HEAD(module_bug_list);
static DEFINE_MUTEX(module_mutex);

static int unknown_module_param_cb(char *param, char *val, const char *modname, void *arg)
{
	if (ddebug_dyndbg_module_param_cb(param, val, modname))
		pr_warn("%s: unknown parameter '%s' ignored\n", modname, param);
	return 0;
}

static struct blocking_notifier_head module_notify_list;

int register_module_notifier(struct notifier_block *nb)
{
	return blocking_notifier_chain_register(&module_notify_list, nb);
}
EXPORT_SYMBOL(register_module_notifier);

int unregister_module_notifier(struct notifier_block *nb)
{
	return blocking_notifier_chain_unregister(&module_notify_list, nb);
}
EXPORT_SYMBOL(unregister_module_notifier);

/* The kernel's own notifier: the machine does what kprobes, ftrace and the tracer do. */
static int module_event(struct notifier_block *nb, unsigned long state, void *mod)
{
	void hold_module_trace_bprintk_format(const char **start, const char **end);
	int srcu_module_coming(struct module *mod), tracepoint_module_coming(struct module *mod);
	void srcu_module_going(struct module *mod), tracepoint_module_going(struct module *mod);
	struct module *m = mod;
	int ret;

	if (state != MODULE_STATE_COMING) {
		WARN_ON(probe_request(MODULE_EVENT, mod, state));
		if (state == MODULE_STATE_GOING) {
			tracepoint_module_going(m);
			srcu_module_going(m);
		}
		return NOTIFY_OK;
	}
	hold_module_trace_bprintk_format(m->trace_bprintk_fmt_start, m->trace_bprintk_fmt_start + m->num_trace_bprintk_fmt);
	ret = srcu_module_coming(m);
	if (!ret) {
		ret = tracepoint_module_coming(m);
		if (ret)
			srcu_module_going(m);
	}
	return notifier_from_errno(ret);
}

static struct notifier_block module_nb = { .notifier_call = module_event };
static struct blocking_notifier_head module_notify_list = { __RWSEM_INITIALIZER(module_notify_list.rwsem), &module_nb };

/* Tells the notifiers. A module that one of them refuses leaves the list, so that they
 * are not told again when it goes. */
static int prepare_coming_module(struct module *mod)
{
	int ret = notifier_to_errno(blocking_notifier_call_chain_robust(&module_notify_list,
			MODULE_STATE_COMING, MODULE_STATE_GOING, mod));

	if (ret) {
		mutex_lock(&module_mutex);
		list_del_init(&mod->list);
		mutex_unlock(&module_mutex);
	}
	return ret;
}

/* A member of struct module that is a section, and the one that says how long that is. */
static const struct {
	const char *section;
	unsigned short at, count;
	unsigned short size;	/* of an entry: what is counted, bytes */
} module_sections[] = {
#define SECTION(name, ptr, num, bytes) { name, offsetof(struct module, ptr), offsetof(struct module, num), bytes }
	SECTION("__param", kp, num_kp, sizeof(struct kernel_param)),
	SECTION("__ksymtab", syms, num_syms, 12),
	SECTION("__ksymtab_gpl", gpl_syms, num_gpl_syms, 12),
	SECTION("__ex_table", extable, num_exentries, sizeof(struct exception_table_entry)),
	SECTION("__bug_table", bug_table, num_bugs, sizeof(struct bug_entry)),
	SECTION(".noinstr.text", noinstr_text_start, noinstr_text_size, 1),
	SECTION("__tracepoints_ptrs", tracepoints_ptrs, num_tracepoints, sizeof(int)),
	SECTION("___srcu_struct_ptrs", srcu_struct_ptrs, num_srcu_structs, sizeof(void *)),
	SECTION("__bpf_raw_tp_map", bpf_raw_events, num_bpf_raw_events, 32),
#if GUEST_LINUX >= 601
	SECTION(".BTF", btf_data, btf_data_size, 1),
#endif
#if GUEST_LINUX >= 612
	SECTION(".BTF.base", btf_base_data, btf_base_data_size, 1),
	SECTION("__dyndbg", dyndbg_info.descs, dyndbg_info.num_descs, 56),
	SECTION("__dyndbg_classes", dyndbg_info.classes, dyndbg_info.num_classes, 56),
#endif
	SECTION("__jump_table", jump_entries, num_jump_entries, 16),
	SECTION("__trace_printk_fmt", trace_bprintk_fmt_start, num_trace_bprintk_fmt, sizeof(char *)),
	SECTION("_ftrace_events", trace_events, num_trace_events, sizeof(void *)),
	SECTION("_ftrace_eval_map", trace_evals, num_trace_evals, sizeof(void *)),
	SECTION("__mcount_loc", ftrace_callsites, num_ftrace_callsites, sizeof(long)),
	SECTION(".kprobes.text", kprobes_text_start, kprobes_text_size, 1),
	SECTION("_kprobe_blacklist", kprobe_blacklist, num_kprobe_blacklist, sizeof(long)),
	SECTION(".static_call_sites", static_call_sites, num_static_call_sites, 8),
	SECTION(".orc_unwind_ip", arch.orc_unwind_ip, arch.num_orcs, sizeof(int)),
#undef SECTION
};

static const Elf_Shdr *find_sec(const struct load_info *info, const char *name)
{
	unsigned long i;

	for (i = 0; i < info->num_sections; i++)
		if ((info->sechdrs[i].sh_flags & SHF_ALLOC) && !strcmp(info->secstrings + info->sechdrs[i].sh_name, name))
			return &info->sechdrs[i];
	return NULL;
}

static void *section_addr(const struct load_info *info, const char *name)
{
	const Elf_Shdr *s = find_sec(info, name);

	return s ? (void *)s->sh_addr : NULL;
}

static void find_module_sections(struct module *mod, const struct load_info *info)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(module_sections); i++) {
		const Elf_Shdr *s = find_sec(info, module_sections[i].section);

		if (!s)
			continue;
		*(unsigned long *)((char *)mod + module_sections[i].at) = s->sh_addr;
		*(unsigned int *)((char *)mod + module_sections[i].count) = s->sh_size / module_sections[i].size;
	}
	mod->crcs = section_addr(info, "__kcrctab");
	mod->gpl_crcs = section_addr(info, "__kcrctab_gpl");
	mod->arch.orc_unwind = section_addr(info, ".orc_unwind");
}

#if GUEST_LINUX >= 612
static void set_memory(struct module *mod, const struct load_info *info)
{
	static const unsigned char areas[MOD_MEM_NUM_TYPES] = { CORE_TEXT, CORE_DATA, CORE_RODATA, CORE_RO_AFTER_INIT,
		INIT_TEXT, INIT_DATA, INIT_RODATA };

	for_each_mod_mem_type(type) {
		mod->mem[type].base = (void *)info->areas[areas[type]].base;
		mod->mem[type].size = info->areas[areas[type]].size;
		mod->mem[type].mtn.mod = mod;
	}
}

static void forget_init(struct module *mod)
{
	for_class_mod_mem_type(type, init) {
		mod->mem[type].base = NULL;
		mod->mem[type].size = 0;
	}
}
#else
/* The areas from first on lie one after the other. */
static void set_layout(struct module_layout *layout, struct module *mod, const struct load_info *info, int first)
{
	unsigned int size = 0;
	int i;

	for (i = 0; i < INIT_TEXT; i++) {
		if (!layout->base && info->areas[first + i].size)
			layout->base = (void *)info->areas[first + i].base;
		size += info->areas[first + i].size;
		if (i == CORE_TEXT)
			layout->text_size = size;
		else if (i == CORE_RODATA)
			layout->ro_size = size;
		else if (i == CORE_RO_AFTER_INIT)
			layout->ro_after_init_size = size;
	}
	layout->size = size;
	layout->mtn.mod = mod;
}

static void set_memory(struct module *mod, const struct load_info *info)
{
	set_layout(&mod->core_layout, mod, info, CORE_TEXT);
	set_layout(&mod->init_layout, mod, info, INIT_TEXT);
}

static void forget_init(struct module *mod)
{
	mod->init_layout.base = NULL;
	mod->init_layout.size = mod->init_layout.text_size = 0;
	mod->init_layout.ro_size = mod->init_layout.ro_after_init_size = 0;
}
#endif

static int copy_text(const char **to, const char *text)
{
	*to = text ? kstrdup(text, GFP_KERNEL) : NULL;
	return text && !*to ? -ENOMEM : 0;
}

/* Fills in struct module. free_module_texts frees what it has allocated, also after an error. */
static int setup_module(struct module *mod, const struct load_info *info)
{
	find_module_sections(mod, info);
	set_memory(mod, info);
	mod->percpu = info->percpu;
	mod->percpu_size = info->percpu_size;
	mod->taints = info->taints;
	mod->kallsyms = info->kallsyms;
	mod->core_kallsyms = info->core_kallsyms;
	mutex_init(&mod->param_lock);
	INIT_LIST_HEAD(&mod->source_list);
	INIT_LIST_HEAD(&mod->target_list);
	atomic_set(&mod->refcnt, 2);	/* one is the loader's, until init is done */
	mod->args = kvzalloc(strlen(info->args) + 1, GFP_KERNEL);
	if (!mod->args)
		return -ENOMEM;
	strcpy(mod->args, info->args);
	return copy_text(&mod->version, info->version) ?: copy_text(&mod->srcversion, info->srcversion);
}

static void free_module_texts(struct module *mod)
{
	kvfree(mod->args);
	mod->args = NULL;
	kfree(mod->version);
	kfree(mod->srcversion);
	mod->version = mod->srcversion = NULL;
}

/* a uses b, which cannot be unloaded then. */
static int add_module_usage(struct module *a, struct module *b)
{
	struct module_use *use = kmalloc(sizeof(*use), GFP_KERNEL);

	if (!use)
		return -ENOMEM;
	use->source = a;
	use->target = b;
	__module_get(b);
	list_add(&use->source_list, &b->source_list);
	list_add(&use->target_list, &a->target_list);
	return 0;
}

static int add_usages(struct module *mod, const struct load_info *info)
{
	unsigned long i;
	int ret = 0;

	mutex_lock(&module_mutex);
	for (i = 0; i < info->num_uses && !ret; i++)
		ret = add_module_usage(mod, info->uses[i]);
	mutex_unlock(&module_mutex);
	return ret;
}

static void module_unload_free(struct module *mod)
{
	struct module_use *use, *tmp;

	mutex_lock(&module_mutex);
	list_for_each_entry_safe(use, tmp, &mod->target_list, target_list) {
		module_put(use->target);
		list_del(&use->source_list);
		list_del(&use->target_list);
		kfree(use);
	}
	mutex_unlock(&module_mutex);
}

static noinline int do_init_module(struct module *mod)
{
	int do_one_initcall(initcall_t fn);
	int ret = mod->init ? do_one_initcall(mod->init) : 0;

	if (ret > 0) {
		pr_warn("%s: '%s'->init suspiciously returned %d, it should follow 0/-E convention\n"
			"%s: loading module anyway...\n", __func__, mod->name, ret, __func__);
		dump_stack();
	}
	if (ret >= 0) {
		WRITE_ONCE(mod->state, MODULE_STATE_LIVE);
		blocking_notifier_call_chain(&module_notify_list, MODULE_STATE_LIVE, mod);
	}
	module_put(mod);	/* the loader's */
	if (ret >= 0) {
		WRITE_ONCE(mod->kallsyms, &mod->core_kallsyms);
		forget_init(mod);
	}
	return ret;
}

/*
 * Fills in a module's struct, adds it to the list, tells the notifiers, parses its
 * arguments and calls its init function. Returns the result of that, or -errno; the
 * machine calls free_module in both cases. Called by the machine.
 */
int load_module(const struct load_info *info)
{
	struct module *mod = info->mod;
	const Elf_Shdr *debug;
	char *after_dashes;
	int ret;

	INIT_LIST_HEAD(&mod->list);
	INIT_LIST_HEAD(&mod->bug_list);
	ret = setup_module(mod, info) ?: add_usages(mod, info);
	if (ret)
		return ret;
	mutex_lock(&module_mutex);
	list_add_rcu(&mod->list, &modules);
	list_add_rcu(&mod->bug_list, &module_bug_list);
	mutex_unlock(&module_mutex);
	debug = find_sec(info, "__dyndbg");
	ret = debug ? ddebug_add_module((void *)debug->sh_addr, debug->sh_size / sizeof(struct _ddebug), mod) : 0;
	if (ret)
		return ret;
	ret = prepare_coming_module(mod);
	if (ret)
		return ret;
	after_dashes = parse_args(mod->name, mod->args, mod->kp, mod->num_kp, -32768, 32767, mod, unknown_module_param_cb);
	if (IS_ERR(after_dashes))
		return PTR_ERR(after_dashes);
	if (after_dashes)
		pr_warn("%s: parameters '%s' after `--' ignored\n", mod->name, after_dashes);
	ret = mod_sysfs_setup(mod, info);
	if (ret)
		return ret;
	return do_init_module(mod);
}

/* Tells the notifiers that a module goes, removes it from the list and frees what
 * belongs to it. Called by the machine. */
void free_module(struct module *mod)
{
	if (!list_empty(&mod->list))
		blocking_notifier_call_chain(&module_notify_list, MODULE_STATE_GOING, mod);
	ddebug_remove_module(mod);
	mod_sysfs_teardown(mod);
	mutex_lock(&module_mutex);
	if (!list_empty(&mod->list))
		list_del_rcu(&mod->list);
	if (!list_empty(&mod->bug_list))
		list_del_rcu(&mod->bug_list);
	mutex_unlock(&module_mutex);
	module_unload_free(mod);
	destroy_params(mod->kp, mod->num_kp);
	free_module_texts(mod);
}

/* Returns the number of references, or -1 when the module is being unloaded. */
int module_refcount(struct module *mod)
{
	return atomic_read(&mod->refcnt) - 1;
}
EXPORT_SYMBOL(module_refcount);

bool try_module_get(struct module *module)
{
	if (!module)
		return true;
	return module->state != MODULE_STATE_GOING && atomic_add_unless(&module->refcnt, 1, 0);
}
EXPORT_SYMBOL(try_module_get);

void __module_get(struct module *module)
{
	if (module)
		atomic_inc(&module->refcnt);
}
EXPORT_SYMBOL(__module_get);

void module_put(struct module *module)
{
	if (module)
		WARN_ON(atomic_dec_return(&module->refcnt) < 0);
}
EXPORT_SYMBOL(module_put);

const struct exception_table_entry *search_module_extables(unsigned long addr)
{
	const struct exception_table_entry *search_extable(const struct exception_table_entry *base,
							   const size_t num, unsigned long value);
	const struct exception_table_entry *e = NULL;
	struct module *mod;

	rcu_read_lock();
	list_for_each_entry_rcu(mod, &modules, list) {
		e = search_extable(mod->extable, mod->num_exentries, addr);
		if (e)
			break;
	}
	rcu_read_unlock();
	return e;
}

struct bug_entry *module_find_bug(unsigned long bugaddr)
{
	struct bug_entry *found = NULL;
	struct module *mod;
	unsigned int i;

	rcu_read_lock();
	list_for_each_entry_rcu(mod, &modules, list)
		for (i = 0; i < mod->num_bugs; i++)
			if ((unsigned long)&mod->bug_table[i].bug_addr_disp + mod->bug_table[i].bug_addr_disp == bugaddr)
				found = &mod->bug_table[i];
	rcu_read_unlock();
	return found;
}
NOKPROBE_SYMBOL(module_find_bug);
