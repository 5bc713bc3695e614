/* sysfs.c: the directory of a module in /sys/module, with its parameters. The host adds
 * the files that tell what the loader knows (refcnt, sections). */
#include <linux/kernel.h>
#include <linux/kobject.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/err.h>

/* 6.1's module_attribute. */
struct module_attribute {
	struct attribute attr;
	ssize_t (*show)(struct module_attribute *, struct module_kobject *, char *);
	ssize_t (*store)(struct module_attribute *, struct module_kobject *, const char *, size_t count);
	void (*setup)(struct module *, const char *);
	int (*test)(struct module *);
	void (*free)(struct module *);
};
static_assert(sizeof(struct module_attribute) == 56, "struct module_attribute");

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

static int module_param_sysfs_setup(struct module *mod)
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

/* Makes /sys/module/NAME. It returns -errno, and leaves nothing behind then. */
int mod_sysfs_setup(struct module *mod)
{
	int err;

	mod->mkobj.mod = mod;
	memset(&mod->mkobj.kobj, 0, sizeof(mod->mkobj.kobj));
	mod->mkobj.kobj.kset = module_kset;
	err = kobject_init_and_add(&mod->mkobj.kobj, &module_ktype, module_kobj, "%s", mod->name);
	if (!err)
		err = module_param_sysfs_setup(mod);
	if (err)
		mod_sysfs_teardown(mod);
	return err;
}

/* Removes /sys/module/NAME, after the calls that are in its files. */
void mod_sysfs_teardown(struct module *mod)
{
	if (!mod->mkobj.kobj.state_initialized)
		return;
	kobject_del(&mod->mkobj.kobj);
	free_param_attrs(mod);
	kobject_put(&mod->mkobj.kobj);
}
