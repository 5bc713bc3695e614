// Devices and drivers that find each other: probing, binding and unbinding.
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/workqueue.h>
#include <linux/export.h>
#include <linux/dev_printk.h>
#include "base.h"

// Devices whose driver has said -EPROBE_DEFER. They are tried again whenever a driver was
// bound to a device.
static DEFINE_MUTEX(deferred_probe_mutex);
static LIST_HEAD(deferred_probe_pending_list);
static LIST_HEAD(deferred_probe_active_list);

static void deferred_probe_work_func(struct work_struct *work)
{
	mutex_lock(&deferred_probe_mutex);
	while (!list_empty(&deferred_probe_active_list)) {
		struct device_private *p = list_entry(deferred_probe_active_list.next, struct device_private, deferred);
		struct device *dev = get_device(p->device);

		list_del_init(&p->deferred);
		mutex_unlock(&deferred_probe_mutex);
		bus_probe_device(dev);
		put_device(dev);
		mutex_lock(&deferred_probe_mutex);
	}
	mutex_unlock(&deferred_probe_mutex);
}
static DECLARE_WORK(deferred_probe_work, deferred_probe_work_func);

static void driver_deferred_probe_add(struct device *dev)
{
	mutex_lock(&deferred_probe_mutex);
	if (list_empty(&dev->p->deferred))
		list_add_tail(&dev->p->deferred, &deferred_probe_pending_list);
	mutex_unlock(&deferred_probe_mutex);
}

void driver_deferred_probe_del(struct device *dev)
{
	mutex_lock(&deferred_probe_mutex);
	if (dev->p)
		list_del_init(&dev->p->deferred);
	mutex_unlock(&deferred_probe_mutex);
}

void driver_deferred_probe_trigger(void)
{
	mutex_lock(&deferred_probe_mutex);
	while (!list_empty(&deferred_probe_pending_list))
		list_move_tail(deferred_probe_pending_list.next, &deferred_probe_active_list);
	mutex_unlock(&deferred_probe_mutex);
	queue_work(system_unbound_wq, &deferred_probe_work);
}

static int driver_sysfs_add(struct device *dev)
{
	return sysfs_create_link(&dev->driver->p->kobj, &dev->kobj, dev_name(dev)) ?:
	       sysfs_create_link(&dev->kobj, &dev->driver->p->kobj, "driver");
}

static void driver_sysfs_remove(struct device *dev)
{
	sysfs_remove_link(&dev->driver->p->kobj, dev_name(dev));
	sysfs_remove_link(&dev->kobj, "driver");
}

static void device_unbind_cleanup(struct device *dev)
{
	devres_release_all(dev);
	dev->driver = NULL;
	dev->driver_data = NULL;
}

static int call_driver_probe(struct device *dev, struct device_driver *drv)
{
	int err = 0;

	if (dev->bus->probe)
		err = dev->bus->probe(dev);
	else if (drv->probe)
		err = drv->probe(dev);
	switch (err) {
	case 0:
	case -EPROBE_DEFER:
	case -ENODEV:
	case -ENXIO:
		break;
	default:
		pr_warn("%s: probe of %s failed with error %d\n", drv->name, dev_name(dev), err);
	}
	return err;
}

static void driver_bound(struct device *dev)
{
	mutex_lock(&dev->bus->p->lock);
	list_add_tail(&dev->p->driver_node, &dev->driver->p->devices);
	mutex_unlock(&dev->bus->p->lock);
	driver_deferred_probe_del(dev);
	driver_deferred_probe_trigger();
}

static int really_probe(struct device *dev, struct device_driver *drv)
{
	int err;

	if (!list_empty(&dev->devres_head)) {
		dev_crit(dev, "Resources present before probing\n");
		return -EBUSY;
	}
	dev->driver = drv;
	err = dev->bus->dma_configure ? dev->bus->dma_configure(dev) : 0;
	if (err)
		goto cleanup;
	err = driver_sysfs_add(dev);
	if (err)
		goto dma;
	err = call_driver_probe(dev, drv);
	if (err)
		goto links;
	err = sysfs_create_groups(&dev->kobj, drv->dev_groups);
	if (err) {
		if (dev->bus->remove)
			dev->bus->remove(dev);
		else if (drv->remove)
			drv->remove(dev);
		goto links;
	}
	driver_bound(dev);
	return 0;
links:
	driver_sysfs_remove(dev);
dma:
	if (dev->bus->dma_cleanup)
		dev->bus->dma_cleanup(dev);
cleanup:
	device_unbind_cleanup(dev);
	return err;
}

