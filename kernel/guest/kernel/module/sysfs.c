/* sysfs.c: the directory of a module in /sys/module, with its parameters. The host adds
 * the files that tell what the loader knows (refcnt, sections). */
#include <linux/kernel.h>
#include <linux/kobject.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/err.h>
#include "internal.h"

struct param_attribute {
	struct module_attribute mattr;
	const struct kernel_param *param;
};

/* 6.1's module_param_attrs, as far as anything looks. */
struct module_param_attrs {
	struct attribute_group grp;
	unsigned int num;
	struct attribute **list;
	struct param_attribute attrs[];
};

static ssize_t param_attr_show(struct module_attribute *mattr, struct module_kobject *mk, char *buf)
{
	const struct kernel_param *kp = container_of(mattr, struct param_attribute, mattr)->param;
	ssize_t count;

	if (!kp->ops->get)
		return -EPERM;
	kernel_param_lock(mk->mod);
	count = kp->ops->get(buf, kp);
	kernel_param_unlock(mk->mod);
	return count;
}

static ssize_t param_attr_store(struct module_attribute *mattr, struct module_kobject *mk, const char *buf, size_t len)
{
	const struct kernel_param *kp = container_of(mattr, struct param_attribute, mattr)->param;
	int err;

	if (!kp->ops->set)
		return -EPERM;
	kernel_param_lock(mk->mod);
	if (kp->flags & KERNEL_PARAM_FL_UNSAFE)
		pr_notice("Setting dangerous option %s - tainting kernel\n", kp->name);
	err = kp->ops->set(buf, kp);
	kernel_param_unlock(mk->mod);
	return err ? err : (ssize_t)len;
}

static ssize_t module_attr_show(struct kobject *kobj, struct attribute *attr, char *buf)
{
	struct module_attribute *a = container_of(attr, struct module_attribute, attr);

	return a->show ? a->show(a, container_of(kobj, struct module_kobject, kobj), buf) : -EIO;
}

static ssize_t module_attr_store(struct kobject *kobj, struct attribute *attr, const char *buf, size_t len)
{
	struct module_attribute *a = container_of(attr, struct module_attribute, attr);

	return a->store ? a->store(a, container_of(kobj, struct module_kobject, kobj), buf, len) : -EIO;
}

static const struct sysfs_ops module_sysfs_ops = {
	.show = module_attr_show,
	.store = module_attr_store,
};

/* The object is part of struct module, and is freed with it. */
static void module_kobj_release(struct kobject *kobj)
{
}

static const struct kobj_type module_ktype = {
	.release = module_kobj_release,
	.sysfs_ops = &module_sysfs_ops,
};

static void free_param_attrs(struct module *mod)
{
	if (mod->mkobj.mp)
		kfree(mod->mkobj.mp->list);
	kfree(mod->mkobj.mp);
	mod->mkobj.mp = NULL;
}

static noinline int module_param_sysfs_setup(struct module *mod)
{
	struct module_param_attrs *mp;
	unsigned int i;
	int err;

	mp = kzalloc(sizeof(*mp) + mod->num_kp * sizeof(mp->attrs[0]), GFP_KERNEL);
	if (!mp)
		return -ENOMEM;
	mod->mkobj.mp = mp;
	mp->list = kcalloc(mod->num_kp + 1, sizeof(mp->list[0]), GFP_KERNEL);
	if (!mp->list)
		return -ENOMEM;
	for (i = 0; i < mod->num_kp; i++) {
		struct param_attribute *a = &mp->attrs[mp->num];

		if (!mod->kp[i].perm)
			continue;
		a->mattr.attr = (struct attribute){ mod->kp[i].name, mod->kp[i].perm };
		a->mattr.show = param_attr_show;
		a->mattr.store = param_attr_store;
		a->param = &mod->kp[i];
		mp->list[mp->num++] = &a->mattr.attr;
	}
	if (!mp->num)
		return 0;
	mp->grp = (struct attribute_group){ .name = "parameters", .attrs = mp->list };
	err = sysfs_create_group(&mod->mkobj.kobj, &mp->grp);
	if (err)
		mp->num = 0;
	return err;
}

/* What the struct shows, as text. The host has the files. */
static ssize_t show_modinfo_version(struct module_attribute *a, struct module_kobject *mk, char *buf)
{
	return sprintf(buf, "%s\n", mk->mod->version);
}

