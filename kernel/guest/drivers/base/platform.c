// The platform bus: devices that code has made, and drivers that are found by name.
#include <linux/platform_device.h>
#include <linux/idr.h>
#include <linux/slab.h>
#include <linux/mm.h>
#include <linux/string.h>
#include <linux/sprintf.h>
#include <linux/export.h>
#include <linux/dev_printk.h>
#include "base.h"

struct device platform_bus = { .init_name = "platform" };
EXPORT_SYMBOL_GPL(platform_bus);

static DEFINE_IDA(platform_devid_ida);

// A platform_object is a device of platform_device_alloc.
struct platform_object {
	struct platform_device pdev;
	char name[];
};

struct resource *platform_get_resource(struct platform_device *pdev, unsigned int type, unsigned int num)
{
	u32 i;

	for (i = 0; i < pdev->num_resources; i++)
		if ((pdev->resource[i].flags & IORESOURCE_TYPE_BITS) == type && !num--)
			return &pdev->resource[i];
	return NULL;
}
EXPORT_SYMBOL_GPL(platform_get_resource);

struct resource *platform_get_resource_byname(struct platform_device *pdev, unsigned int type, const char *name)
{
	u32 i;

	for (i = 0; i < pdev->num_resources; i++) {
		struct resource *r = &pdev->resource[i];

		if ((r->flags & IORESOURCE_TYPE_BITS) == type && r->name && !strcmp(r->name, name))
			return r;
	}
	return NULL;
}
EXPORT_SYMBOL_GPL(platform_get_resource_byname);

int platform_get_irq_optional(struct platform_device *pdev, unsigned int num)
{
	struct resource *r = platform_get_resource(pdev, IORESOURCE_IRQ, num);

	if (!r || r->flags & IORESOURCE_DISABLED)
		return -ENXIO;
	return r->start ? (int)r->start : -EINVAL;
}
EXPORT_SYMBOL_GPL(platform_get_irq_optional);

int platform_get_irq(struct platform_device *pdev, unsigned int num)
{
	int irq = platform_get_irq_optional(pdev, num);

	return irq < 0 ? dev_err_probe(&pdev->dev, irq, "IRQ index %u not found\n", num) : irq;
}
EXPORT_SYMBOL_GPL(platform_get_irq);

int platform_irq_count(struct platform_device *pdev)
{
	int n = 0;

	while (platform_get_irq_optional(pdev, n) >= 0)
		n++;
	return n;
}
EXPORT_SYMBOL_GPL(platform_irq_count);

static void setup_pdev_dma_masks(struct platform_device *pdev)
{
	if (!pdev->dev.coherent_dma_mask)
		pdev->dev.coherent_dma_mask = 0xffffffff;
	if (!pdev->dev.dma_mask) {
		pdev->platform_dma_mask = 0xffffffff;
		pdev->dev.dma_mask = &pdev->platform_dma_mask;
	}
}

void platform_device_put(struct platform_device *pdev)
{
	if (!IS_ERR_OR_NULL(pdev))
		put_device(&pdev->dev);
}
EXPORT_SYMBOL_GPL(platform_device_put);

static void platform_device_release(struct device *dev)
{
	struct platform_object *o = container_of(dev, struct platform_object, pdev.dev);

	kfree(o->pdev.dev.platform_data);
	kfree(o->pdev.resource);
	kfree(o->pdev.driver_override);
	kfree(o);
}

struct platform_device *platform_device_alloc(const char *name, int id)
{
	struct platform_object *o = kzalloc(sizeof(*o) + strlen(name) + 1, GFP_KERNEL);

	if (!o)
		return NULL;
	strcpy(o->name, name);
	o->pdev.name = o->name;
	o->pdev.id = id;
	device_initialize(&o->pdev.dev);
	o->pdev.dev.release = platform_device_release;
	setup_pdev_dma_masks(&o->pdev);
	return &o->pdev;
}
EXPORT_SYMBOL_GPL(platform_device_alloc);

int platform_device_add_resources(struct platform_device *pdev, const struct resource *res, unsigned int num)
{
	struct resource *r = NULL;

	if (res) {
		r = kmemdup(res, sizeof(*r) * num, GFP_KERNEL);
		if (!r)
			return -ENOMEM;
	}
	kfree(pdev->resource);
	pdev->resource = r;
	pdev->num_resources = num;
	return 0;
}
EXPORT_SYMBOL_GPL(platform_device_add_resources);

int platform_device_add_data(struct platform_device *pdev, const void *data, size_t size)
{
	void *d = NULL;

	if (data) {
		d = kmemdup(data, size, GFP_KERNEL);
		if (!d)
			return -ENOMEM;
	}
	kfree(pdev->dev.platform_data);
	pdev->dev.platform_data = d;
	return 0;
}
EXPORT_SYMBOL_GPL(platform_device_add_data);

