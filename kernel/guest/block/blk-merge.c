// Bios that continue a request become part of it.
#include <linux/blkdev.h>
#include <trace/events/block.h>

noinline __noclone void blk_account_io_merge_bio(struct request *rq)
{
	rq->q->ios[op_is_write(rq->cmd_flags)]++;
}

static noinline bool ll_back_merge_fn(struct request *rq, struct bio *bio, unsigned int nr_segs)
{
	if (rq->nr_phys_segments + nr_segs > rq->q->max_segments)
		return false;
	rq->nr_phys_segments += nr_segs;
	return true;
}

static __noipa bool bio_attempt_back_merge(struct request *rq, struct bio *bio, unsigned int nr_segs)
{
	if (!ll_back_merge_fn(rq, bio, nr_segs))
		return false;
	trace_block_bio_backmerge(bio);
	rq->biotail->bi_next = bio;
	rq->biotail = bio;
	rq->__data_len += bio->bi_iter.bi_size;
	blk_account_io_merge_bio(rq);
	return true;
}

// blk_attempt_plug_merge looks at the task's last request: others are rarely continued.
noinline __noclone bool blk_attempt_plug_merge(struct request_queue *q, struct bio *bio, unsigned int nr_segs)
{
	struct blk_plug *plug = current->plug;
	struct request *rq;

	if (!plug || list_empty(&plug->mq_list))
		return false;
	rq = list_entry(plug->mq_list.prev, struct request, queuelist);
	if (rq->q != q || rq->cmd_flags != bio->bi_opf || rq->__sector + blk_rq_sectors(rq) != bio->bi_iter.bi_sector)
		return false;
	return bio_attempt_back_merge(rq, bio, nr_segs);
}
