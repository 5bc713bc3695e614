// Requests, from the bio to the driver, and back in the disk's interrupt.
#include <linux/blkdev.h>
#include <linux/ktime.h>
#include <trace/events/block.h>

static __noipa struct request *__blk_mq_alloc_requests(struct request_queue *q)
{
	struct request *rq = kzalloc(sizeof(*rq) + q->pdu_size, GFP_KERNEL);

	if (!rq)
		return NULL;
	rq->q = q;
	rq->pdu = rq + 1;
	INIT_LIST_HEAD(&rq->queuelist);
	rq->start_time_ns = ktime_get();
	return rq;
}

static void blk_mq_bio_to_request(struct request *rq, struct bio *bio, unsigned int nr_segs)
{
	rq->cmd_flags = bio->bi_opf;
	rq->__sector = bio->bi_iter.bi_sector;
	rq->__data_len = bio->bi_iter.bi_size;
	rq->nr_phys_segments = nr_segs;
	rq->bio = rq->biotail = bio;
	rq->part = bio->bi_bdev;
#if GUEST_LINUX >= 612
	trace_block_io_start(rq);
#endif
}

static __noipa blk_status_t blk_mq_dispatch_rq_list(struct request_queue *q, struct list_head *list)
{
	blk_status_t status = BLK_STS_OK;

	while (!list_empty(list)) {
		struct request *rq = list_first_entry(list, struct request, queuelist);

		list_del_init(&rq->queuelist);
		status = q->mq_ops->queue_rq(rq);
		if (status != BLK_STS_OK)
			blk_mq_end_request(rq, status);
	}
	return status;
}

static __noipa void blk_mq_sched_dispatch_requests(struct request_queue *q)
{
	struct request *rq;
	LIST_HEAD(list);

	while ((rq = dd_dispatch_request(q))) {
		list_add_tail(&rq->queuelist, &list);
		blk_mq_dispatch_rq_list(q, &list);
	}
}

noinline __noclone void blk_mq_run_hw_queue(struct request_queue *q, bool async)
{
	blk_mq_sched_dispatch_requests(q);
}

// blk_mq_insert_requests is for a queue without an elevator.
static __noipa void blk_mq_insert_requests(struct request_queue *q, struct list_head *list)
{
	struct request *rq;

	list_for_each_entry(rq, list, queuelist)
		trace_block_rq_insert(rq);
	spin_lock(&q->lock);
	list_splice_tail_init(list, &q->sort_list);
	spin_unlock(&q->lock);
}

static __noipa void blk_mq_sched_insert_requests(struct request_queue *q, struct list_head *list, bool run_queue_async)
{
	if (q->elevator)
		dd_insert_requests(q, list);
	else
		blk_mq_insert_requests(q, list);
	blk_mq_run_hw_queue(q, run_queue_async);
}

// blk_mq_try_issue_directly gives a request to a driver whose queues have no elevator.
static __noipa void blk_mq_try_issue_directly(struct request_queue *q, struct request *rq)
{
	blk_status_t status = q->mq_ops->queue_rq(rq);

	if (status != BLK_STS_OK)
		blk_mq_end_request(rq, status);
}

static __noipa void blk_mq_plug_issue_direct(struct request_queue *q, struct list_head *list)
{
	while (!list_empty(list)) {
		struct request *rq = list_first_entry(list, struct request, queuelist);

		list_del_init(&rq->queuelist);
		blk_mq_try_issue_directly(q, rq);
	}
}

// What the release does with a task's requests: whether it shows that they are handed on when
// they are issued at once, and whether they are when the task is about to sleep.
#if GUEST_LINUX >= 612
#define UNPLUGS_DIRECTLY 1
#define SLEEPS_DIRECTLY 1
#elif GUEST_LINUX < 601
#define UNPLUGS_DIRECTLY 1
#define SLEEPS_DIRECTLY 0
#else
#define UNPLUGS_DIRECTLY 0
#define SLEEPS_DIRECTLY 0
#endif

