// writeback.h: pages that are written some time after they have changed.
#ifndef _LINUX_WRITEBACK_H
#define _LINUX_WRITEBACK_H

#include <linux/fs.h>
#include <linux/workqueue.h>

enum wb_reason { WB_REASON_BACKGROUND, WB_REASON_VMSCAN, WB_REASON_SYNC, WB_REASON_PERIODIC };

struct wb_writeback_work {
	long nr_pages;
	int sync_mode, for_kupdate, range_cyclic, for_background;
	enum wb_reason reason;
};

struct bdi_writeback {
	struct delayed_work dwork;
	struct address_space *mapping;
	spinlock_t list_lock;
	unsigned long dirtied_when; // jiffies; 0: nothing is dirty
	char name[32];
};

void wb_init(struct bdi_writeback *wb, struct address_space *mapping, dev_t dev);
void wb_shutdown(struct bdi_writeback *wb);
void __mark_inode_dirty(struct inode *inode, int flags);

#define I_DIRTY_PAGES 4

#endif
