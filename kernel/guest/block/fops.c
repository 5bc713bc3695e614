// Block devices as files, with their pages in memory.
#include <linux/blkdev.h>
#include <linux/hostfs.h>

static struct block_device *bdev; // there is one

struct block_device *I_BDEV(struct inode *inode)
{
	return inode->i_private;
}

static __noipa void blkdev_readahead(struct address_space *mapping, struct page **pages, unsigned int nr)
{
	mpage_readahead(mapping, pages, nr);
}

static __noipa int blkdev_writepage(struct page *page)
{
	return block_write_full_page(page, REQ_OP_WRITE | REQ_SYNC);
}

static __noipa int blkdev_write_begin(struct file *file, struct address_space *mapping, loff_t pos, unsigned int len, struct page **pagep)
{
	return block_write_begin(mapping, pos, len, pagep);
}

static __noipa int blkdev_write_end(struct file *file, struct address_space *mapping, loff_t pos, unsigned int len, unsigned int copied, struct page *page)
{
	int ret = block_write_end(file, mapping, pos, len, copied, page);

	folio_unlock(page);
	return ret;
}

static const struct address_space_operations def_blk_aops = {
	.readahead = blkdev_readahead,
	.writepage = blkdev_writepage,
	.write_begin = blkdev_write_begin,
	.write_end = blkdev_write_end,
};

noinline __noclone struct block_device *blkdev_get_by_dev(dev_t dev)
{
	if (!bdev || bdev->bd_dev != dev)
		return ERR_PTR(-ENXIO);
	mutex_lock(&bdev->bd_open_mutex);
	atomic_inc(&bdev->bd_openers);
	mutex_unlock(&bdev->bd_open_mutex);
	return bdev;
}

noinline __noclone int sync_blockdev(struct block_device *b)
{
	return filemap_write_and_wait_range(b->bd_inode->i_mapping, 0, MAX_LFS_FILESIZE);
}

static __noipa void kill_bdev(struct block_device *b)
{
	truncate_inode_pages(b->bd_inode->i_mapping, 0);
}

// blkdev_put: the last one who closes a disk has it written, and its pages freed.
noinline __noclone void blkdev_put(struct block_device *b)
{
	mutex_lock(&b->bd_open_mutex);
	if (atomic_dec_and_test(&b->bd_openers)) {
		wb_shutdown(&b->bd_wb);
		sync_blockdev(b);
		kill_bdev(b);
	}
	mutex_unlock(&b->bd_open_mutex);
}

static __noipa int blkdev_open(struct inode *inode, struct file *filp)
{
	struct block_device *b = blkdev_get_by_dev(inode->i_rdev);

	if (IS_ERR(b))
		return PTR_ERR(b);
	filp->f_mapping = b->bd_inode->i_mapping;
	filp->f_ra.prev_pos = -1;
	return 0;
}

static __noipa int blkdev_close(struct inode *inode, struct file *filp)
{
	blkdev_put(I_BDEV(filp->f_mapping->host));
	return 0;
}

static __noipa loff_t blkdev_llseek(struct file *file, loff_t offset, int whence)
{
	loff_t size = file->f_mapping->host->i_size;

	return generic_file_llseek_size(file, offset, whence, size, size);
}

static __noipa ssize_t blkdev_read_iter(struct kiocb *iocb, struct iov_iter *to)
{
	return generic_file_read_iter(iocb, to);
}

static __noipa ssize_t blkdev_write_iter(struct kiocb *iocb, struct iov_iter *from)
{
	struct inode *inode = iocb->ki_filp->f_mapping->host;
	size_t count = from->count;
	struct blk_plug plug;
	ssize_t ret;

	if (!count)
		return 0;
	if (iocb->ki_pos >= inode->i_size)
		return -ENOSPC;
	from->count = min(count, (size_t)(inode->i_size - iocb->ki_pos));
	blk_start_plug(&plug);
	inode_lock(inode);
	ret = generic_perform_write(iocb, from);
	inode_unlock(inode);
	blk_finish_plug(&plug);
	return ret;
}

static __noipa int blkdev_fsync(struct file *filp, loff_t start, loff_t end, int datasync)
{
	return file_write_and_wait_range(filp, start, end);
}

static const struct file_operations def_blk_fops = {
	.open = blkdev_open,
	.release = blkdev_close,
	.llseek = blkdev_llseek,
	.read_iter = blkdev_read_iter,
	.write_iter = blkdev_write_iter,
	.fsync = blkdev_fsync,
};

// bdev_add makes a disk and its name in /dev.
struct block_device *bdev_add(dev_t dev, const char *name, sector_t sectors, struct request_queue *q)
{
	struct block_device *b = kzalloc(sizeof(*b), GFP_KERNEL);
	struct gendisk *disk = kzalloc(sizeof(*disk), GFP_KERNEL);
	struct inode *inode = new_inode_pseudo(host_pseudo_mnt()->mnt_sb);
	unsigned long nr = sectors / PAGE_SECTORS;
	struct page **pages = kcalloc(nr, sizeof(*pages), GFP_KERNEL);
	struct dentry *d;

	if (!b || !disk || !inode || !pages)
		return NULL;
	*b = (struct block_device){ .bd_dev = dev, .bd_nr_sectors = sectors, .bd_inode = inode, .bd_queue = q, .bd_disk = disk };
	*disk = (struct gendisk){ .major = MAJOR(dev), .first_minor = MINOR(dev), .minors = 16, .part0 = b, .queue = q };
	strscpy(disk->disk_name, name, sizeof(disk->disk_name));
	q->disk = disk;
	mutex_init(&b->bd_open_mutex);
	wb_init(&b->bd_wb, inode->i_mapping, dev);
	inode->i_mode = S_IFBLK;
	inode->i_rdev = dev;
	inode->i_size = sectors << SECTOR_SHIFT;
	inode->i_private = b;
	inode->i_mapping->host = inode;
	inode->i_mapping->pages = pages;
	inode->i_mapping->nrpages = nr;
	inode->i_mapping->a_ops = &def_blk_aops;
	spin_lock_init(&inode->i_mapping->pages_lock);
	bdev = b;
	d = hostfs_make_file(devtmpfs_mnt->mnt_root, name, S_IFBLK | 0660, &def_blk_fops, NULL, 0, NULL, NULL);
	if (!IS_ERR(d))
		d->d_inode->i_rdev = dev;
	return b;
}
