// Buses: their directories in /sys/bus, and the devices and drivers that are on them.
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sprintf.h>
#include <linux/export.h>
#include "base.h"

extern struct kobject *bus_kobj;

static struct bus_type *bus_of(struct kobject *kobj)
{
	return container_of(kobj, struct subsys_private, subsys.kobj)->bus;
}

static ssize_t bus_attr_show(struct kobject *kobj, struct attribute *attr, char *buf)
{
	struct bus_attribute *a = container_of(attr, struct bus_attribute, attr);

	return a->show ? a->show(bus_of(kobj), buf) : 0;
}

static ssize_t bus_attr_store(struct kobject *kobj, struct attribute *attr, const char *buf, size_t count)
{
	struct bus_attribute *a = container_of(attr, struct bus_attribute, attr);

	return a->store ? a->store(bus_of(kobj), buf, count) : 0;
}

static const struct sysfs_ops bus_sysfs_ops = { .show = bus_attr_show, .store = bus_attr_store };

static void bus_release(struct kobject *kobj)
{
	struct subsys_private *p = container_of(kobj, struct subsys_private, subsys.kobj);

	p->bus->p = NULL;
	kfree(p);
}

static const struct kobj_type bus_ktype = { .sysfs_ops = &bus_sysfs_ops, .release = bus_release };

static struct driver_private *to_driver(struct kobject *kobj)
{
	return container_of(kobj, struct driver_private, kobj);
}

static ssize_t drv_attr_show(struct kobject *kobj, struct attribute *attr, char *buf)
{
	struct driver_attribute *a = container_of(attr, struct driver_attribute, attr);

	return a->show ? a->show(to_driver(kobj)->driver, buf) : -EIO;
}

static ssize_t drv_attr_store(struct kobject *kobj, struct attribute *attr, const char *buf, size_t count)
{
	struct driver_attribute *a = container_of(attr, struct driver_attribute, attr);

	return a->store ? a->store(to_driver(kobj)->driver, buf, count) : -EIO;
}

static const struct sysfs_ops driver_sysfs_ops = { .show = drv_attr_show, .store = drv_attr_store };

static void driver_release(struct kobject *kobj)
{
	kfree(to_driver(kobj));
}

static const struct kobj_type driver_ktype = { .sysfs_ops = &driver_sysfs_ops, .release = driver_release };

// next_device returns a reference to the device after dev, which it puts, or to the first one.
static struct device *next_device(struct subsys_private *p, struct device *dev)
{
	struct list_head *at = dev ? &dev->p->bus_node : &p->devices;
	struct device *next = NULL;

	mutex_lock(&p->lock);
	if (at->next != &p->devices && (at == &p->devices || !list_empty(at)))
		next = get_device(list_entry(at->next, struct device_private, bus_node)->device);
	mutex_unlock(&p->lock);
	put_device(dev);
	return next;
}

int bus_for_each_dev(struct bus_type *bus, struct device *start, void *data, int (*fn)(struct device *dev, void *data))
{
	struct device *dev;
	int err = 0;

	if (!bus || !bus->p)
		return -EINVAL;
	for (dev = next_device(bus->p, get_device(start)); dev && !err; dev = err ? dev : next_device(bus->p, dev))
		err = fn(dev, data);
	if (err)
		put_device(dev);
	return err;
}
EXPORT_SYMBOL_GPL(bus_for_each_dev);

struct device *bus_find_device(struct bus_type *bus, struct device *start, const void *data,
			       int (*match)(struct device *dev, const void *data))
{
	struct device *dev;

	if (!bus || !bus->p)
		return NULL;
	for (dev = next_device(bus->p, get_device(start)); dev; dev = next_device(bus->p, dev))
		if (match(dev, data))
			return dev;
	return NULL;
}
EXPORT_SYMBOL_GPL(bus_find_device);

// next_driver is next_device of drivers.
static struct driver_private *next_driver(struct subsys_private *p, struct driver_private *drv)
{
	struct list_head *at = drv ? &drv->bus_node : &p->drivers;
	struct driver_private *next = NULL;

