// Devices: their directories in sysfs, their places in a class, and their files in /dev.
#include "base.h"
#include <linux/cdev.h>
#include <linux/hostfs.h>
#include <linux/mutex.h>
#include <linux/string.h>
#include <linux/kstrtox.h>
#include <linux/sprintf.h>
#include <linux/mm.h>
#include <linux/export.h>

static LIST_HEAD(devices);
static DEFINE_MUTEX(device_mutex);
extern struct kobject *sysfs_dev_char_kobj, *devices_kobj;

// class_private is what a registered class has.
struct class_private {
	struct kobject dir;	  // /sys/class/NAME
	struct kobject *virtual; // /sys/devices/virtual/NAME, when there is a device
	struct class *class;
};

static struct device *to_dev(struct kobject *kobj)
{
	return container_of(kobj, struct device, kobj);
}

static ssize_t device_show(struct kobject *kobj, struct attribute *attr, char *buf)
{
	struct device_attribute *a = container_of(attr, struct device_attribute, attr);
	ssize_t ret = a->show ? a->show(to_dev(kobj), a, buf) : -EIO;

	if (ret >= (ssize_t)PAGE_SIZE)
		printk("dev_attr_show: %pS returned bad count\n", a->show);
	return ret;
}

static ssize_t device_store(struct kobject *kobj, struct attribute *attr, const char *buf, size_t count)
{
	struct device_attribute *a = container_of(attr, struct device_attribute, attr);

	return a->store ? a->store(to_dev(kobj), a, buf, count) : -EIO;
}

static char *node_path(struct device *dev, umode_t *mode);

static const struct sysfs_ops dev_sysfs_ops = {
	.show = device_show,
	.store = device_store,
};

static void device_release(struct kobject *kobj)
{
	struct device *dev = to_dev(kobj);
	struct device_private *p = dev->p;

	devres_release_all(dev); // also of a device that never had a driver
	if (dev->release)
		dev->release(dev);
	else if (dev->type && dev->type->release)
		dev->type->release(dev);
	else if (dev->class && dev->class->dev_release)
		dev->class->dev_release(dev);
	else
		WARN(1, "Device '%s' does not have a release() function, it is broken and must be fixed. See Documentation/core-api/kobject.rst.\n",
		     dev_name(dev));
	kfree(p);
}

static const struct kobj_type device_ktype = {
	.release = device_release,
	.sysfs_ops = &dev_sysfs_ops,
};

static ssize_t dev_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sprintf(buf, "%u:%u\n", MAJOR(dev->devt), MINOR(dev->devt));
}
DEVICE_ATTR_RO(dev);

notrace int add_uevent_var(struct kobj_uevent_env *env, const char *format, ...)
{
	va_list args;
	int len;

	if (env->envp_idx >= UEVENT_NUM_ENVP) {
		WARN(1, "add_uevent_var: too many keys\n");
		return -ENOMEM;
	}
	va_start(args, format);
	len = vsnprintf(env->buf + env->buflen, sizeof(env->buf) - env->buflen, format, args);
	va_end(args);
	if (len >= (int)sizeof(env->buf) - env->buflen) {
		WARN(1, "add_uevent_var: buffer size too small\n");
		return -ENOMEM;
	}
	env->envp[env->envp_idx++] = env->buf + env->buflen;
	env->buflen += len + 1;
	return 0;
}
EXPORT_SYMBOL_GPL(add_uevent_var);

// dev_uevent adds what an event says about a device.
static int dev_uevent(struct device *dev, struct kobj_uevent_env *env)
{
	int err = 0;

	if (MAJOR(dev->devt)) {
		umode_t mode = 0;
		char *path = node_path(dev, &mode);

		add_uevent_var(env, "MAJOR=%u", MAJOR(dev->devt));
		add_uevent_var(env, "MINOR=%u", MINOR(dev->devt));
		if (path)
			add_uevent_var(env, "DEVNAME=%s", path);
		if (mode)
			add_uevent_var(env, "DEVMODE=%#o", mode & 0777);
		kfree(path);
	}
	if (dev->type && dev->type->name)
		add_uevent_var(env, "DEVTYPE=%s", dev->type->name);
	if (dev->driver)
		add_uevent_var(env, "DRIVER=%s", dev->driver->name);
	if (dev->bus && dev->bus->uevent)
		err = dev->bus->uevent(dev, env);
	if (!err && dev->class && dev->class->dev_uevent)
		err = dev->class->dev_uevent(dev, env);
	if (!err && dev->type && dev->type->uevent)
		err = dev->type->uevent(dev, env);
	return err;
}

