// device.h: devices, their classes and attributes. Layouts are 6.1's.
#ifndef _LINUX_DEVICE_H
#define _LINUX_DEVICE_H

#include <linux/kernel.h>
#include <linux/kobject.h>
#include <linux/list.h>

struct device;
struct class;

struct device_attribute {
	struct attribute attr;
	ssize_t (*show)(struct device *dev, struct device_attribute *attr, char *buf);
	ssize_t (*store)(struct device *dev, struct device_attribute *attr, const char *buf, size_t count);
};

struct device {
	struct kobject kobj;
	struct device *parent;
	void *p;
	const char *init_name; // until it is registered
	const void *type, *bus, *driver;
	void *platform_data, *driver_data;
	char __before_devt[532];
	dev_t devt;
	u32 id;
	spinlock_t devres_lock;
	struct list_head devres_head;
	struct class *class;
	const struct attribute_group **groups; // up to a NULL
	void (*release)(struct device *dev);
	struct list_head node; // ours: in the list of all devices
	char __tail[24];
};
static_assert(offsetof(struct device, driver_data) == 120, "struct device");
static_assert(offsetof(struct device, devt) == 660, "struct device");
static_assert(offsetof(struct device, class) == 688, "struct device");
static_assert(offsetof(struct device, release) == 704, "struct device");
static_assert(sizeof(struct device) == 752, "struct device");

struct class_private;
struct class {
	const char *name;
	struct module *owner;
	const struct attribute_group **class_groups, **dev_groups;
	struct kobject *dev_kobj;
	int (*dev_uevent)(struct device *dev, void *env);
	char *(*devnode)(struct device *dev, umode_t *mode);
	void (*class_release)(struct class *class);
	void (*dev_release)(struct device *dev);
	int (*shutdown_pre)(struct device *dev);
	const void *ns_type;
	const void *(*namespace)(struct device *dev);
	void (*get_ownership)(struct device *dev, kuid_t *uid, kgid_t *gid);
	const void *pm;
	struct class_private *p;
};
static_assert(offsetof(struct class, p) == 112, "struct class");

#define __DEVICE_ATTR(n, m, s, t) static struct device_attribute dev_attr_##n = { { #n, m }, s, t }
#define DEVICE_ATTR_RO(n) __DEVICE_ATTR(n, 0444, n##_show, NULL)
#define DEVICE_ATTR_RW(n) __DEVICE_ATTR(n, 0644, n##_show, n##_store)
#define dev_get_drvdata(dev) ((dev)->driver_data)

static inline const char *dev_name(const struct device *dev)
{
	return dev->init_name ? dev->init_name : kobject_name(&dev->kobj);
}

int device_register(struct device *dev);
void device_unregister(struct device *dev);
void device_initialize(struct device *dev);
int device_add(struct device *dev);
void device_del(struct device *dev);
struct device *get_device(struct device *dev);
void put_device(struct device *dev);
int dev_set_name(struct device *dev, const char *fmt, ...);
struct device *device_create(struct class *class, struct device *parent, dev_t devt, void *drvdata, const char *fmt, ...);
struct device *device_create_with_groups(struct class *class, struct device *parent, dev_t devt, void *drvdata, const struct attribute_group **groups, const char *fmt, ...);
void device_destroy(struct class *class, dev_t devt);
struct class *__class_create(struct module *owner, const char *name, struct lock_class_key *key);
int __class_register(struct class *cls, struct lock_class_key *key);
void class_unregister(struct class *cls);
void class_destroy(struct class *cls);
struct device *device_find_by_name(const char *name);
ssize_t dev_attr_show(struct device *dev, const char *attr, char *buf);
ssize_t dev_attr_store(struct device *dev, const char *attr, const char *buf, size_t count);

#endif
