// virtio.h: queues of requests to the host.
#ifndef _LINUX_VIRTIO_H
#define _LINUX_VIRTIO_H

#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/irq.h>

#define VIRTIO_MAX_SGS 32

struct virtio_sg { u64 addr, len; };

// What the host reads and answers; it does a request at once and then interrupts.
struct virtio_buf {
	u32 type, nr_sgs;
	u64 sector;
	u32 status, used; // the host's
	struct virtio_sg sgs[VIRTIO_MAX_SGS];
	struct list_head node;
	void *data;
};
static_assert(offsetof(struct virtio_buf, sgs) == 24, "virtio_buf");

struct virtqueue {
	spinlock_t lock;
	struct list_head bufs; // that the host has, or has done
	void (*callback)(struct virtqueue *vq);
};

int virtqueue_add_sgs(struct virtqueue *vq, struct virtio_buf *buf);
bool virtqueue_notify(struct virtqueue *vq, struct virtio_buf *buf);
struct virtio_buf *virtqueue_get_buf(struct virtqueue *vq);
irqreturn_t vring_interrupt(int irq, void *vq);

#endif