// device_event has the device's bus, class and type say what they have to say about an
// event. Nobody listens to it.
static void device_event(struct device *dev, const char *action)
{
	struct kobj_uevent_env *env;

	if (!dev->bus && !dev->class)
		return;
	env = kzalloc(sizeof(*env), GFP_KERNEL);
	if (!env)
		return;
	add_uevent_var(env, "ACTION=%s", action);
	add_uevent_var(env, "SUBSYSTEM=%s", dev->bus ? dev->bus->name : dev->class->name);
	dev_uevent(dev, env);
	kfree(env);
}

static ssize_t uevent_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct kobj_uevent_env *env;
	ssize_t len = 0;
	int i;

	if (!dev->bus && !dev->class)
		return 0;
	env = kzalloc(sizeof(*env), GFP_KERNEL);
	if (!env)
		return -ENOMEM;
	if (!dev_uevent(dev, env))
		for (i = 0; i < env->envp_idx; i++)
			len += sysfs_emit_at(buf, len, "%s\n", env->envp[i]);
	kfree(env);
	return len;
}

static ssize_t uevent_store(struct device *dev, struct device_attribute *attr, const char *buf, size_t count)
{
	return count;
}
DEVICE_ATTR_RW(uevent);

noinline void device_initialize(struct device *dev)
{
	kobject_init(&dev->kobj, &device_ktype);
	mutex_init(&dev->mutex);
	spin_lock_init(&dev->devres_lock);
	INIT_LIST_HEAD(&dev->devres_head);
	dev->numa_node = -1;
	INIT_LIST_HEAD(&dev->node);
}
EXPORT_SYMBOL_GPL(device_initialize);

int dev_set_name(struct device *dev, const char *fmt, ...)
{
	va_list args;
	int err;

	va_start(args, fmt);
	err = kobject_set_name_vargs(&dev->kobj, fmt, args);
	va_end(args);
	return err;
}
EXPORT_SYMBOL_GPL(dev_set_name);

// parent_of returns the object below which a device's directory is.
static struct kobject *parent_of(struct device *dev)
{
	struct class_private *cp = dev->class ? dev->class->p : NULL;

	if (dev->parent)
		return &dev->parent->kobj;
	if (!cp)
		return devices_kobj;
	if (!cp->virtual)
		cp->virtual = kobject_create_and_add(dev->class->name, virtual_kobj);
	return cp->virtual;
}

// node_dir returns the directory in /dev of a node's path, and leaves the last part.
static struct dentry *node_dir(char **name)
{
	struct dentry *dir = devtmpfs_mnt->mnt_root;
	char *slash;

	for (; (slash = strchr(*name, '/')); *name = slash + 1) {
		struct qstr q = QSTR_INIT(*name, slash - *name);
		struct dentry *d = d_hash_and_lookup(dir, &q);

		*slash = 0;
		if (d && d_is_negative(d)) {
			dput(d);
			d = NULL;
		}
		if (d)
			dput(d); // the directory stays
		else
			d = hostfs_make_dir(dir, *name, 0755);
		if (IS_ERR(d))
			return d;
		dir = d;
	}
	return dir;
}

// node_path returns the path of a device's node in /dev, and its mode.
static char *node_path(struct device *dev, umode_t *mode)
{
	char *path = dev->class && dev->class->devnode ? dev->class->devnode(dev, mode) : NULL, *at;

	if (!path)
		path = kstrdup(dev_name(dev), GFP_KERNEL);
	for (at = path; at && *at; at++)
		if (*at == '!')
			*at = '/';
	return path;
}

