// platform_device.h: devices that are on no bus that could find them, and their drivers.
// Layouts are 6.1's.
#ifndef _PLATFORM_DEVICE_H
#define _PLATFORM_DEVICE_H

#include <linux/device.h>
#include <linux/ioport.h>
#include <linux/module.h>

#define PLATFORM_DEVID_NONE (-1)
#define PLATFORM_DEVID_AUTO (-2)
#define PLATFORM_NAME_SIZE 24

struct platform_device_id {
	char name[PLATFORM_NAME_SIZE];
	unsigned long driver_data;
};
static_assert(sizeof(struct platform_device_id) == 32, "struct platform_device_id");

struct platform_device {
	const char *name;
	int id;
	bool id_auto;
	struct device dev;
	u64 platform_dma_mask;
	void *dma_parms[2];
	u32 num_resources;
	struct resource *resource;
	const struct platform_device_id *id_entry;
	const char *driver_override;
	void *mfd_cell;
};
static_assert(offsetof(struct platform_device, platform_dma_mask) == 768, "struct platform_device");
static_assert(offsetof(struct platform_device, resource) == 800, "struct platform_device");
static_assert(sizeof(struct platform_device) == 832, "struct platform_device");

struct platform_driver {
	int (*probe)(struct platform_device *);
	int (*remove)(struct platform_device *);
	void (*remove_new)(struct platform_device *);
	void (*shutdown)(struct platform_device *);
	int (*suspend)(struct platform_device *, pm_message_t state);
	int (*resume)(struct platform_device *);
	struct device_driver driver;
	const struct platform_device_id *id_table;
	bool prevent_deferred_probe, driver_managed_dma;
};
static_assert(offsetof(struct platform_driver, id_table) == 192, "struct platform_driver");
static_assert(sizeof(struct platform_driver) == 208, "struct platform_driver");

struct property_entry;
struct platform_device_info {
	struct device *parent;
	void *fwnode;
	bool of_node_reused;
	const char *name;
	int id;
	const struct resource *res;
	unsigned int num_res;
	const void *data;
	size_t size_data;
	u64 dma_mask;
	const struct property_entry *properties;
};
static_assert(offsetof(struct platform_device_info, name) == 24, "struct platform_device_info");
static_assert(sizeof(struct platform_device_info) == 88, "struct platform_device_info");

#define to_platform_device(x) container_of((x), struct platform_device, dev)
#define to_platform_driver(x) container_of((x), struct platform_driver, driver)

extern struct bus_type platform_bus_type;
extern struct device platform_bus;

int platform_device_register(struct platform_device *pdev);
void platform_device_unregister(struct platform_device *pdev);
struct platform_device *platform_device_alloc(const char *name, int id);
int platform_device_add_resources(struct platform_device *pdev, const struct resource *res, unsigned int num);
int platform_device_add_data(struct platform_device *pdev, const void *data, size_t size);
int platform_device_add(struct platform_device *pdev);
void platform_device_del(struct platform_device *pdev);
void platform_device_put(struct platform_device *pdev);
int platform_add_devices(struct platform_device **devs, int num);
struct platform_device *platform_device_register_full(const struct platform_device_info *info);
struct resource *platform_get_resource(struct platform_device *pdev, unsigned int type, unsigned int num);
struct resource *platform_get_resource_byname(struct platform_device *pdev, unsigned int type, const char *name);
int platform_get_irq(struct platform_device *pdev, unsigned int num);
int platform_get_irq_optional(struct platform_device *pdev, unsigned int num);
int platform_irq_count(struct platform_device *pdev);
int __platform_driver_register(struct platform_driver *drv, struct module *owner);
int __platform_driver_probe(struct platform_driver *drv, int (*probe)(struct platform_device *), struct module *owner);
void platform_driver_unregister(struct platform_driver *drv);

#define platform_driver_register(drv) __platform_driver_register(drv, THIS_MODULE)
#define platform_driver_probe(drv, probe) __platform_driver_probe(drv, probe, THIS_MODULE)
#define module_platform_driver(d) module_driver(d, platform_driver_register, platform_driver_unregister)
static inline void *platform_get_drvdata(const struct platform_device *pdev) { return pdev->dev.driver_data; }
static inline void platform_set_drvdata(struct platform_device *pdev, void *data) { pdev->dev.driver_data = data; }
static inline struct platform_device *platform_device_register_resndata(struct device *parent, const char *name, int id,
	const struct resource *res, unsigned int num, const void *data, size_t size)
{
	struct platform_device_info info = { .parent = parent, .name = name, .id = id, .res = res, .num_res = num, .data = data, .size_data = size };

	return platform_device_register_full(&info);
}
static inline struct platform_device *platform_device_register_simple(const char *name, int id, const struct resource *res, unsigned int num)
{ return platform_device_register_resndata(NULL, name, id, res, num, NULL, 0); }
static inline struct platform_device *platform_device_register_data(struct device *parent, const char *name, int id, const void *data, size_t size)
{ return platform_device_register_resndata(parent, name, id, NULL, 0, data, size); }

#endif