	mutex_lock(&p->lock);
	if (at->next != &p->drivers && (at == &p->drivers || !list_empty(at))) {
		next = list_entry(at->next, struct driver_private, bus_node);
		kobject_get(&next->kobj);
	}
	mutex_unlock(&p->lock);
	if (drv)
		kobject_put(&drv->kobj);
	return next;
}

int bus_for_each_drv(struct bus_type *bus, struct device_driver *start, void *data,
		     int (*fn)(struct device_driver *drv, void *data))
{
	struct driver_private *drv = NULL;
	int err = 0;

	if (!bus || !bus->p)
		return -EINVAL;
	if (start) {
		drv = start->p;
		kobject_get(&drv->kobj);
	}
	while (!err && (drv = next_driver(bus->p, drv)))
		err = fn(drv->driver, data);
	if (err)
		kobject_put(&drv->kobj);
	return err;
}
EXPORT_SYMBOL_GPL(bus_for_each_drv);

static int name_matches(struct device *dev, const void *name)
{
	return sysfs_streq(name, dev_name(dev));
}

static ssize_t unbind_store(struct device_driver *drv, const char *buf, size_t count)
{
	struct device *dev = bus_find_device(drv->bus, NULL, buf, name_matches);
	ssize_t ret = -ENODEV;

	if (dev && dev->driver == drv) {
		device_release_driver(dev);
		ret = count;
	}
	put_device(dev);
	return ret;
}

int device_driver_attach(struct device_driver *drv, struct device *dev);

static ssize_t bind_store(struct device_driver *drv, const char *buf, size_t count)
{
	struct device *dev = bus_find_device(drv->bus, NULL, buf, name_matches);
	int err = -ENODEV;

	if (dev && (!drv->bus->match || drv->bus->match(dev, drv) > 0))
		err = device_driver_attach(drv, dev);
	put_device(dev);
	return err ? err : (ssize_t)count;
}

static struct driver_attribute driver_attr_unbind = { { "unbind", 0200 }, NULL, unbind_store };
static struct driver_attribute driver_attr_bind = { { "bind", 0200 }, NULL, bind_store };
static ssize_t drv_uevent_store(struct device_driver *drv, const char *buf, size_t count) { return count; }
static struct driver_attribute driver_attr_uevent = { { "uevent", 0200 }, NULL, drv_uevent_store };

static ssize_t drivers_autoprobe_show(struct bus_type *bus, char *buf)
{
	return sysfs_emit(buf, "%d\n", bus->p->drivers_autoprobe);
}

static ssize_t drivers_autoprobe_store(struct bus_type *bus, const char *buf, size_t count)
{
	bus->p->drivers_autoprobe = buf[0] != '0';
	return count;
}

static ssize_t drivers_probe_store(struct bus_type *bus, const char *buf, size_t count)
{
	struct device *dev = bus_find_device(bus, NULL, buf, name_matches);
	int err = -EINVAL;

	if (dev)
		err = dev->driver ? 0 : device_attach(dev);
	put_device(dev);
	return err < 0 ? err : (ssize_t)count;
}

static ssize_t bus_uevent_store(struct bus_type *bus, const char *buf, size_t count) { return count; }

static struct bus_attribute bus_attr_drivers_autoprobe = { { "drivers_autoprobe", 0644 }, drivers_autoprobe_show, drivers_autoprobe_store };
static struct bus_attribute bus_attr_drivers_probe = { { "drivers_probe", 0200 }, NULL, drivers_probe_store };
static struct bus_attribute bus_attr_uevent = { { "uevent", 0200 }, NULL, bus_uevent_store };
static struct attribute *bus_attrs[] = {
	&bus_attr_uevent.attr, &bus_attr_drivers_probe.attr, &bus_attr_drivers_autoprobe.attr, NULL,
};
static const struct attribute_group bus_group = { .attrs = bus_attrs };

int bus_create_file(struct bus_type *bus, struct bus_attribute *attr)
{
	return bus->p ? sysfs_create_file_ns(&bus->p->subsys.kobj, &attr->attr, NULL) : -EINVAL;
}
EXPORT_SYMBOL_GPL(bus_create_file);

void bus_remove_file(struct bus_type *bus, struct bus_attribute *attr)
{
	if (bus->p)
		sysfs_remove_file_ns(&bus->p->subsys.kobj, &attr->attr, NULL);
}
EXPORT_SYMBOL_GPL(bus_remove_file);

