// base.h: what the files of drivers/base share.
#ifndef _DRIVERS_BASE_BASE_H
#define _DRIVERS_BASE_BASE_H

#include <linux/device.h>

// subsys_private is what a registered bus has. The lists belong to lock.
struct subsys_private {
	struct kset subsys, *devices_kset, *drivers_kset;
	struct bus_type *bus;
	struct mutex lock;
	struct list_head devices, drivers;
	bool drivers_autoprobe;
};

// driver_private is what a driver on a bus has. The list belongs to the bus's lock.
struct driver_private {
	struct kobject kobj;
	struct device_driver *driver;
	struct list_head bus_node, devices;
};

struct device_private {
	struct device *device;
	struct list_head bus_node, driver_node; // the bus's lock
	struct list_head deferred;		// that of deferred probes
};

int device_private_init(struct device *dev);

#endif