// driver_probe_device binds a driver to a device that is locked. It returns 0 or -EPROBE_DEFER,
// or the positive errno with which the driver has refused.
static int driver_probe_device(struct device_driver *drv, struct device *dev)
{
	int err;

	if (!dev->kobj.state_in_sysfs)
		return -ENODEV;
	if (dev->driver)
		return -EBUSY;
	err = really_probe(dev, drv);
	if (err == -EPROBE_DEFER) {
		driver_deferred_probe_add(dev);
		return err;
	}
	return err < 0 ? -err : err;
}

static int driver_match_device(struct device_driver *drv, struct device *dev)
{
	return drv->bus->match ? drv->bus->match(dev, drv) : 1;
}

static int __device_attach_driver(struct device_driver *drv, void *data)
{
	struct device *dev = data;
	int match = driver_match_device(drv, dev), err;

	if (!match)
		return 0;
	if (match == -EPROBE_DEFER) {
		driver_deferred_probe_add(dev);
		return match;
	}
	if (match < 0)
		return 0;
	err = driver_probe_device(drv, dev);
	return err > 0 ? 0 : err ?: 1;
}

// device_attach looks for a driver. It returns 1 when one is bound, 0 if there is none, or an
// error.
int device_attach(struct device *dev)
{
	int ret = 1;

	device_lock(dev);
	if (!dev->driver)
		ret = bus_for_each_drv(dev->bus, NULL, dev, __device_attach_driver);
	device_unlock(dev);
	return ret;
}
EXPORT_SYMBOL_GPL(device_attach);

int device_driver_attach(struct device_driver *drv, struct device *dev)
{
	int err;

	device_lock(dev);
	err = driver_probe_device(drv, dev);
	device_unlock(dev);
	return err > 0 ? -err : err == -EPROBE_DEFER ? -EAGAIN : err;
}
EXPORT_SYMBOL_GPL(device_driver_attach);

static int __driver_attach(struct device *dev, void *data)
{
	struct device_driver *drv = data;
	int match = driver_match_device(drv, dev);

	if (match == -EPROBE_DEFER)
		driver_deferred_probe_add(dev);
	if (match <= 0)
		return 0;
	device_lock(dev);
	driver_probe_device(drv, dev);
	device_unlock(dev);
	return 0;
}

int driver_attach(struct device_driver *drv)
{
	return bus_for_each_dev(drv->bus, NULL, drv, __driver_attach);
}
EXPORT_SYMBOL_GPL(driver_attach);

// release_driver unbinds the driver of a device that is locked, if it is drv or drv is NULL.
static void release_driver(struct device *dev, struct device_driver *drv)
{
	if (!dev->driver || (drv && dev->driver != drv))
		return;
	drv = dev->driver;
	driver_sysfs_remove(dev);
	sysfs_remove_groups(&dev->kobj, drv->dev_groups);
	if (dev->bus->remove)
		dev->bus->remove(dev);
	else if (drv->remove)
		drv->remove(dev);
	if (dev->bus->dma_cleanup)
		dev->bus->dma_cleanup(dev);
	device_unbind_cleanup(dev);
	mutex_lock(&dev->bus->p->lock);
	list_del_init(&dev->p->driver_node);
	mutex_unlock(&dev->bus->p->lock);
}

void device_release_driver(struct device *dev)
{
	driver_deferred_probe_del(dev);
	device_lock(dev);
	release_driver(dev, NULL);
	device_unlock(dev);
}
EXPORT_SYMBOL_GPL(device_release_driver);

void driver_detach(struct device_driver *drv)
{
	struct subsys_private *bus = drv->bus->p;

	for (;;) {
		struct device *dev = NULL;

		mutex_lock(&bus->lock);
		if (!list_empty(&drv->p->devices)) // the last one first
			dev = get_device(list_entry(drv->p->devices.prev, struct device_private, driver_node)->device);
		mutex_unlock(&bus->lock);
		if (!dev)
			return;
		device_lock(dev);
		release_driver(dev, drv);
		device_unlock(dev);
		put_device(dev);
	}
}
