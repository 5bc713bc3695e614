// Where bios come in, and plugs.
#include <linux/blkdev.h>
#include <trace/events/block.h>

// bio_check_eod refuses what is beyond the disk's end.
static bool bio_check_eod(struct bio *bio)
{
	return bio_end_sector(bio) > bio->bi_bdev->bd_nr_sectors;
}

static __noipa void __submit_bio(struct bio *bio)
{
	blk_mq_submit_bio(bio);
}

noinline __noclone void submit_bio_noacct(struct bio *bio)
{
	if (bio_check_eod(bio)) {
		bio->bi_status = BLK_STS_IOERR;
		bio_endio(bio);
		return;
	}
	trace_block_bio_queue(bio);
	__submit_bio(bio);
}

noinline __noclone void submit_bio(struct bio *bio)
{
	submit_bio_noacct(bio);
}

noinline void blk_start_plug(struct blk_plug *plug)
{
	INIT_LIST_HEAD(&plug->mq_list);
	plug->rq_count = 0;
	if (!current->plug)
		current->plug = plug;
}

noinline void blk_finish_plug(struct blk_plug *plug)
{
	if (plug != current->plug)
		return;
	blk_mq_flush_plug_list(plug, false);
	current->plug = NULL;
}

// blk_flush_plug hands a task's requests on before it sleeps.
noinline __noclone void blk_flush_plug(struct blk_plug *plug)
{
	if (plug)
		blk_mq_flush_plug_list(plug, true);
}

// blk_fill_rwbs writes what is done as events show it.
notrace void blk_fill_rwbs(char *rwbs, unsigned int opf)
{
	*rwbs++ = op_is_write(opf) ? 'W' : 'R';
	if (opf & REQ_RAHEAD)
		*rwbs++ = 'A';
	if (opf & REQ_SYNC)
		*rwbs++ = 'S';
	*rwbs = 0;
}
