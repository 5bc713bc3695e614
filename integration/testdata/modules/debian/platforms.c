// Devices and drivers on the platform bus: probing by name and by table, failing, putting off,
// binding by hand, what a driver asks for once (devm), masks and mappings for DMA, a bus of one's own.
#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/mod_devicetable.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/slab.h>
#include <linux/sysfs.h>

static int later = 1; // probes of "hf_later" that are put off

static ssize_t size_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct resource *r = platform_get_resource(to_platform_device(dev), IORESOURCE_MEM, 0);

	return sysfs_emit(buf, "%s has %s\n", dev_name(dev), r ? r->name : "nothing");
}
static DEVICE_ATTR_RO(size);
static struct attribute *size_attrs[] = {&dev_attr_size.attr, NULL};
ATTRIBUTE_GROUPS(size);

static void gone(void *data)
{
	pr_info("platforms: released %s\n", (char *)data);
}

static int probe(struct platform_device *pdev)
{
	const struct platform_device_id *id = platform_get_device_id(pdev);
	int *data = dev_get_platdata(&pdev->dev);
	char *text = devm_kasprintf(&pdev->dev, GFP_KERNEL, "%s/%d", pdev->name, pdev->id);
	int *zeros = devm_kcalloc(&pdev->dev, 8, sizeof(int), GFP_KERNEL), irq;

	if (!text || !zeros)
		return -ENOMEM;
	dev_info(&pdev->dev, "probed: id %d, data %d, entry %lu, zero %d, parent %s\n", pdev->id, data ? *data : -1,
		 id ? id->driver_data : 0, zeros[7], dev_name(pdev->dev.parent));
	devm_kfree(&pdev->dev, zeros);
	irq = platform_get_irq_optional(pdev, 0);
	dev_info(&pdev->dev, "irq %d, count %d\n", irq, platform_irq_count(pdev));
	platform_set_drvdata(pdev, text);
	if (!strcmp(pdev->name, "hf_bad")) {
		devm_add_action(&pdev->dev, gone, "what a failed probe had");
		return -EIO;
	}
	if (!strcmp(pdev->name, "hf_later") && later-- > 0)
		return -EPROBE_DEFER;
	return devm_add_action_or_reset(&pdev->dev, gone, "the first") ?: devm_add_action_or_reset(&pdev->dev, gone, "the second");
}

static int remove(struct platform_device *pdev)
{
	pr_info("platforms: remove of %s\n", (char *)platform_get_drvdata(pdev));
	return 0;
}

static const struct platform_device_id ids[] = {{"hf_one", 11}, {"hf_auto", 12}, {"hf_later", 13}, {"hf_bad", 14}, {}};
static struct platform_driver driver = {
	.probe = probe, .remove = remove, .id_table = ids, .driver = {.name = "hf_driver", .dev_groups = size_groups},
};
static struct platform_driver again = {.probe = probe, .driver = {.name = "hf_driver"}};

static ssize_t version_show(struct device_driver *drv, char *buf)
{
	return sysfs_emit(buf, "%s on %s\n", drv->name, drv->bus->name);
}
static DRIVER_ATTR_RO(version);

static void own_release(struct device *dev)
{
	pr_info("platforms: release of %s\n", dev_name(dev));
}

static int own_match(struct device *dev, struct device_driver *drv)
{
	return !strncmp(dev_name(dev), drv->name, strlen(drv->name));
}

static int own_uevent(struct device *dev, struct kobj_uevent_env *env)
{
	return add_uevent_var(env, "HF_OWN=%s", dev_name(dev));
}

static ssize_t author_show(struct bus_type *bus, char *buf)
{
	return sysfs_emit(buf, "the bus %s\n", bus->name);
}
static BUS_ATTR_RO(author);

static int own_probe(struct device *dev)
{
	dev_info(dev, "probed by %s\n", dev->driver->name);
	return 0;
}

static int own_remove(struct device *dev)
{
	dev_info(dev, "removed\n");
	return 0;
}

static struct bus_type own_bus = {.name = "hf_bus", .match = own_match, .uevent = own_uevent};
static struct device own_root = {.init_name = "hf_root", .release = own_release};
static struct device own_device = {.init_name = "hf_own0", .bus = &own_bus, .parent = &own_root, .release = own_release};
static struct device_driver own_driver = {.name = "hf_own", .bus = &own_bus, .probe = own_probe, .remove = own_remove};

static struct platform_device *one, *autos[2], *late, *bad;
static struct resource res[] = {DEFINE_RES_MEM_NAMED(0xfe123000, 0x100, "hf registers"), DEFINE_RES_IRQ(5)};

static void dma(struct device *dev)
{
	dma_addr_t a, b;
	void *p = dma_alloc_coherent(dev, 100, &a, GFP_KERNEL), *q = kzalloc(256, GFP_KERNEL);
	int small = dma_set_mask(dev, DMA_BIT_MASK(8)), all = dma_set_mask_and_coherent(dev, DMA_BIT_MASK(64));

	b = dma_map_single(dev, q, 256, DMA_TO_DEVICE);
	pr_info("platforms: dma %d, small %d, all %d, page %d, same %d\n", !!p, small, all, (int)offset_in_page(a), b == virt_to_phys(q));
	pr_info("platforms: error %d, mask %llx\n", dma_mapping_error(dev, b), *dev->dma_mask);
	dma_unmap_single(dev, b, 256, DMA_TO_DEVICE);
	dma_free_coherent(dev, 100, p, a);
	kfree(q);
}

static int __init start(void)
{
	int data = 77, err;

	one = platform_device_register_resndata(NULL, "hf_one", 3, res, 2, &data, sizeof(data));
	autos[0] = platform_device_register_simple("hf_auto", PLATFORM_DEVID_AUTO, NULL, 0);
	late = platform_device_register_simple("hf_later", PLATFORM_DEVID_NONE, NULL, 0);
	bad = platform_device_register_simple("hf_bad", PLATFORM_DEVID_NONE, NULL, 0);
	pr_info("platforms: twice %d\n", PTR_ERR_OR_ZERO(platform_device_register_simple("hf_one", 3, NULL, 0)));
	err = platform_driver_register(&driver);
	pr_info("platforms: driver %d, again %d\n", err, platform_driver_register(&again));
	autos[1] = platform_device_register_simple("hf_auto", PLATFORM_DEVID_AUTO, NULL, 0);
	msleep(500); // what was put off is tried again when a driver has been bound
	dma(&one->dev);
	err = bus_register(&own_bus);
	pr_info("platforms: bus %d %d, root %d\n", err, bus_create_file(&own_bus, &bus_attr_author), device_register(&own_root));
	pr_info("platforms: own driver %d\n", driver_register(&own_driver));
	pr_info("platforms: file %d\n", driver_create_file(&own_driver, &driver_attr_version));
	pr_info("platforms: own device %d\n", device_register(&own_device));
	return 0;
}

static void __exit stop(void)
{
	device_unregister(&own_device);
	driver_unregister(&own_driver);
	device_unregister(&own_root);
	bus_unregister(&own_bus);
	platform_device_unregister(one);
	platform_driver_unregister(&driver);
	platform_device_unregister(autos[0]);
	platform_device_unregister(autos[1]);
	platform_device_unregister(late);
	platform_device_unregister(bad);
}

module_init(start);
module_exit(stop);
MODULE_LICENSE("GPL");