static noinline void devtmpfs_create_node(struct device *dev)
{
	umode_t mode = 0;
	char *path = node_path(dev, &mode), *name = path;
	struct dentry *dir = path ? node_dir(&name) : NULL, *d;

	if (!IS_ERR_OR_NULL(dir)) {
		d = hostfs_make_file(dir, name, S_IFCHR | (mode ? mode : 0600), &def_chr_fops, NULL, 0, NULL, NULL);
		if (!IS_ERR(d))
			d->d_inode->i_rdev = dev->devt;
	}
	kfree(path);
}

static noinline void devtmpfs_delete_node(struct device *dev)
{
	umode_t mode = 0;
	char *path = node_path(dev, &mode), *name = path;
	struct dentry *dir = path ? node_dir(&name) : NULL;

	if (!IS_ERR_OR_NULL(dir)) {
		struct qstr q = QSTR_INIT(name, strlen(name));
		struct dentry *d = d_hash_and_lookup(dir, &q);

		if (d && !d_is_negative(d))
			simple_recursive_removal(d, hostfs_retract);
		dput(d);
	}
	kfree(path);
}

static void number_links(struct device *dev, bool make)
{
	char name[24];

	if (!MAJOR(dev->devt))
		return;
	snprintf(name, sizeof(name), "%u:%u", MAJOR(dev->devt), MINOR(dev->devt));
	if (make)
		sysfs_create_link(sysfs_dev_char_kobj, &dev->kobj, name);
	else
		sysfs_remove_link(sysfs_dev_char_kobj, name);
}

int device_private_init(struct device *dev)
{
	struct device_private *p = kzalloc(sizeof(*p), GFP_KERNEL);

	if (!p)
		return -ENOMEM;
	p->device = dev;
	INIT_LIST_HEAD(&p->bus_node);
	INIT_LIST_HEAD(&p->driver_node);
	INIT_LIST_HEAD(&p->deferred);
	dev->p = p;
	return 0;
}

// add_files makes what is in the device's directory, and what leads to it.
static int add_files(struct device *dev)
{
	int err = sysfs_create_file_ns(&dev->kobj, &dev_attr_uevent.attr, NULL);

	if (!err && MAJOR(dev->devt))
		err = sysfs_create_file_ns(&dev->kobj, &dev_attr_dev.attr, NULL);
	if (!err && dev->class && dev->class->p) {
		err = sysfs_create_link(&dev->kobj, &dev->class->p->dir, "subsystem") ?:
		      sysfs_create_link(&dev->class->p->dir, &dev->kobj, dev_name(dev)) ?:
		      sysfs_create_groups(&dev->kobj, dev->class->dev_groups);
	}
	if (!err && dev->type)
		err = sysfs_create_groups(&dev->kobj, dev->type->groups);
	if (!err)
		err = sysfs_create_groups(&dev->kobj, dev->groups);
	if (!err)
		number_links(dev, true);
	return err;
}

int device_add(struct device *dev)
{
	int err;

	if (!dev->p) {
		err = device_private_init(dev);
		if (err)
			return err;
	}
	if (dev->init_name) {
		dev_set_name(dev, "%s", dev->init_name);
		dev->init_name = NULL;
	}
	if (!dev_name(dev) && dev->bus && dev->bus->dev_name)
		dev_set_name(dev, "%s%u", dev->bus->dev_name, dev->id);
	if (!dev_name(dev))
		return -EINVAL;
	err = kobject_add_named(&dev->kobj, parent_of(dev));
	if (err)
		return err;
	err = add_files(dev) ?: bus_add_device(dev);
	if (err) {
		kobject_del(&dev->kobj);
		return err;
	}
	mutex_lock(&device_mutex);
	list_add_tail(&dev->node, &devices);
	mutex_unlock(&device_mutex);
	if (MAJOR(dev->devt))
		devtmpfs_create_node(dev);
	device_event(dev, "add");
	bus_probe_device(dev);
	return 0;
}
EXPORT_SYMBOL_GPL(device_add);

static struct device *find_locked(const char *name)
{
	struct device *dev;

	list_for_each_entry(dev, &devices, node)
		if (!strcmp(dev_name(dev), name))
			return dev;
	return NULL;
}

// device_register returns -EEXIST when its parent has a device of this name.
int device_register(struct device *dev)
{
	device_initialize(dev);
	return device_add(dev);
}
EXPORT_SYMBOL_GPL(device_register);