int driver_create_file(struct device_driver *drv, const struct driver_attribute *attr)
{
	return drv ? sysfs_create_file_ns(&drv->p->kobj, &attr->attr, NULL) : -EINVAL;
}
EXPORT_SYMBOL_GPL(driver_create_file);

void driver_remove_file(struct device_driver *drv, const struct driver_attribute *attr)
{
	if (drv)
		sysfs_remove_file_ns(&drv->p->kobj, &attr->attr, NULL);
}
EXPORT_SYMBOL_GPL(driver_remove_file);

int bus_register(struct bus_type *bus)
{
	struct subsys_private *p = kzalloc(sizeof(*p), GFP_KERNEL);
	int err;

	if (!p)
		return -ENOMEM;
	p->bus = bus;
	mutex_init(&p->lock);
	INIT_LIST_HEAD(&p->devices);
	INIT_LIST_HEAD(&p->drivers);
	p->drivers_autoprobe = true;
	p->subsys.kobj.ktype = &bus_ktype;
	p->subsys.kobj.parent = bus_kobj;
	bus->p = p;
	err = kobject_set_name(&p->subsys.kobj, "%s", bus->name) ?: kset_register(&p->subsys);
	if (err) {
		bus->p = NULL;
		kfree_const(p->subsys.kobj.name);
		kfree(p);
		return err;
	}
	p->devices_kset = kset_create_and_add("devices", NULL, &p->subsys.kobj);
	p->drivers_kset = kset_create_and_add("drivers", NULL, &p->subsys.kobj);
	return sysfs_create_group(&p->subsys.kobj, &bus_group) ?: sysfs_create_groups(&p->subsys.kobj, bus->bus_groups);
}
EXPORT_SYMBOL_GPL(bus_register);

void bus_unregister(struct bus_type *bus)
{
	struct subsys_private *p = bus->p;

	pr_debug("bus: '%s': unregistering\n", bus->name);
	sysfs_remove_groups(&p->subsys.kobj, bus->bus_groups);
	sysfs_remove_group(&p->subsys.kobj, &bus_group);
	kset_unregister(p->drivers_kset);
	kset_unregister(p->devices_kset);
	kset_unregister(&p->subsys);
}
EXPORT_SYMBOL_GPL(bus_unregister);

// bus_add_device puts a device on its bus, where drivers do not see it before
// bus_probe_device.
int bus_add_device(struct device *dev)
{
	struct bus_type *bus = dev->bus;
	int err;

	if (!bus)
		return 0;
	if (!bus->p)
		return -EINVAL;
	err = sysfs_create_groups(&dev->kobj, bus->dev_groups) ?:
	      sysfs_create_link(&bus->p->devices_kset->kobj, &dev->kobj, dev_name(dev)) ?:
	      sysfs_create_link(&dev->kobj, &bus->p->subsys.kobj, "subsystem");
	if (err)
		return err;
	mutex_lock(&bus->p->lock);
	list_add_tail(&dev->p->bus_node, &bus->p->devices);
	mutex_unlock(&bus->p->lock);
	return 0;
}

void bus_probe_device(struct device *dev)
{
	if (dev->bus && dev->bus->p->drivers_autoprobe)
		device_attach(dev);
}

void bus_remove_device(struct device *dev)
{
	struct bus_type *bus = dev->bus;

	if (!bus || !bus->p)
		return;
	sysfs_remove_link(&dev->kobj, "subsystem");
	sysfs_remove_link(&bus->p->devices_kset->kobj, dev_name(dev));
	sysfs_remove_groups(&dev->kobj, bus->dev_groups);
	mutex_lock(&bus->p->lock);
	list_del_init(&dev->p->bus_node);
	mutex_unlock(&bus->p->lock);
	device_release_driver(dev);
}