static ssize_t show_modinfo_srcversion(struct module_attribute *a, struct module_kobject *mk, char *buf)
{
	return sprintf(buf, "%s\n", mk->mod->srcversion);
}

static ssize_t show_initstate(struct module_attribute *a, struct module_kobject *mk, char *buf)
{
	static const char *const states[] = { "live", "coming", "going", "unformed" };

	return sprintf(buf, "%s\n", states[mk->mod->state & 3]);
}

static ssize_t show_refcnt(struct module_attribute *a, struct module_kobject *mk, char *buf)
{
	return sprintf(buf, "%i\n", module_refcount(mk->mod));
}

static unsigned int sizes(struct module *mod, bool init)
{
#if GUEST_LINUX >= 612
	unsigned int size = 0;

	for_each_mod_mem_type(type)
		if (mod_mem_type_is_init(type) == init)
			size += mod->mem[type].size;
	return size;
#else
	return init ? mod->init_layout.size : mod->core_layout.size;
#endif
}

static ssize_t show_coresize(struct module_attribute *a, struct module_kobject *mk, char *buf)
{
	return sprintf(buf, "%u\n", sizes(mk->mod, false));
}

static ssize_t show_initsize(struct module_attribute *a, struct module_kobject *mk, char *buf)
{
	return sprintf(buf, "%u\n", sizes(mk->mod, true));
}

/* The letters of a module's taints, by their bits. */
static ssize_t show_taint(struct module_attribute *a, struct module_kobject *mk, char *buf)
{
	static const char letters[] = "PF        C OEK  XT";
	size_t n = 0;
	unsigned int i;

	for (i = 0; i < sizeof(letters) - 1; i++)
		if (letters[i] != ' ' && (mk->mod->taints & (1UL << i)))
			buf[n++] = letters[i];
	buf[n++] = '\n';
	return n;
}

static int has_version(struct module *mod) { return mod->version != NULL; }
static int has_srcversion(struct module *mod) { return mod->srcversion != NULL; }

static const struct module_attribute modinfo_attrs[] = {
	{ .attr = { "uevent", 0200 } },
	{ .attr = { "version", 0444 }, .show = show_modinfo_version, .test = has_version },
	{ .attr = { "srcversion", 0444 }, .show = show_modinfo_srcversion, .test = has_srcversion },
	{ .attr = { "initstate", 0444 }, .show = show_initstate },
	{ .attr = { "coresize", 0444 }, .show = show_coresize },
	{ .attr = { "initsize", 0444 }, .show = show_initsize },
	{ .attr = { "taint", 0444 }, .show = show_taint },
	{ .attr = { "refcnt", 0444 }, .show = show_refcnt },
};

/* An array of the module's own, which ends with an attribute without a name. */
static int module_add_modinfo_attrs(struct module *mod)
{
	struct module_attribute *to;
	unsigned int i;

	to = mod->modinfo_attrs = kcalloc(ARRAY_SIZE(modinfo_attrs) + 1, sizeof(*to), GFP_KERNEL);
	if (!to)
		return -ENOMEM;
	for (i = 0; i < ARRAY_SIZE(modinfo_attrs); i++)
		if (!modinfo_attrs[i].test || modinfo_attrs[i].test(mod))
			*to++ = modinfo_attrs[i];
	return 0;
}

/* Layouts that modules have copies of: each is one piece of memory, which a module may
 * free before it clears the pointer to it. */
struct module_sect_attr {
	struct bin_attribute battr;
	unsigned long address;
};

struct module_sect_attrs {
	struct attribute_group grp;
	unsigned int nsections;
	struct module_sect_attr attrs[];
};

struct module_notes_attrs {
	struct kobject *dir;
	unsigned int notes;
	struct bin_attribute attrs[];
};

static bool sect_listed(const Elf_Shdr *s)
{
	return (s->sh_flags & SHF_ALLOC) && s->sh_size;
}