void device_del(struct device *dev)
{
	mutex_lock(&device_mutex);
	list_del_init(&dev->node);
	mutex_unlock(&device_mutex);
	if (MAJOR(dev->devt))
		devtmpfs_delete_node(dev);
	number_links(dev, false);
	if (dev->class && dev->class->p)
		sysfs_remove_link(&dev->class->p->dir, dev_name(dev));
	bus_remove_device(dev);
	driver_deferred_probe_del(dev);
	device_event(dev, "remove");
	kobject_del(&dev->kobj);
}
EXPORT_SYMBOL_GPL(device_del);

struct device *get_device(struct device *dev)
{
	if (dev)
		kobject_get(&dev->kobj);
	return dev;
}
EXPORT_SYMBOL_GPL(get_device);

void put_device(struct device *dev)
{
	if (dev)
		kobject_put(&dev->kobj);
}
EXPORT_SYMBOL_GPL(put_device);

noinline void device_unregister(struct device *dev)
{
	device_del(dev);
	put_device(dev);
}
EXPORT_SYMBOL_GPL(device_unregister);

int device_create_file(struct device *dev, const struct device_attribute *attr)
{
	return dev ? sysfs_create_file_ns(&dev->kobj, &attr->attr, NULL) : 0;
}
EXPORT_SYMBOL_GPL(device_create_file);

void device_remove_file(struct device *dev, const struct device_attribute *attr)
{
	if (dev)
		sysfs_remove_file_ns(&dev->kobj, &attr->attr, NULL);
}
EXPORT_SYMBOL_GPL(device_remove_file);

static void device_create_release(struct device *dev)
{
	kfree(dev);
}

static struct device *create_groups_vargs(struct class *class, struct device *parent, dev_t devt, void *drvdata,
					  const struct attribute_group **groups, const char *fmt, va_list args)
{
	struct device *dev;
	int err;

	if (IS_ERR_OR_NULL(class))
		return ERR_PTR(-ENODEV);
	dev = kzalloc(sizeof(*dev), GFP_KERNEL);
	if (!dev)
		return ERR_PTR(-ENOMEM);
	device_initialize(dev);
	dev->devt = devt;
	dev->class = class;
	dev->parent = parent;
	dev->groups = groups;
	dev->release = device_create_release;
	dev->driver_data = drvdata;
	err = kobject_set_name_vargs(&dev->kobj, fmt, args);
	if (!err)
		err = device_add(dev);
	if (!err)
		return dev;
	put_device(dev);
	return ERR_PTR(err);
}

struct device *device_create(struct class *class, struct device *parent, dev_t devt, void *drvdata, const char *fmt, ...)
{
	struct device *dev;
	va_list args;

	va_start(args, fmt);
	dev = create_groups_vargs(class, parent, devt, drvdata, NULL, fmt, args);
	va_end(args);
	return dev;
}
EXPORT_SYMBOL_GPL(device_create);

struct device *device_create_with_groups(struct class *class, struct device *parent, dev_t devt, void *drvdata,
					 const struct attribute_group **groups, const char *fmt, ...)
{
	struct device *dev;
	va_list args;

	va_start(args, fmt);
	dev = create_groups_vargs(class, parent, devt, drvdata, groups, fmt, args);
	va_end(args);
	return dev;
}
EXPORT_SYMBOL_GPL(device_create_with_groups);

void device_destroy(struct class *class, dev_t devt)
{
	struct device *dev, *found = NULL;

	mutex_lock(&device_mutex);
	list_for_each_entry(dev, &devices, node)
		if (dev->class == class && dev->devt == devt) {
			found = dev;
			break;
		}
	mutex_unlock(&device_mutex);
	if (found)
		device_unregister(found);
}
EXPORT_SYMBOL_GPL(device_destroy);

static void class_dir_release(struct kobject *kobj)
{
	struct class_private *cp = container_of(kobj, struct class_private, dir);
	struct class *class = cp->class;

	class->p = NULL;
	if (class->class_release)
		class->class_release(class);
	kfree(cp);
}

static const struct kobj_type class_ktype = {
	.release = class_dir_release,
	.sysfs_ops = &kobj_sysfs_ops,
};

