// device.h: devices and their attributes, which are short texts.
#ifndef _LINUX_DEVICE_H
#define _LINUX_DEVICE_H

#include <linux/kernel.h>
#include <linux/list.h>

struct device;
struct device_attribute;

struct device_attribute {
	const char *name;
	ssize_t (*show)(struct device *dev, struct device_attribute *attr, char *buf);
	ssize_t (*store)(struct device *dev, struct device_attribute *attr, const char *buf, size_t count);
};

struct device {
	const char *init_name;
	struct list_head node;
	struct device_attribute **attrs; // up to a NULL
	void *driver_data;
};

#define DEVICE_ATTR_RO(n) static struct device_attribute dev_attr_##n = { #n, n##_show, NULL }
#define DEVICE_ATTR_RW(n) static struct device_attribute dev_attr_##n = { #n, n##_show, n##_store }
#define dev_name(dev) ((dev)->init_name)
#define dev_get_drvdata(dev) ((dev)->driver_data)

// sysfs_emit writes a text to an attribute's page and returns its length.
int sysfs_emit(char *buf, const char *fmt, ...);
int device_register(struct device *dev);
struct device *device_find_by_name(const char *name);
ssize_t dev_attr_show(struct device *dev, const char *attr, char *buf);
ssize_t dev_attr_store(struct device *dev, const char *attr, const char *buf, size_t count);

#endif
