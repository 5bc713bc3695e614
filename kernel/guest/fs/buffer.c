// Buffers: blocks of a disk in pages. A block is a page here.
#include <linux/blkdev.h>
#include <linux/wait.h>
#include <trace/events/block.h>

static struct kmem_cache *bh_cachep;
static DECLARE_WAIT_QUEUE_HEAD(bh_wait);

static __noipa struct buffer_head *alloc_buffer_head(gfp_t gfp)
{
	return kmem_cache_alloc(bh_cachep, gfp | __GFP_ZERO);
}

// create_empty_buffers gives a page of a disk its buffer. The page is locked.
static __noipa struct buffer_head *create_empty_buffers(struct page *page)
{
	struct address_space *mapping = page->mapping;
	struct buffer_head *bh = (struct buffer_head *)page_private(page);

	if (bh)
		return bh;
	bh = alloc_buffer_head(GFP_KERNEL);
	if (!bh)
		return NULL;
	*bh = (struct buffer_head){
		.b_state = 1UL << BH_Mapped | (page_test(page, PG_uptodate) ? 1UL << BH_Uptodate : 0),
		.b_page = page, .b_blocknr = page->index, .b_size = PAGE_SIZE,
		.b_data = page_address(page), .b_bdev = I_BDEV(mapping->host),
	};
	set_page_private(page, (unsigned long)bh);
	return bh;
}

noinline __noclone void unlock_buffer(struct buffer_head *bh)
{
	clear_bit(BH_Lock, &bh->b_state);
	smp_mb();
	wake_up_all(&bh_wait);
}

noinline __noclone void __wait_on_buffer(struct buffer_head *bh)
{
	wait_event_io(bh_wait, !test_bit(BH_Lock, &bh->b_state));
}

static __noipa void end_bio_bh_io_sync(struct bio *bio)
{
	struct buffer_head *bh = bio->bi_private;

	bh->b_end_io(bh, !bio->bi_status);
	bio_put(bio);
}

static __noipa int submit_bh_wbc(unsigned int opf, struct buffer_head *bh)
{
	struct bio *bio = bio_alloc(bh->b_bdev, 1, opf, GFP_KERNEL);

	if (!bio) {
		bh->b_end_io(bh, 0);
		return -ENOMEM;
	}
	bio->bi_iter.bi_sector = bh->b_blocknr * (bh->b_size >> SECTOR_SHIFT);
	bio_add_page(bio, bh->b_page, bh->b_size, 0);
	bio->bi_end_io = end_bio_bh_io_sync;
	bio->bi_private = bh;
	submit_bio(bio);
	return 0;
}

noinline __noclone int submit_bh(unsigned int opf, struct buffer_head *bh)
{
	return submit_bh_wbc(opf, bh);
}

static __noipa void end_buffer_read_sync(struct buffer_head *bh, int uptodate)
{
	if (uptodate)
		set_bit(BH_Uptodate, &bh->b_state);
	unlock_buffer(bh);
}

static __noipa void end_buffer_async_write(struct buffer_head *bh, int uptodate)
{
	struct page *page = bh->b_page;

	if (!uptodate)
		set_bit(BH_Dirty, &bh->b_state);
	clear_bit(BH_Lock, &bh->b_state);
	folio_end_writeback(page);
}

// __block_write_begin_int reads a block of which only a part will be written.
static __noipa int __block_write_begin_int(struct page *page, loff_t pos, unsigned int len)
{
	struct buffer_head *bh = create_empty_buffers(page);

	if (!bh)
		return -ENOMEM;
	if (test_bit(BH_Uptodate, &bh->b_state) || len == PAGE_SIZE)
		return 0;
	set_bit(BH_Lock, &bh->b_state);
	bh->b_end_io = end_buffer_read_sync;
	submit_bh(REQ_OP_READ, bh);
	__wait_on_buffer(bh);
	if (!test_bit(BH_Uptodate, &bh->b_state))
		return -EIO;
	set_bit(PG_uptodate, &page->flags);
	return 0;
}

noinline __noclone int block_write_begin(struct address_space *mapping, loff_t pos, unsigned int len, struct page **pagep)
{
	struct page *page = __filemap_get_folio(mapping, pos >> PAGE_SHIFT, true);
	int err;

	if (!page)
		return -ENOMEM;
	err = __block_write_begin_int(page, pos, len);
	if (err) {
		folio_unlock(page);
		return err;
	}
	*pagep = page;
	return 0;
}

noinline __noclone void mark_buffer_dirty(struct buffer_head *bh)
{
	trace_block_dirty_buffer(bh);
	if (test_and_set_bit(BH_Dirty, &bh->b_state))
		return;
	set_bit(PG_dirty, &bh->b_page->flags);
	__mark_inode_dirty(bh->b_bdev->bd_inode, I_DIRTY_PAGES);
}

static __noipa void __block_commit_write(struct inode *inode, struct page *page)
{
	struct buffer_head *bh = (struct buffer_head *)page_private(page);

	set_bit(BH_Uptodate, &bh->b_state);
	mark_buffer_dirty(bh);
	set_bit(PG_uptodate, &page->flags);
}

// block_write_end returns how much has been written: nothing, if the rest of a block that was
// not read is not known.
noinline __noclone int block_write_end(struct file *file, struct address_space *mapping, loff_t pos, unsigned int len, unsigned int copied, struct page *page)
{
	if (copied < len && !page_test(page, PG_uptodate))
		return 0;
	__block_commit_write(mapping->host, page);
	return copied;
}

// block_write_full_page writes a page, which is locked; it returns when that has begun.
noinline __noclone int block_write_full_page(struct page *page, unsigned int opf)
{
	struct buffer_head *bh = (struct buffer_head *)page_private(page);

	set_bit(PG_writeback, &page->flags);
	if (!bh || !test_and_clear_bit(BH_Dirty, &bh->b_state)) {
		folio_unlock(page);
		folio_end_writeback(page);
		return 0;
	}
	set_bit(BH_Lock, &bh->b_state);
	bh->b_end_io = end_buffer_async_write;
	folio_unlock(page);
	return submit_bh_wbc(opf, bh);
}

noinline __noclone bool try_to_free_buffers(struct page *page)
{
	struct buffer_head *bh = (struct buffer_head *)page_private(page);

	set_page_private(page, 0);
	if (bh)
		kmem_cache_free(bh_cachep, bh);
	return true;
}

static int __init buffer_init(void)
{
	bh_cachep = kmem_cache_create("buffer_head", sizeof(struct buffer_head), 0, SLAB_RECLAIM_ACCOUNT | SLAB_PANIC, NULL);
	return bh_cachep ? 0 : -ENOMEM;
}
subsys_initcall(buffer_init);
