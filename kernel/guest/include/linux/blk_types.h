// blk_types.h: disks, what is asked of them, and requests. The structures lie as in 6.1 where
// they have the same fields; other fields are where 6.1 has some that are not used here.
#ifndef _LINUX_BLK_TYPES_H
#define _LINUX_BLK_TYPES_H

#include <linux/fs.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/writeback.h>

typedef u64 sector_t; // of 512 bytes
typedef u8 blk_status_t;
#define BIO_MAX_VECS 32

struct request_queue;
struct block_device;

struct gendisk {
	int major, first_minor, minors;
	char disk_name[32];			// 12
	unsigned short events, event_flags;
	char __before_part0[64 - 48];
	struct block_device *part0;		// 64
	void *fops;
	struct request_queue *queue;		// 80
};
static_assert(offsetof(struct gendisk, disk_name) == 12 && offsetof(struct gendisk, queue) == 80, "struct gendisk");

struct block_device {
	sector_t bd_start_sect, bd_nr_sectors;
	void *bd_stats;
	unsigned long bd_stamp;
	bool bd_read_only;
	dev_t bd_dev;				// 36
	atomic_t bd_openers;
	struct inode *bd_inode;			// 48: its pages are the disk's
	void *bd_super, *bd_claiming;
	struct bdi_writeback bd_wb;		// ours, and the next one
	struct mutex bd_open_mutex;
	char __before_partno[848 - 72 - sizeof(struct bdi_writeback) - sizeof(struct mutex)];
	u8 bd_partno;				// 848: 0 for the whole disk
	spinlock_t bd_size_lock;
	struct gendisk *bd_disk;		// 856
	struct request_queue *bd_queue;
};
static_assert(offsetof(struct block_device, bd_dev) == 36 && offsetof(struct block_device, bd_inode) == 48 &&
	offsetof(struct block_device, bd_partno) == 848 && offsetof(struct block_device, bd_disk) == 856, "struct block_device");

struct bio_vec {
	struct page *bv_page;
	unsigned int bv_len, bv_offset;
};

struct bvec_iter {
	sector_t bi_sector;
	unsigned int bi_size; // bytes
	unsigned int bi_idx, bi_bvec_done;
} __packed;

struct bio {
	struct bio *bi_next; // in the same request
	struct block_device *bi_bdev;
	unsigned int bi_opf;			// 16
	unsigned short bi_flags, bi_ioprio;
	blk_status_t bi_status;			// 24
	atomic_t __bi_remaining;
	struct bvec_iter bi_iter;		// 32
	unsigned int bi_cookie;
	void (*bi_end_io)(struct bio *bio);	// 56
	void *bi_private;
	char __before_vcnt[104 - 72];
	unsigned short bi_vcnt;			// 104
	unsigned short bi_max_vecs;
	atomic_t __bi_cnt;
	struct bio_vec *bi_io_vec;		// 112: bi_inline_vecs
	void *bi_pool;
	struct bio_vec bi_inline_vecs[BIO_MAX_VECS]; // 128
};
static_assert(offsetof(struct bio, bi_iter) == 32 && offsetof(struct bio, bi_end_io) == 56 &&
	offsetof(struct bio, bi_vcnt) == 104 && offsetof(struct bio, bi_inline_vecs) == 128, "struct bio");

struct request {
	struct request_queue *q;
	void *mq_ctx, *mq_hctx;
	unsigned int cmd_flags, rq_flags;	// 24
	int tag, internal_tag;
	unsigned int timeout;
	unsigned int __data_len;		// 44
	sector_t __sector;
	struct bio *bio, *biotail;		// 56
	struct list_head queuelist;		// 72: of a plug, or of the scheduler
	struct block_device *part;		// 88
	u64 alloc_time_ns, start_time_ns, io_start_time_ns;
	unsigned short wbt_flags, stats_sectors;
	unsigned short nr_phys_segments;	// 124
	unsigned short nr_integrity_segments;
	blk_status_t status;			// ours, and the next one
	void *pdu;				// the driver's
};
static_assert(offsetof(struct request, __data_len) == 44 && offsetof(struct request, bio) == 56 &&
	offsetof(struct request, part) == 88 && offsetof(struct request, nr_phys_segments) == 124, "struct request");

#endif