noinline __noclone void blk_mq_flush_plug_list(struct blk_plug *plug, bool from_schedule)
{
	bool direct;
	unsigned int depth = plug->rq_count;
	struct request_queue *q;
	LIST_HEAD(list);

	if (!depth)
		return;
	q = list_first_entry(&plug->mq_list, struct request, queuelist)->q;
	plug->rq_count = 0;
	list_splice_init(&plug->mq_list, &list);
	direct = !q->elevator && (!from_schedule || SLEEPS_DIRECTLY);
	if (!direct || UNPLUGS_DIRECTLY)
		trace_block_unplug(q, depth, !from_schedule);
	if (direct)
		blk_mq_plug_issue_direct(q, &list);
	else
		blk_mq_sched_insert_requests(q, &list, from_schedule);
}

static noinline void blk_add_rq_to_plug(struct blk_plug *plug, struct request *rq)
{
	if (!plug->rq_count++)
		trace_block_plug(rq->q);
	list_add_tail(&rq->queuelist, &plug->mq_list);
}

noinline __noclone void blk_mq_submit_bio(struct bio *bio)
{
	struct request_queue *q = bio->bi_bdev->bd_queue;
	struct request *rq;
	LIST_HEAD(list);

	if (blk_attempt_plug_merge(q, bio, bio->bi_vcnt))
		return;
	rq = __blk_mq_alloc_requests(q);
	if (!rq) {
		bio->bi_status = BLK_STS_IOERR;
		bio_endio(bio);
		return;
	}
	trace_block_getrq(bio);
	blk_mq_bio_to_request(rq, bio, bio->bi_vcnt);
	if (current->plug) {
		blk_add_rq_to_plug(current->plug, rq);
		return;
	}
	if (!q->elevator) {
		blk_mq_try_issue_directly(q, rq);
		return;
	}
	list_add_tail(&rq->queuelist, &list);
	blk_mq_sched_insert_requests(q, &list, false);
}

// blk_mq_start_request is called by the driver when it gives a request to the device.
noinline __noclone void blk_mq_start_request(struct request *rq)
{
	trace_block_rq_issue(rq);
	rq->io_start_time_ns = ktime_get();
}

// blk_update_request ends bios of a request, all of them: a device does the whole of it.
noinline __noclone bool blk_update_request(struct request *rq, blk_status_t error, unsigned int nr_bytes)
{
	bool write = op_is_write(rq->cmd_flags);
	struct bio *bio, *next;

	trace_block_rq_complete(rq, error, nr_bytes);
	rq->q->sectors[write] += nr_bytes >> SECTOR_SHIFT;
	for (bio = rq->bio; bio; bio = next) {
		next = bio->bi_next;
		if (error)
			bio->bi_status = error;
		bio_endio(bio);
	}
	rq->bio = NULL;
	rq->__data_len = 0;
	return false;
}

notrace_since_6_1 noinline __noclone void blk_account_io_done(struct request *rq, u64 now)
{
	bool write = op_is_write(rq->cmd_flags);

#if GUEST_LINUX >= 612
	trace_block_io_done(rq);
#endif
	rq->q->ios[write]++;
	rq->q->nsecs[write] += now - rq->start_time_ns;
}

static notrace __noipa void __blk_mq_end_request(struct request *rq, blk_status_t error)
{
	blk_account_io_done(rq, ktime_get());
	kfree(rq);
}

noinline __noclone void blk_mq_end_request(struct request *rq, blk_status_t error)
{
	blk_update_request(rq, error, rq->__data_len);
	__blk_mq_end_request(rq, error);
}

// blk_mq_complete_request is called by the driver in its interrupt, which comes to the CPU that
// has given it the request: nothing is to be handed to another one.
noinline __noclone void blk_mq_complete_request(struct request *rq)
{
	rq->q->mq_ops->complete(rq);
}
