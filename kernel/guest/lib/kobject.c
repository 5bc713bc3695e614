// Objects with a reference count and a directory in sysfs.
#include <linux/kernel.h>
#include <linux/kobject.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sprintf.h>
#include <linux/err.h>
#include <linux/export.h>

struct kobject *kernel_kobj, *module_kobj, *virtual_kobj, *class_kobj;
EXPORT_SYMBOL_GPL(kernel_kobj);

static ssize_t kobj_attr_show(struct kobject *kobj, struct attribute *attr, char *buf)
{
	struct kobj_attribute *a = container_of(attr, struct kobj_attribute, attr);

	return a->show ? a->show(kobj, a, buf) : -EIO;
}

static ssize_t kobj_attr_store(struct kobject *kobj, struct attribute *attr, const char *buf, size_t count)
{
	struct kobj_attribute *a = container_of(attr, struct kobj_attribute, attr);

	return a->store ? a->store(kobj, a, buf, count) : -EIO;
}

const struct sysfs_ops kobj_sysfs_ops = {
	.show = kobj_attr_show,
	.store = kobj_attr_store,
};
EXPORT_SYMBOL_GPL(kobj_sysfs_ops);

int kobject_set_name_vargs(struct kobject *kobj, const char *fmt, va_list vargs)
{
	const char *s;
	char *slash;

	if (kobj->name && !fmt)
		return 0;
	s = kvasprintf(GFP_KERNEL, fmt, vargs);
	if (!s)
		return -ENOMEM;
	while ((slash = strchr(s, '/')))
		*slash = '!';
	kfree_const(kobj->name);
	kobj->name = s;
	return 0;
}

int kobject_set_name(struct kobject *kobj, const char *fmt, ...)
{
	va_list vargs;
	int err;

	va_start(vargs, fmt);
	err = kobject_set_name_vargs(kobj, fmt, vargs);
	va_end(vargs);
	return err;
}
EXPORT_SYMBOL(kobject_set_name);

void kobject_init(struct kobject *kobj, const struct kobj_type *ktype)
{
	if (!kobj || !ktype) {
		pr_err("kobject (%p): %s\n", kobj, kobj ? "must have a ktype to be initialized properly!" : "invalid kobject pointer!");
		dump_stack();
		return;
	}
	if (kobj->state_initialized) {
		pr_err("kobject (%p): tried to init an initialized object, something is seriously wrong.\n", kobj);
		dump_stack();
	}
	refcount_set(&kobj->kref.refcount, 1);
	INIT_LIST_HEAD(&kobj->entry);
	kobj->state_in_sysfs = kobj->state_add_uevent_sent = kobj->state_remove_uevent_sent = 0;
	kobj->state_initialized = 1;
	kobj->ktype = ktype;
}
EXPORT_SYMBOL(kobject_init);

static void join_kset(struct kobject *kobj)
{
	if (!kobj->kset)
		return;
	kobject_get(&kobj->kset->kobj);
	spin_lock(&kobj->kset->list_lock);
	list_add_tail(&kobj->entry, &kobj->kset->list);
	spin_unlock(&kobj->kset->list_lock);
}

static void leave_kset(struct kobject *kobj)
{
	if (!kobj->kset)
		return;
	spin_lock(&kobj->kset->list_lock);
	list_del_init(&kobj->entry);
	spin_unlock(&kobj->kset->list_lock);
	kobject_put(&kobj->kset->kobj);
}

static int create_dir(struct kobject *kobj)
{
	int err = sysfs_create_dir_ns(kobj, NULL);

	if (err)
		return err;
	err = sysfs_create_groups(kobj, kobj->ktype->default_groups);
	if (err)
		sysfs_remove_dir(kobj);
	return err;
}

