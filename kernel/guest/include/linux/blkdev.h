// blkdev.h: block devices. A bio is what a file asks for, a request what the device is given:
// one bio, or several that follow each other on the disk.
#ifndef _LINUX_BLKDEV_H
#define _LINUX_BLKDEV_H

#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/cdev.h>
#include <linux/writeback.h>
#include <linux/blk_types.h>

#define BLK_STS_OK 0
#define BLK_STS_IOERR 10
#define SECTOR_SHIFT 9
#define DISK_NAME_LEN 32
#define PAGE_SECTORS (PAGE_SIZE >> SECTOR_SHIFT)

enum req_op { REQ_OP_READ, REQ_OP_WRITE };
#define REQ_OP_MASK 0xffu
#define REQ_SYNC (1u << 11)
#define REQ_RAHEAD (1u << 19)

struct blk_mq_ops {
	blk_status_t (*queue_rq)(struct request *rq);
	void (*complete)(struct request *rq);
};

// As in 6.1, mq_ops is at 48 and disk at 128.
struct request_queue {
	bool elevator;               // requests go to mq-deadline: where there is one CPU, and so one hardware queue
	spinlock_t lock;             // of sort_list
	struct list_head sort_list;  // requests that wait; with an elevator by their sectors
	unsigned int max_segments, pdu_size;
	u64 ios[2];                  // done reads and writes
	const struct blk_mq_ops *mq_ops;
	u64 sectors[2], nsecs[2];    // of these
	char __before_disk[128 - 88];
	struct gendisk *disk;
};
static_assert(offsetof(struct request_queue, mq_ops) == 48 && offsetof(struct request_queue, disk) == 128, "struct request_queue");

// A task's requests that it has not handed on yet.
struct blk_plug {
	struct list_head mq_list;
	unsigned short rq_count;
};

// wait_event_io is wait_event for what a disk does: the task's requests are handed on before.
#define wait_event_io(wq, condition) do { \
	if (condition) \
		break; \
	blk_flush_plug(current->plug); \
	wait_event(wq, condition); \
} while (0)

static inline bool op_is_write(unsigned int op)
{
	return op & 1;
}

static inline sector_t bio_end_sector(const struct bio *bio)
{
	return bio->bi_iter.bi_sector + (bio->bi_iter.bi_size >> SECTOR_SHIFT);
}

static inline unsigned int blk_rq_sectors(const struct request *rq)
{
	return rq->__data_len >> SECTOR_SHIFT;
}

// block/bio.c
struct bio *bio_alloc(struct block_device *bdev, unsigned short nr_vecs, unsigned int opf, gfp_t gfp);
bool bio_add_page(struct bio *bio, struct page *page, unsigned int len, unsigned int off);
void bio_endio(struct bio *bio);
void bio_put(struct bio *bio);

// block/blk-core.c
void submit_bio(struct bio *bio);
void submit_bio_noacct(struct bio *bio);
void blk_start_plug(struct blk_plug *plug);
void blk_finish_plug(struct blk_plug *plug);
void blk_flush_plug(struct blk_plug *plug);
void blk_fill_rwbs(char *rwbs, unsigned int opf);

// block/blk-merge.c
bool blk_attempt_plug_merge(struct request_queue *q, struct bio *bio, unsigned int nr_segs);

// block/blk-mq.c
void blk_mq_submit_bio(struct bio *bio);
void blk_mq_start_request(struct request *rq);
void blk_mq_complete_request(struct request *rq);
void blk_mq_end_request(struct request *rq, blk_status_t error);
bool blk_update_request(struct request *rq, blk_status_t error, unsigned int nr_bytes);
void blk_mq_flush_plug_list(struct blk_plug *plug, bool from_schedule);

// block/mq-deadline.c
void dd_insert_requests(struct request_queue *q, struct list_head *list);
struct request *dd_dispatch_request(struct request_queue *q);

// block/fops.c
struct block_device *bdev_add(dev_t dev, const char *name, sector_t sectors, struct request_queue *q);
struct block_device *I_BDEV(struct inode *inode);

// A page of a disk as one block.
enum bh_state_bits { BH_Uptodate, BH_Dirty, BH_Lock, BH_Mapped };
struct buffer_head {
	unsigned long b_state;
	struct page *b_page;
	sector_t b_blocknr; // in blocks of b_size
	size_t b_size;
	char *b_data;
	struct block_device *b_bdev;
	void (*b_end_io)(struct buffer_head *bh, int uptodate);
};

// fs/buffer.c
int block_write_begin(struct address_space *mapping, loff_t pos, unsigned int len, struct page **pagep);
int block_write_end(struct file *file, struct address_space *mapping, loff_t pos, unsigned int len, unsigned int copied, struct page *page);
int block_write_full_page(struct page *page, unsigned int opf);
void mark_buffer_dirty(struct buffer_head *bh);
bool try_to_free_buffers(struct page *page);

// fs/mpage.c
void mpage_readahead(struct address_space *mapping, struct page **pages, unsigned int nr);

// mm/filemap.c
#if GUEST_LINUX < 601
#define filemap_read generic_file_buffered_read
#define folio_unlock unlock_page
#define folio_end_writeback end_page_writeback
#define folio_wait_writeback wait_on_page_writeback
#define __folio_lock __lock_page
#define filemap_add_folio add_to_page_cache_lru
#define page_cache_sync_ra page_cache_sync_readahead
#define page_cache_async_ra page_cache_async_readahead
#define __filemap_get_folio pagecache_get_page
#endif
void folio_unlock(struct page *page);
void folio_end_writeback(struct page *page);
void folio_wait_writeback(struct page *page);
void folio_lock(struct page *page);
struct page *__filemap_get_folio(struct address_space *mapping, unsigned long index, bool create);
void truncate_inode_pages(struct address_space *mapping, loff_t lstart);
int file_write_and_wait_range(struct file *file, loff_t start, loff_t end);
int filemap_write_and_wait_range(struct address_space *mapping, loff_t start, loff_t end);

#define PG_referenced 1
#define PG_uptodate 2
#define PG_dirty 3
#define PG_writeback 15
#define PG_readahead 18 // the next window is read when this page is
#define PG_CACHE_FLAGS (1UL << PG_referenced | 1UL << PG_uptodate | 1UL << PG_dirty | 1UL << PG_writeback | 1UL << PG_readahead)
#define page_test(p, bit) test_bit(bit, &(p)->flags)

#endif
