// The disk: /dev/vda.
#include <linux/blkdev.h>
#include <linux/virtio.h>
#include <linux/cdev.h>
#include <asm/host.h>

#define VIRTIO_BLK_T_IN 0
#define VIRTIO_BLK_T_OUT 1
#define VIRTBLK_MAJOR 254

static struct virtqueue virtblk_vq;

static __noipa blk_status_t virtio_queue_rq(struct request *rq)
{
	struct virtio_buf *vbr = rq->pdu;
	unsigned long flags;
	struct bio *bio;

	blk_mq_start_request(rq);
	vbr->type = op_is_write(rq->cmd_flags) ? VIRTIO_BLK_T_OUT : VIRTIO_BLK_T_IN;
	vbr->sector = rq->__sector;
	vbr->nr_sgs = 0;
	vbr->data = rq;
	for (bio = rq->bio; bio; bio = bio->bi_next) {
		unsigned int i;

		for (i = 0; i < bio->bi_vcnt; i++) {
			struct bio_vec *bv = &bio->bi_io_vec[i];

			vbr->sgs[vbr->nr_sgs++] = (struct virtio_sg){ (u64)page_address(bv->bv_page) + bv->bv_offset, bv->bv_len };
		}
	}
	spin_lock_irqsave(&virtblk_vq.lock, flags);
	virtqueue_add_sgs(&virtblk_vq, vbr);
	spin_unlock_irqrestore(&virtblk_vq.lock, flags);
	virtqueue_notify(&virtblk_vq, vbr);
	return BLK_STS_OK;
}

static __noipa void virtblk_request_done(struct request *rq)
{
	struct virtio_buf *vbr = rq->pdu;

	blk_mq_end_request(rq, vbr->status ? BLK_STS_IOERR : BLK_STS_OK);
}

static __noipa void virtblk_done(struct virtqueue *vq)
{
	struct virtio_buf *vbr;
	unsigned long flags;

	spin_lock_irqsave(&vq->lock, flags);
	while ((vbr = virtqueue_get_buf(vq)))
		blk_mq_complete_request(vbr->data);
	spin_unlock_irqrestore(&vq->lock, flags);
}

static const struct blk_mq_ops virtio_mq_ops = {
	.queue_rq = virtio_queue_rq,
	.complete = virtblk_request_done,
};

static int __init virtio_blk_init(void)
{
	long capacity = hypercall1(HC_DISK, NULL);
	struct request_queue *q;

	if (capacity <= 0)
		return 0;
	q = kzalloc(sizeof(*q), GFP_KERNEL);
	if (!q)
		return -ENOMEM;
	q->mq_ops = &virtio_mq_ops;
	q->max_segments = VIRTIO_MAX_SGS;
	q->pdu_size = sizeof(struct virtio_buf);
	q->elevator = nr_cpu_ids == 1;
	spin_lock_init(&q->lock);
	INIT_LIST_HEAD(&q->sort_list);
	spin_lock_init(&virtblk_vq.lock);
	INIT_LIST_HEAD(&virtblk_vq.bufs);
	virtblk_vq.callback = virtblk_done;
	if (!bdev_add(MKDEV(VIRTBLK_MAJOR, 0), "vda", capacity, q))
		return -ENOMEM;
	return request_irq(DISK_IRQ, vring_interrupt, 0, "virtio0-req.0", &virtblk_vq);
}
device_initcall(virtio_blk_init);
