// The scheduler of requests, where there is one CPU: they are dispatched in the order of their
// sectors. There are no deadlines, since no request waits for a device that is busy.
#include <linux/blkdev.h>
#include <trace/events/block.h>

static __noipa void dd_insert_request(struct request_queue *q, struct request *rq)
{
	struct request *at;

	trace_block_rq_insert(rq);
	list_for_each_entry(at, &q->sort_list, queuelist)
		if (at->__sector > rq->__sector)
			break;
	list_add_tail(&rq->queuelist, &at->queuelist);
}

noinline __noclone void dd_insert_requests(struct request_queue *q, struct list_head *list)
{
	spin_lock(&q->lock);
	while (!list_empty(list)) {
		struct request *rq = list_first_entry(list, struct request, queuelist);

		list_del_init(&rq->queuelist);
		dd_insert_request(q, rq);
	}
	spin_unlock(&q->lock);
}

noinline __noclone struct request *dd_dispatch_request(struct request_queue *q)
{
	struct request *rq = NULL;

	spin_lock(&q->lock);
	if (!list_empty(&q->sort_list)) {
		rq = list_first_entry(&q->sort_list, struct request, queuelist);
		list_del_init(&rq->queuelist);
	}
	spin_unlock(&q->lock);
	return rq;
}
