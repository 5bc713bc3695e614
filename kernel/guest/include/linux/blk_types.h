// blk_types.h: as much of a block device as its name needs. Layouts are 6.1's.
#ifndef _LINUX_BLK_TYPES_H
#define _LINUX_BLK_TYPES_H

#include <linux/types.h>

struct gendisk {
	int major, first_minor, minors;
	char disk_name[32];
};

struct block_device {
	char __before_partno[848];
	u8 bd_partno; // 0 for the whole disk
	struct gendisk *bd_disk;
};
static_assert(offsetof(struct block_device, bd_disk) == 856, "struct block_device");

#endif