static int kobject_add_internal(struct kobject *kobj)
{
	struct kobject *parent;
	int error;

	if (!kobj->name || !kobj->name[0]) {
		WARN(1, "kobject: (%p): attempted to be registered with empty name!\n", kobj);
		return -EINVAL;
	}
	parent = kobject_get(kobj->parent);
	join_kset(kobj);
	if (kobj->kset && !parent) {
		parent = kobject_get(&kobj->kset->kobj);
		kobj->parent = parent;
	}
	error = create_dir(kobj);
	if (!error) {
		kobj->state_in_sysfs = 1;
		return 0;
	}
	leave_kset(kobj);
	kobject_put(parent);
	kobj->parent = NULL;
	if (error == -EEXIST)
		pr_err("%s failed for %s with -EEXIST, don't try to register things with the same name in the same directory.\n",
		       __func__, kobject_name(kobj));
	else
		pr_err("%s failed for %s (error: %d parent: %s)\n", __func__, kobject_name(kobj), error,
		       parent ? kobject_name(parent) : "'none'");
	return error;
}

int kobject_add_varg(struct kobject *kobj, struct kobject *parent, const char *fmt, va_list vargs)
{
	int err = kobject_set_name_vargs(kobj, fmt, vargs);

	if (err) {
		pr_err("kobject: can not set name properly!\n");
		return err;
	}
	kobj->parent = parent;
	return kobject_add_internal(kobj);
}

// kobject_add_named is kobject_add of an object that has a name.
int kobject_add_named(struct kobject *kobj, struct kobject *parent)
{
	kobj->parent = parent;
	return kobject_add_internal(kobj);
}

int kobject_add(struct kobject *kobj, struct kobject *parent, const char *fmt, ...)
{
	va_list args;
	int err;

	if (!kobj)
		return -EINVAL;
	if (!kobj->state_initialized) {
		pr_err("kobject '%s' (%p): tried to add an uninitialized object, something is seriously wrong.\n", kobject_name(kobj), kobj);
		dump_stack();
		return -EINVAL;
	}
	va_start(args, fmt);
	err = kobject_add_varg(kobj, parent, fmt, args);
	va_end(args);
	return err;
}
EXPORT_SYMBOL(kobject_add);

int kobject_init_and_add(struct kobject *kobj, const struct kobj_type *ktype, struct kobject *parent, const char *fmt, ...)
{
	va_list args;
	int err;

	kobject_init(kobj, ktype);
	va_start(args, fmt);
	err = kobject_add_varg(kobj, parent, fmt, args);
	va_end(args);
	return err;
}
EXPORT_SYMBOL_GPL(kobject_init_and_add);

struct kobject *kobject_get(struct kobject *kobj)
{
	if (kobj) {
		if (!kobj->state_initialized)
			WARN(1, "kobject: '%s' (%p): is not initialized, yet kobject_get() is being called.\n", kobject_name(kobj), kobj);
		refcount_inc(&kobj->kref.refcount);
	}
	return kobj;
}
EXPORT_SYMBOL(kobject_get);

// kobject_del removes the object's directory and files, and waits for calls that are in
// them.
void kobject_del(struct kobject *kobj)
{
	struct kobject *parent = kobj ? kobj->parent : NULL;

	if (!kobj)
		return;
	if (kobj->state_in_sysfs) {
		sysfs_remove_groups(kobj, kobj->ktype->default_groups);
		sysfs_remove_dir(kobj);
		kobj->state_in_sysfs = 0;
		leave_kset(kobj);
	}
	kobj->parent = NULL;
	kobject_put(parent);
}
EXPORT_SYMBOL(kobject_del);

static void kobject_cleanup(struct kobject *kobj)
{
	const char *name = kobj->name;

	if (kobj->state_in_sysfs)
		kobject_del(kobj);
	if (kobj->ktype && kobj->ktype->release)
		kobj->ktype->release(kobj);
	else
		pr_err("kobject: '%s' (%p): does not have a release() function, it is broken and must be fixed. See Documentation/core-api/kobject.rst.\n",
		       name, kobj);
	kfree_const(name);
}

void kobject_put(struct kobject *kobj)
{
	if (!kobj)
		return;
	if (!kobj->state_initialized)
		WARN(1, "kobject: '%s' (%p): is not initialized, yet kobject_put() is being called.\n", kobject_name(kobj), kobj);
	if (refcount_dec_and_test(&kobj->kref.refcount))
		kobject_cleanup(kobj);
}
EXPORT_SYMBOL(kobject_put);

static void dynamic_kobj_release(struct kobject *kobj)
{
	kfree(kobj);
}

