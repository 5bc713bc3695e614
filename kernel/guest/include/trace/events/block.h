#ifndef _TRACE_BLOCK_H
#define _TRACE_BLOCK_H
#include <linux/tracepoint.h>
#include <linux/blkdev.h>
#define DECLARE_BLOCK_BIO(name) DECLARE_TRACE(name, TP_PROTO(struct bio *bio), TP_ARGS(bio))
DECLARE_BLOCK_BIO(block_bio_queue)
DECLARE_BLOCK_BIO(block_bio_backmerge)
DECLARE_BLOCK_BIO(block_getrq)
#define DECLARE_BLOCK_RQ(name) DECLARE_TRACE(name, TP_PROTO(struct request *rq), TP_ARGS(rq))
DECLARE_BLOCK_RQ(block_rq_insert)
DECLARE_BLOCK_RQ(block_rq_issue)
#if GUEST_LINUX >= 612
DECLARE_BLOCK_RQ(block_io_start)
DECLARE_BLOCK_RQ(block_io_done)
#endif
DECLARE_TRACE(block_rq_complete, TP_PROTO(struct request *rq, blk_status_t error, unsigned int nr_bytes), TP_ARGS(rq, error, nr_bytes))
DECLARE_TRACE(block_plug, TP_PROTO(struct request_queue *q), TP_ARGS(q))
DECLARE_TRACE(block_unplug, TP_PROTO(struct request_queue *q, unsigned int depth, bool explicit), TP_ARGS(q, depth, explicit))
DECLARE_TRACE(block_dirty_buffer, TP_PROTO(struct buffer_head *bh), TP_ARGS(bh))
#endif