int __class_register(struct class *cls, struct lock_class_key *key)
{
	struct class_private *cp = kzalloc(sizeof(*cp), GFP_KERNEL);
	int err;

	if (!cp)
		return -ENOMEM;
	cp->class = cls;
	err = kobject_init_and_add(&cp->dir, &class_ktype, class_kobj, "%s", cls->name);
	if (err) {
		kfree_const(cp->dir.name);
		kfree(cp);
		return err;
	}
	cls->p = cp;
	return sysfs_create_groups(&cp->dir, cls->class_groups);
}
EXPORT_SYMBOL_GPL(__class_register);

noinline void class_unregister(struct class *cls)
{
	struct class_private *cp = cls->p;

	if (!cp)
		return;
	kobject_put(cp->virtual);
	cp->virtual = NULL;
	kobject_del(&cp->dir);
	kobject_put(&cp->dir);
}
EXPORT_SYMBOL_GPL(class_unregister);

static void class_create_release(struct class *cls)
{
	kfree(cls);
}

struct class *__class_create(struct module *owner, const char *name, struct lock_class_key *key)
{
	struct class *cls = kzalloc(sizeof(*cls), GFP_KERNEL);
	int err;

	if (!cls)
		return ERR_PTR(-ENOMEM);
	cls->name = name;
	cls->owner = owner;
	cls->class_release = class_create_release;
	err = __class_register(cls, key);
	if (!err)
		return cls;
	kfree(cls);
	return ERR_PTR(err);
}
EXPORT_SYMBOL_GPL(__class_create);

void class_destroy(struct class *cls)
{
	if (!IS_ERR_OR_NULL(cls))
		class_unregister(cls);
}
EXPORT_SYMBOL_GPL(class_destroy);

struct device *device_find_by_name(const char *name)
{
	struct device *dev;

	mutex_lock(&device_mutex);
	dev = find_locked(name);
	mutex_unlock(&device_mutex);
	return dev;
}

static struct device_attribute *find_attr(struct device *dev, const char *name)
{
	int i, j;

	for (i = 0; dev->groups && dev->groups[i]; i++)
		for (j = 0; dev->groups[i]->attrs[j]; j++)
			if (!strcmp(dev->groups[i]->attrs[j]->name, name))
				return container_of(dev->groups[i]->attrs[j], struct device_attribute, attr);
	return NULL;
}

// dev_attr_show writes an attribute's text to a page. It returns the length, -ENOENT,
// or -EIO if it cannot be read.
ssize_t dev_attr_show(struct device *dev, const char *attr, char *buf)
{
	struct device_attribute *a = find_attr(dev, attr);

	return a ? device_show(&dev->kobj, &a->attr, buf) : -ENOENT;
}

ssize_t dev_attr_store(struct device *dev, const char *attr, const char *buf, size_t count)
{
	struct device_attribute *a = find_attr(dev, attr);

	return a ? device_store(&dev->kobj, &a->attr, buf, count) : -ENOENT;
}

// next_child gives the reference of prev back and returns the device after it of that parent
// or class, with a reference.
static struct device *next_child(struct device *prev, const struct device *parent, const struct class *class)
{
	struct device *dev;
	bool after = !prev;

	mutex_lock(&device_mutex);
	list_for_each_entry(dev, &devices, node) {
		if (after && ((parent && dev->parent == parent) || (class && dev->class == class))) {
			get_device(dev);
			break;
		}
		after |= dev == prev;
	}
	if (&dev->node == &devices)
		dev = NULL;
	mutex_unlock(&device_mutex);
	put_device(prev);
	return dev;
}

// device_for_each_child returns the first result of fn that is not 0.
int device_for_each_child(struct device *parent, void *data, int (*fn)(struct device *dev, void *data))
{
	struct device *dev = NULL;
	int ret = 0;

	while (!ret && (dev = next_child(dev, parent, NULL)))
		ret = fn(dev, data);
	if (ret)
		put_device(dev);
	return ret;
}
EXPORT_SYMBOL_GPL(device_for_each_child);

// device_find_child returns the device with a reference.
struct device *device_find_child(struct device *parent, void *data, int (*match)(struct device *dev, void *data))
{
	struct device *dev = NULL;

	while ((dev = next_child(dev, parent, NULL)))
		if (match(dev, data))
			return dev;
	return NULL;
}
EXPORT_SYMBOL_GPL(device_find_child);