static int set_name(struct platform_device *pdev)
{
	int id;

	switch (pdev->id) {
	default:
		return dev_set_name(&pdev->dev, "%s.%d", pdev->name, pdev->id);
	case PLATFORM_DEVID_NONE:
		return dev_set_name(&pdev->dev, "%s", pdev->name);
	case PLATFORM_DEVID_AUTO:
		id = ida_alloc(&platform_devid_ida, GFP_KERNEL);
		if (id < 0)
			return id;
		pdev->id = id;
		pdev->id_auto = true;
		return dev_set_name(&pdev->dev, "%s.%d.auto", pdev->name, id);
	}
}

static void free_id(struct platform_device *pdev)
{
	if (!pdev->id_auto)
		return;
	ida_free(&platform_devid_ida, pdev->id);
	pdev->id = PLATFORM_DEVID_AUTO;
	pdev->id_auto = false;
}

// parent_of is where a resource goes that names no parent.
static struct resource *parent_of(struct resource *r)
{
	unsigned long type = r->flags & IORESOURCE_TYPE_BITS;

	if (r->parent)
		return r->parent;
	return type == IORESOURCE_MEM ? &iomem_resource : type == IORESOURCE_IO ? &ioport_resource : NULL;
}

static void release_resources(struct platform_device *pdev, u32 n)
{
	while (n--)
		if (pdev->resource[n].parent)
			release_resource(&pdev->resource[n]);
}

int platform_device_add(struct platform_device *pdev)
{
	u32 i;
	int err;

	if (!pdev)
		return -EINVAL;
	if (!pdev->dev.parent)
		pdev->dev.parent = &platform_bus;
	pdev->dev.bus = &platform_bus_type;
	err = set_name(pdev);
	if (err)
		goto id;
	for (i = 0; i < pdev->num_resources; i++) {
		struct resource *r = &pdev->resource[i], *p = parent_of(r);

		if (!r->name)
			r->name = dev_name(&pdev->dev);
		if (p && request_resource(p, r)) {
			dev_err(&pdev->dev, "failed to claim resource %d: %pR\n", i, r);
			err = -EBUSY;
			goto resources;
		}
	}
	err = device_add(&pdev->dev);
	if (!err)
		return 0;
resources:
	release_resources(pdev, i);
id:
	free_id(pdev);
	return err;
}
EXPORT_SYMBOL_GPL(platform_device_add);

void platform_device_del(struct platform_device *pdev)
{
	if (IS_ERR_OR_NULL(pdev))
		return;
	device_del(&pdev->dev);
	free_id(pdev);
	release_resources(pdev, pdev->num_resources);
}
EXPORT_SYMBOL_GPL(platform_device_del);

int platform_device_register(struct platform_device *pdev)
{
	device_initialize(&pdev->dev);
	setup_pdev_dma_masks(pdev);
	return platform_device_add(pdev);
}
EXPORT_SYMBOL_GPL(platform_device_register);

void platform_device_unregister(struct platform_device *pdev)
{
	platform_device_del(pdev);
	platform_device_put(pdev);
}
EXPORT_SYMBOL_GPL(platform_device_unregister);

int platform_add_devices(struct platform_device **devs, int num)
{
	int i, err = 0;

	for (i = 0; i < num && !err; i++)
		err = platform_device_register(devs[i]);
	if (err)
		while (--i > 0)
			platform_device_unregister(devs[i - 1]);
	return err;
}
EXPORT_SYMBOL_GPL(platform_add_devices);

struct platform_device *platform_device_register_full(const struct platform_device_info *info)
{
	struct platform_device *pdev = platform_device_alloc(info->name, info->id);
	int err;

	if (!pdev)
		return ERR_PTR(-ENOMEM);
	pdev->dev.parent = info->parent;
	pdev->dev.fwnode = info->fwnode;
	if (info->dma_mask) {
		pdev->platform_dma_mask = info->dma_mask;
		pdev->dev.dma_mask = &pdev->platform_dma_mask;
		pdev->dev.coherent_dma_mask = info->dma_mask;
	}
	err = platform_device_add_resources(pdev, info->res, info->num_res) ?:
	      platform_device_add_data(pdev, info->data, info->size_data) ?: platform_device_add(pdev);
	if (!err)
		return pdev;
	platform_device_put(pdev);
	return ERR_PTR(err);
}
EXPORT_SYMBOL_GPL(platform_device_register_full);

static int platform_probe_fail(struct platform_device *pdev)
{
	return -ENXIO;
}

int __platform_driver_register(struct platform_driver *drv, struct module *owner)
{
	drv->driver.owner = owner;
	drv->driver.bus = &platform_bus_type;
	return driver_register(&drv->driver);
}
EXPORT_SYMBOL_GPL(__platform_driver_register);

void platform_driver_unregister(struct platform_driver *drv)
{
	driver_unregister(&drv->driver);
}
EXPORT_SYMBOL_GPL(platform_driver_unregister);

