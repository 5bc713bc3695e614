// Devices by name.
#include <linux/device.h>
#include <linux/mutex.h>
#include <linux/string.h>
#include <linux/mm.h>
#include <linux/export.h>

static LIST_HEAD(devices);
static DEFINE_MUTEX(device_mutex);

static struct device *find_locked(const char *name)
{
	struct device *dev;

	list_for_each_entry(dev, &devices, node) {
		if (!strcmp(dev_name(dev), name))
			return dev;
	}
	return NULL;
}

// device_register returns -EEXIST when there is a device of this name.
int device_register(struct device *dev)
{
	int err = 0;

	mutex_lock(&device_mutex);
	if (find_locked(dev_name(dev)))
		err = -EEXIST;
	else
		list_add_tail(&dev->node, &devices);
	mutex_unlock(&device_mutex);
	return err;
}

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
	struct device_attribute **a;

	for (a = dev->attrs; *a; a++) {
		if (!strcmp((*a)->name, name))
			return *a;
	}
	return NULL;
}

// dev_attr_show writes an attribute's text to a page. It returns the length, -ENOENT,
// or -EIO if it cannot be read.
ssize_t dev_attr_show(struct device *dev, const char *attr, char *buf)
{
	struct device_attribute *a = find_attr(dev, attr);

	if (!a)
		return -ENOENT;
	return a->show ? a->show(dev, a, buf) : -EIO;
}

ssize_t dev_attr_store(struct device *dev, const char *attr, const char *buf, size_t count)
{
	struct device_attribute *a = find_attr(dev, attr);

	if (!a)
		return -ENOENT;
	return a->store ? a->store(dev, a, buf, count) : -EIO;
}

int sysfs_emit(char *buf, const char *fmt, ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
	n = vscnprintf(buf, PAGE_SIZE, fmt, args);
	va_end(args);
	return n;
}
EXPORT_SYMBOL(sysfs_emit);