int bus_add_driver(struct device_driver *drv)
{
	struct bus_type *bus = drv->bus;
	struct driver_private *p = kzalloc(sizeof(*p), GFP_KERNEL);
	int err;

	if (!p)
		return -ENOMEM;
	INIT_LIST_HEAD(&p->devices);
	p->driver = drv;
	drv->p = p;
	p->kobj.kset = bus->p->drivers_kset;
	err = kobject_init_and_add(&p->kobj, &driver_ktype, NULL, "%s", drv->name);
	if (err) {
		kobject_put(&p->kobj);
		drv->p = NULL;
		return err;
	}
	mutex_lock(&bus->p->lock);
	list_add_tail(&p->bus_node, &bus->p->drivers);
	mutex_unlock(&bus->p->lock);
	if (bus->p->drivers_autoprobe)
		driver_attach(drv);
	if (drv->owner && drv->owner->mkobj.kobj.sd)
		err = sysfs_create_link(&p->kobj, &drv->owner->mkobj.kobj, "module");
	sysfs_create_file_ns(&p->kobj, &driver_attr_uevent.attr, NULL);
	sysfs_create_groups(&p->kobj, bus->drv_groups);
	if (!drv->suppress_bind_attrs) {
		driver_create_file(drv, &driver_attr_unbind);
		driver_create_file(drv, &driver_attr_bind);
	}
	return 0;
}

void bus_remove_driver(struct device_driver *drv)
{
	struct driver_private *p = drv->p;

	if (!drv->suppress_bind_attrs) {
		driver_remove_file(drv, &driver_attr_bind);
		driver_remove_file(drv, &driver_attr_unbind);
	}
	sysfs_remove_groups(&p->kobj, drv->bus->drv_groups);
	driver_remove_file(drv, &driver_attr_uevent);
	if (drv->owner && drv->owner->mkobj.kobj.sd)
		sysfs_remove_link(&p->kobj, "module");
	mutex_lock(&drv->bus->p->lock);
	list_del_init(&p->bus_node);
	mutex_unlock(&drv->bus->p->lock);
	driver_detach(drv);
	kobject_del(&p->kobj);
	kobject_put(&p->kobj);
}

struct device_driver *driver_find(const char *name, struct bus_type *bus)
{
	struct device_driver *found = NULL;
	struct driver_private *p;

	mutex_lock(&bus->p->lock);
	list_for_each_entry(p, &bus->p->drivers, bus_node)
		if (!strcmp(p->driver->name, name))
			found = p->driver;
	mutex_unlock(&bus->p->lock);
	return found;
}
EXPORT_SYMBOL_GPL(driver_find);

int driver_register(struct device_driver *drv)
{
	int err;

	if (!drv->bus->p) {
		pr_err("Driver '%s' was unable to register with bus_type '%s' because the bus was not initialized.\n", drv->name, drv->bus->name);
		return -EINVAL;
	}
	if ((drv->bus->probe && drv->probe) || (drv->bus->remove && drv->remove) || (drv->bus->shutdown && drv->shutdown))
		pr_warn("Driver '%s' needs updating - please use bus_type methods\n", drv->name);
	if (driver_find(drv->name, drv->bus)) {
		pr_err("Error: Driver '%s' is already registered, aborting...\n", drv->name);
		return -EBUSY;
	}
	err = bus_add_driver(drv);
	if (err)
		return err;
	err = sysfs_create_groups(&drv->p->kobj, drv->groups);
	if (err)
		bus_remove_driver(drv);
	return err;
}
EXPORT_SYMBOL_GPL(driver_register);

void driver_unregister(struct device_driver *drv)
{
	if (WARN(!drv || !drv->p, "Unexpected driver unregister!\n"))
		return;
	sysfs_remove_groups(&drv->p->kobj, drv->groups);
	bus_remove_driver(drv);
}
EXPORT_SYMBOL_GPL(driver_unregister);

int driver_for_each_device(struct device_driver *drv, struct device *start, void *data,
			   int (*fn)(struct device *dev, void *data))
{
	struct device *dev, *next;
	int err = 0;

	if (!drv || !drv->p)
		return -EINVAL;
	for (dev = next_device(drv->bus->p, get_device(start)); dev; dev = next) {
		if (dev->driver == drv)
			err = fn(dev, data);
		if (err) {
			put_device(dev);
			break;
		}
		next = next_device(drv->bus->p, dev);
	}
	return err;
}
EXPORT_SYMBOL_GPL(driver_for_each_device);