static int add_sect_attrs(struct module *mod, const struct load_info *info)
{
	struct module_sect_attrs *all;
	unsigned int n = 0, i;

	for (i = 0; i < info->num_sections; i++)
		n += sect_listed(&info->sechdrs[i]);
	all = kzalloc(sizeof(*all) + n * sizeof(all->attrs[0]) + (n + 1) * sizeof(void *), GFP_KERNEL);
	if (!all)
		return -ENOMEM;
	mod->sect_attrs = all;
	all->grp.name = "sections";
	all->grp.bin_attrs = (struct bin_attribute **)&all->attrs[n];
	for (i = 0; i < info->num_sections; i++) {
		struct module_sect_attr *a = &all->attrs[all->nsections];

		if (!sect_listed(&info->sechdrs[i]))
			continue;
		a->battr.attr.name = kstrdup(info->secstrings + info->sechdrs[i].sh_name, GFP_KERNEL);
		if (!a->battr.attr.name)
			return -ENOMEM;
		a->battr.attr.mode = 0400;
		a->battr.size = 3 + 16;	/* "0x", the address, a newline */
		a->address = info->sechdrs[i].sh_addr;
		all->grp.bin_attrs[all->nsections++] = &a->battr;
	}
	return 0;
}

static void free_sect_attrs(struct module *mod)
{
	unsigned int i;

	if (!mod->sect_attrs)
		return;
	for (i = 0; i < mod->sect_attrs->nsections; i++)
		kfree(mod->sect_attrs->attrs[i].battr.attr.name);
	kfree(mod->sect_attrs);
	mod->sect_attrs = NULL;
}

static int add_notes_attrs(struct module *mod, const struct load_info *info)
{
	struct module_notes_attrs *all;
	unsigned int n = 0, i, named = 0;

	for (i = 0; i < info->num_sections; i++)
		n += sect_listed(&info->sechdrs[i]) && info->sechdrs[i].sh_type == SHT_NOTE;
	if (!n)
		return 0;
	all = kzalloc(sizeof(*all) + n * sizeof(all->attrs[0]), GFP_KERNEL);
	if (!all)
		return -ENOMEM;
	mod->notes_attrs = all;
	for (i = 0; i < info->num_sections; i++) {
		const Elf_Shdr *s = &info->sechdrs[i];

		if (!sect_listed(s))
			continue;
		if (s->sh_type == SHT_NOTE) {
			all->attrs[all->notes].attr.mode = 0444;
			all->attrs[all->notes].attr.name = mod->sect_attrs->attrs[named].battr.attr.name;
			all->attrs[all->notes].size = s->sh_size;
			all->attrs[all->notes++].private = (void *)s->sh_addr;
		}
		named++;
	}
	all->dir = kobject_create_and_add("notes", &mod->mkobj.kobj);
	return all->dir ? 0 : -ENOMEM;
}

static void free_notes_attrs(struct module *mod)
{
	if (mod->notes_attrs)
		kobject_put(mod->notes_attrs->dir);
	kfree(mod->notes_attrs);
	mod->notes_attrs = NULL;
}

static int mod_sysfs_add(struct module *mod, const struct load_info *info)
{
	int err = kobject_init_and_add(&mod->mkobj.kobj, &module_ktype, module_kobj, "%s", mod->name);

	if (err)
		return err;
	mod->holders_dir = kobject_create_and_add("holders", &mod->mkobj.kobj);
	if (!mod->holders_dir)
		return -ENOMEM;
	return module_param_sysfs_setup(mod) ?: module_add_modinfo_attrs(mod) ?:
		add_sect_attrs(mod, info) ?: add_notes_attrs(mod, info);
}

/* Makes /sys/module/NAME. It returns -errno, and leaves nothing behind then. */
int mod_sysfs_setup(struct module *mod, const struct load_info *info)
{
	int err;

	mod->mkobj.mod = mod;
	memset(&mod->mkobj.kobj, 0, sizeof(mod->mkobj.kobj));
	mod->mkobj.kobj.kset = module_kset;
	err = mod_sysfs_add(mod, info);
	if (err)
		mod_sysfs_teardown(mod);
	return err;
}

/* Removes /sys/module/NAME, after the calls that are in its files. */
void mod_sysfs_teardown(struct module *mod)
{
	if (!mod->mkobj.kobj.state_initialized)
		return;
	free_notes_attrs(mod);
	free_sect_attrs(mod);
	kfree(mod->modinfo_attrs);
	mod->modinfo_attrs = NULL;
	kobject_put(mod->holders_dir);
	mod->holders_dir = NULL;
	kobject_del(&mod->mkobj.kobj);
	free_param_attrs(mod);
	kobject_put(&mod->mkobj.kobj);
}