static const struct kobj_type dynamic_kobj_ktype = {
	.release = dynamic_kobj_release,
	.sysfs_ops = &kobj_sysfs_ops,
};

struct kobject *kobject_create_and_add(const char *name, struct kobject *parent)
{
	struct kobject *kobj = kzalloc(sizeof(*kobj), GFP_KERNEL);
	int err;

	if (!kobj)
		return NULL;
	kobject_init(kobj, &dynamic_kobj_ktype);
	err = kobject_add(kobj, parent, "%s", name);
	if (err) {
		pr_warn("kobject: %s: kobject_add error: %d\n", __func__, err);
		kobject_put(kobj);
		return NULL;
	}
	return kobj;
}
EXPORT_SYMBOL_GPL(kobject_create_and_add);

// Nobody listens to events of objects here.
int kobject_uevent(struct kobject *kobj, enum kobject_action action)
{
	return 0;
}
EXPORT_SYMBOL_GPL(kobject_uevent);

void kset_init(struct kset *k)
{
	kobject_init(&k->kobj, k->kobj.ktype ?: &dynamic_kobj_ktype);
	INIT_LIST_HEAD(&k->list);
	spin_lock_init(&k->list_lock);
}

noinline int kset_register(struct kset *k)
{
	if (!k)
		return -EINVAL;
	kset_init(k);
	return kobject_add_internal(&k->kobj);
}
EXPORT_SYMBOL(kset_register);

void kset_unregister(struct kset *k)
{
	if (!k)
		return;
	kobject_del(&k->kobj);
	kobject_put(&k->kobj);
}
EXPORT_SYMBOL(kset_unregister);

static void kset_release(struct kobject *kobj)
{
	kfree(container_of(kobj, struct kset, kobj));
}

static const struct kobj_type kset_ktype = {
	.release = kset_release,
	.sysfs_ops = &kobj_sysfs_ops,
};

struct kset *kset_create_and_add(const char *name, const void *uevent_ops, struct kobject *parent_kobj)
{
	struct kset *k = kzalloc(sizeof(*k), GFP_KERNEL);

	if (!k)
		return NULL;
	k->uevent_ops = uevent_ops;
	k->kobj.parent = parent_kobj;
	k->kobj.ktype = &kset_ktype;
	if (kobject_set_name(&k->kobj, "%s", name) || kset_register(k)) {
		kfree_const(k->kobj.name);
		kfree(k);
		return NULL;
	}
	return k;
}
EXPORT_SYMBOL_GPL(kset_create_and_add);

// kobject_get_unless_zero returns NULL when the object is being released.
struct kobject *kobject_get_unless_zero(struct kobject *kobj)
{
	if (!kobj || !refcount_inc_not_zero(&kobj->kref.refcount))
		return NULL;
	return kobj;
}
EXPORT_SYMBOL(kobject_get_unless_zero);

// kset_find_obj returns the member of that name with a reference, or NULL.
struct kobject *kset_find_obj(struct kset *kset, const char *name)
{
	struct kobject *k, *found = NULL;

	spin_lock(&kset->list_lock);
	list_for_each_entry(k, &kset->list, entry)
		if (k->name && !strcmp(k->name, name)) {
			found = kobject_get_unless_zero(k);
			break;
		}
	spin_unlock(&kset->list_lock);
	return found;
}
EXPORT_SYMBOL_GPL(kset_find_obj);

// kobject_get_path returns the path below /sys, to be freed by kfree, or NULL.
char *kobject_get_path(const struct kobject *kobj, gfp_t gfp_mask)
{
	const struct kobject *k;
	size_t len = 1;
	char *path, *at;

	for (k = kobj; k; k = k->parent) {
		if (!k->name)
			return NULL;
		len += strlen(k->name) + 1;
	}
	path = kzalloc(len, gfp_mask);
	if (!path)
		return NULL;
	at = path + len - 1;
	for (k = kobj; k; k = k->parent) {
		size_t n = strlen(k->name);

		at -= n + 1;
		*at = '/';
		memcpy(at + 1, k->name, n);
	}
	return path;
}
EXPORT_SYMBOL_GPL(kobject_get_path);