// __platform_driver_probe registers a driver whose probe function goes after it: it fails
// if no device was bound.
int __platform_driver_probe(struct platform_driver *drv, int (*probe)(struct platform_device *), struct module *owner)
{
	int err;

	if (drv->driver.probe_type == PROBE_PREFER_ASYNCHRONOUS) {
		pr_err("%s: drivers registered with %s can not be probed asynchronously\n", drv->driver.name, __func__);
		return -EINVAL;
	}
	drv->driver.probe_type = PROBE_FORCE_SYNCHRONOUS;
	drv->prevent_deferred_probe = true;
	drv->driver.suppress_bind_attrs = true;
	drv->probe = probe;
	err = __platform_driver_register(drv, owner);
	if (err)
		return err;
	drv->probe = platform_probe_fail;
	if (!list_empty(&drv->driver.p->devices))
		return 0;
	platform_driver_unregister(drv);
	return -ENODEV;
}
EXPORT_SYMBOL_GPL(__platform_driver_probe);

static const struct platform_device_id *match_id(const struct platform_device_id *id, struct platform_device *pdev)
{
	for (; id->name[0]; id++)
		if (!strcmp(pdev->name, id->name)) {
			pdev->id_entry = id;
			return id;
		}
	return NULL;
}

static int platform_match(struct device *dev, struct device_driver *drv)
{
	struct platform_device *pdev = to_platform_device(dev);
	struct platform_driver *pdrv = to_platform_driver(drv);

	if (pdev->driver_override)
		return !strcmp(pdev->driver_override, drv->name);
	if (pdrv->id_table)
		return match_id(pdrv->id_table, pdev) != NULL;
	return !strcmp(pdev->name, drv->name);
}

static int platform_uevent(struct device *dev, struct kobj_uevent_env *env)
{
	return add_uevent_var(env, "MODALIAS=platform:%s", to_platform_device(dev)->name);
}

static int platform_probe(struct device *dev)
{
	struct platform_driver *drv = to_platform_driver(dev->driver);
	int err = drv->probe ? drv->probe(to_platform_device(dev)) : 0;

	if (drv->prevent_deferred_probe && err == -EPROBE_DEFER) {
		dev_warn(dev, "probe deferral not supported\n");
		err = -ENXIO;
	}
	return err;
}

static void platform_remove(struct device *dev)
{
	struct platform_driver *drv = to_platform_driver(dev->driver);

	if (drv->remove_new) {
		drv->remove_new(to_platform_device(dev));
	} else if (drv->remove) {
		if (drv->remove(to_platform_device(dev)))
			dev_warn(dev, "remove callback returned a non-zero value. This will be ignored.\n");
	}
}

static void platform_shutdown(struct device *dev)
{
	struct platform_driver *drv = dev->driver ? to_platform_driver(dev->driver) : NULL;

	if (drv && drv->shutdown)
		drv->shutdown(to_platform_device(dev));
}

static ssize_t modalias_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "platform:%s\n", to_platform_device(dev)->name);
}
DEVICE_ATTR_RO(modalias);

static ssize_t driver_override_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	ssize_t len;

	device_lock(dev);
	len = sysfs_emit(buf, "%s\n", to_platform_device(dev)->driver_override);
	device_unlock(dev);
	return len;
}

static ssize_t driver_override_store(struct device *dev, struct device_attribute *attr, const char *buf, size_t count)
{
	struct platform_device *pdev = to_platform_device(dev);
	const char *old;
	char *new;

	if (count >= PAGE_SIZE - 1)
		return -EINVAL;
	new = kstrndup(buf, count, GFP_KERNEL);
	if (!new)
		return -ENOMEM;
	new = strim(new);
	if (!*new) {
		kfree(new);
		new = NULL;
	}
	device_lock(dev);
	old = pdev->driver_override;
	pdev->driver_override = new;
	device_unlock(dev);
	kfree(old);
	return count;
}
DEVICE_ATTR_RW(driver_override);

static struct attribute *platform_dev_attrs[] = { &dev_attr_modalias.attr, &dev_attr_driver_override.attr, NULL };
static const struct attribute_group platform_dev_group = { .attrs = platform_dev_attrs };
static const struct attribute_group *platform_dev_groups[] = { &platform_dev_group, NULL };

struct bus_type platform_bus_type = {
	.name = "platform",
	.dev_groups = platform_dev_groups,
	.match = platform_match,
	.uevent = platform_uevent,
	.probe = platform_probe,
	.remove = platform_remove,
	.shutdown = platform_shutdown,
};
EXPORT_SYMBOL_GPL(platform_bus_type);

static int __init platform_bus_init(void)
{
	return device_register(&platform_bus) ?: bus_register(&platform_bus_type);
}
core_initcall(platform_bus_init);
