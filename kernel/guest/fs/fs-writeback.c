// Pages of the disk that have been dirty for some time are written.
#include <linux/blkdev.h>
#include <linux/writeback.h>
#include <trace/events/writeback.h>

#define DIRTY_WRITEBACK_INTERVAL (5 * HZ) // vm.dirty_writeback_centisecs
#define DIRTY_EXPIRE_INTERVAL (30 * HZ)   // vm.dirty_expire_centisecs

static __noipa void wb_wakeup_delayed(struct bdi_writeback *wb)
{
	queue_delayed_work(system_unbound_wq, &wb->dwork, DIRTY_WRITEBACK_INTERVAL);
}

noinline __noclone void __mark_inode_dirty(struct inode *inode, int flags)
{
	struct bdi_writeback *wb = &I_BDEV(inode)->bd_wb;
	bool first;

	spin_lock(&wb->list_lock);
	first = !wb->dirtied_when;
	if (first)
		wb->dirtied_when = jiffies | 1;
	spin_unlock(&wb->list_lock);
	if (first)
		wb_wakeup_delayed(wb);
}

// writeback_single_inode writes the pages and waits for them.
static __noipa long writeback_single_inode(struct bdi_writeback *wb)
{
	spin_lock(&wb->list_lock);
	wb->dirtied_when = 0;
	spin_unlock(&wb->list_lock);
	return filemap_write_and_wait_range(wb->mapping, 0, MAX_LFS_FILESIZE) ? 0 : wb->mapping->nrpages;
}

static __noipa long writeback_sb_inodes(struct bdi_writeback *wb, struct wb_writeback_work *work)
{
	if (work->for_kupdate && time_before(jiffies, wb->dirtied_when + DIRTY_EXPIRE_INTERVAL))
		return 0;
	return writeback_single_inode(wb);
}

static __noipa long wb_writeback(struct bdi_writeback *wb, struct wb_writeback_work *work)
{
	long progress;

	trace_writeback_start(wb, work);
	progress = writeback_sb_inodes(wb, work);
	trace_writeback_written(wb, work);
	return progress;
}

static __noipa long wb_check_old_data_flush(struct bdi_writeback *wb)
{
	struct wb_writeback_work work = {
		.nr_pages = wb->mapping->nrpages, .for_kupdate = 1, .range_cyclic = 1, .reason = WB_REASON_PERIODIC,
	};

	return wb->dirtied_when ? wb_writeback(wb, &work) : 0;
}

static __noipa long wb_do_writeback(struct bdi_writeback *wb)
{
	return wb_check_old_data_flush(wb);
}

static __noipa void wb_workfn(struct work_struct *work)
{
	struct bdi_writeback *wb = container_of(to_delayed_work(work), struct bdi_writeback, dwork);

	wb_do_writeback(wb);
	if (READ_ONCE(wb->dirtied_when))
		wb_wakeup_delayed(wb);
}

void wb_init(struct bdi_writeback *wb, struct address_space *mapping, dev_t dev)
{
	INIT_DELAYED_WORK(&wb->dwork, wb_workfn);
	spin_lock_init(&wb->list_lock);
	wb->mapping = mapping;
	snprintf(wb->name, sizeof(wb->name), "%u:%u", MAJOR(dev), MINOR(dev));
}

// wb_shutdown is called when nobody has the disk open any more.
noinline __noclone void wb_shutdown(struct bdi_writeback *wb)
{
	spin_lock(&wb->list_lock);
	wb->dirtied_when = 0; // the work will not queue itself again
	spin_unlock(&wb->list_lock);
	cancel_delayed_work_sync(&wb->dwork);
}