int class_for_each_device(struct class *class, struct device *start, void *data, int (*fn)(struct device *dev, void *data))
{
	struct device *dev = get_device(start);
	int ret = 0;

	while (!ret && (dev = next_child(dev, NULL, class)))
		ret = fn(dev, data);
	if (ret)
		put_device(dev);
	return ret;
}
EXPORT_SYMBOL_GPL(class_for_each_device);

struct device *class_find_device(struct class *class, struct device *start, const void *data,
				 int (*match)(struct device *dev, const void *data))
{
	struct device *dev = get_device(start);

	while ((dev = next_child(dev, NULL, class)))
		if (match(dev, data))
			return dev;
	return NULL;
}
EXPORT_SYMBOL_GPL(class_find_device);

int device_match_name(struct device *dev, const void *name)
{
	return !strcmp(dev_name(dev), name);
}
EXPORT_SYMBOL_GPL(device_match_name);

int device_match_devt(struct device *dev, const void *pdevt)
{
	return dev->devt == *(const dev_t *)pdevt;
}
EXPORT_SYMBOL_GPL(device_match_devt);

int device_create_bin_file(struct device *dev, const struct bin_attribute *attr)
{
	return dev ? sysfs_create_bin_file(&dev->kobj, attr) : -EINVAL;
}
EXPORT_SYMBOL_GPL(device_create_bin_file);

void device_remove_bin_file(struct device *dev, const struct bin_attribute *attr)
{
	if (dev)
		sysfs_remove_bin_file(&dev->kobj, attr);
}
EXPORT_SYMBOL_GPL(device_remove_bin_file);

// cdev_device_add makes cdev known and adds its device, whose parent keeps it.
int cdev_device_add(struct cdev *cdev, struct device *dev)
{
	int ret = 0;

	if (dev->devt) {
		cdev_set_parent(cdev, &dev->kobj);
		ret = cdev_add(cdev, dev->devt, 1);
		if (ret)
			return ret;
	}
	ret = device_add(dev);
	if (ret && dev->devt)
		cdev_del(cdev);
	return ret;
}
EXPORT_SYMBOL(cdev_device_add);

void cdev_device_del(struct cdev *cdev, struct device *dev)
{
	device_del(dev);
	if (dev->devt)
		cdev_del(cdev);
}
EXPORT_SYMBOL(cdev_device_del);

// The attributes that DEVICE_INT_ATTR and its kin define.
ssize_t device_show_ulong(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%lx\n", *(unsigned long *)container_of(attr, struct dev_ext_attribute, attr)->var);
}
EXPORT_SYMBOL_GPL(device_show_ulong);

ssize_t device_store_ulong(struct device *dev, struct device_attribute *attr, const char *buf, size_t size)
{
	unsigned long value;
	int ret = kstrtoul(buf, 0, &value);

	if (ret)
		return ret;
	*(unsigned long *)container_of(attr, struct dev_ext_attribute, attr)->var = value;
	return size;
}
EXPORT_SYMBOL_GPL(device_store_ulong);

ssize_t device_show_int(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", *(int *)container_of(attr, struct dev_ext_attribute, attr)->var);
}
EXPORT_SYMBOL_GPL(device_show_int);

ssize_t device_store_int(struct device *dev, struct device_attribute *attr, const char *buf, size_t size)
{
	long value;
	int ret = kstrtol(buf, 0, &value);

	if (ret)
		return ret;
	if (value > INT_MAX || value < INT_MIN)
		return -EINVAL;
	*(int *)container_of(attr, struct dev_ext_attribute, attr)->var = value;
	return size;
}
EXPORT_SYMBOL_GPL(device_store_int);

ssize_t device_show_bool(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", *(bool *)container_of(attr, struct dev_ext_attribute, attr)->var);
}
EXPORT_SYMBOL_GPL(device_show_bool);

ssize_t device_store_bool(struct device *dev, struct device_attribute *attr, const char *buf, size_t size)
{
	if (kstrtobool(buf, container_of(attr, struct dev_ext_attribute, attr)->var) < 0)
		return -EINVAL;
	return size;
}
EXPORT_SYMBOL_GPL(device_store_bool);
