// Queues of requests to the host.
#include <linux/virtio.h>
#include <linux/kernel.h>
#include <asm/host.h>

noinline __noclone int virtqueue_add_sgs(struct virtqueue *vq, struct virtio_buf *buf)
{
	buf->status = buf->used = 0;
	list_add_tail(&buf->node, &vq->bufs);
	return 0;
}

noinline __noclone bool virtqueue_notify(struct virtqueue *vq, struct virtio_buf *buf)
{
	return !hypercall1(HC_DISK, buf);
}

// virtqueue_get_buf returns a request that the host has done, or NULL. The queue is locked.
noinline __noclone struct virtio_buf *virtqueue_get_buf(struct virtqueue *vq)
{
	struct virtio_buf *buf;

	list_for_each_entry(buf, &vq->bufs, node)
		if (READ_ONCE(buf->used)) {
			list_del_init(&buf->node);
			return buf;
		}
	return NULL;
}

noinline __noclone irqreturn_t vring_interrupt(int irq, void *_vq)
{
	struct virtqueue *vq = _vq;

	if (list_empty(&vq->bufs))
		return IRQ_NONE;
	vq->callback(vq);
	return IRQ_HANDLED;
}
