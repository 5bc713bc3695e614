// fwnode.h: nodes of a firmware's description of devices. Layouts are 6.1's.
#ifndef _LINUX_FWNODE_H
#define _LINUX_FWNODE_H

#include <linux/types.h>
#include <linux/list.h>

struct device;
struct fwnode_operations;

struct fwnode_handle {
	struct fwnode_handle *secondary;
	const struct fwnode_operations *ops;
	struct device *dev;
	struct list_head suppliers, consumers;
	unsigned long flags;
};

struct fwnode_operations {
	struct fwnode_handle *(*get)(struct fwnode_handle *fwnode);
	void (*put)(struct fwnode_handle *fwnode);
	void *__properties[7];
	const char *(*get_name)(const struct fwnode_handle *fwnode);
	const char *(*get_name_prefix)(const struct fwnode_handle *fwnode);
	struct fwnode_handle *(*get_parent)(const struct fwnode_handle *fwnode);
};
static_assert(offsetof(struct fwnode_operations, get_name) == 72, "struct fwnode_operations");

#endif
