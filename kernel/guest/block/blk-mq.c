// Requests, from the bio to the driver, and back in a softirq.
#include <linux/blkdev.h>
#include <linux/interrupt.h>
#include <linux/percpu.h>
#include <linux/ktime.h>
#include <trace/events/block.h>

static DEFINE_PER_CPU(struct llist_head, blk_cpu_done);

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
	rq->__sector = bio->bi_sector;
	rq->__data_len = bio->bi_size;
	rq->nr_phys_segments = nr_segs;
	rq->bio = rq->biotail = bio;
#ifdef KERNEL_6_12
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

static __noipa void blk_mq_sched_insert_requests(struct request_queue *q, struct list_head *list, bool run_queue_async)
{
	dd_insert_requests(q, list);
	blk_mq_run_hw_queue(q, run_queue_async);
}

noinline __noclone void blk_mq_flush_plug_list(struct blk_plug *plug)
{
	unsigned int depth = plug->rq_count;
	struct request_queue *q;
	LIST_HEAD(list);

	if (!depth)
		return;
	q = list_first_entry(&plug->mq_list, struct request, queuelist)->q;
	plug->rq_count = 0;
	list_splice_init(&plug->mq_list, &list);
	trace_block_unplug(q, depth, true);
	blk_mq_sched_insert_requests(q, &list, false);
}

static void blk_add_rq_to_plug(struct blk_plug *plug, struct request *rq)
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
	struct bio *bio, *next;

	trace_block_rq_complete(rq, error, nr_bytes);
	for (bio = rq->bio; bio; bio = next) {
		next = bio->bi_next;
		if (error)
			bio->bi_status = error;
		bio_endio(bio);
	}
	rq->bio = NULL;
	return false;
}

noinline __noclone void blk_account_io_done(struct request *rq, u64 now)
{
	bool write = op_is_write(rq->cmd_flags);

#ifdef KERNEL_6_12
	trace_block_io_done(rq);
#endif
	rq->q->ios[write]++;
	rq->q->sectors[write] += blk_rq_sectors(rq);
	rq->q->nsecs[write] += now - rq->start_time_ns;
}

static __noipa void __blk_mq_end_request(struct request *rq, blk_status_t error)
{
	blk_account_io_done(rq, ktime_get());
	kfree(rq);
}

noinline __noclone void blk_mq_end_request(struct request *rq, blk_status_t error)
{
	blk_update_request(rq, error, rq->__data_len);
	__blk_mq_end_request(rq, error);
}

static void blk_mq_raise_softirq(struct request *rq)
{
	unsigned long flags;

	local_irq_save(flags);
	llist_add(&rq->ipi_list, this_cpu_ptr(&blk_cpu_done));
	raise_softirq_irqoff(BLOCK_SOFTIRQ);
	local_irq_restore(flags);
}

// blk_mq_complete_request is called by the driver in its interrupt. A device with one queue
// ends its requests in a softirq.
noinline __noclone void blk_mq_complete_request(struct request *rq)
{
	blk_mq_raise_softirq(rq);
}

static __noipa void blk_done_softirq(struct softirq_action *h)
{
	struct llist_node *pos, *n, *done = llist_reverse_order(llist_del_all(this_cpu_ptr(&blk_cpu_done)));

	llist_for_each_safe(pos, n, done) {
		struct request *rq = container_of(pos, struct request, ipi_list);

		rq->q->mq_ops->complete(rq);
	}
}

static int __init blk_mq_init(void)
{
	open_softirq(BLOCK_SOFTIRQ, blk_done_softirq);
	return 0;
}
subsys_initcall(blk_mq_init);
