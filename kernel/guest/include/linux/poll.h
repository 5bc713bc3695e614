// poll.h: waiting for files to become ready.
#ifndef _LINUX_POLL_H
#define _LINUX_POLL_H

#include <linux/fs.h>
#include <linux/wait.h>

typedef struct poll_table_struct {
	void (*_qproc)(struct file *, wait_queue_head_t *, struct poll_table_struct *);
	unsigned int _key;
} poll_table;
static_assert(sizeof(poll_table) == 16, "poll_table");

#define EPOLLIN 0x001
#define EPOLLPRI 0x002
#define EPOLLOUT 0x004
#define EPOLLERR 0x008
#define EPOLLHUP 0x010
#define EPOLLRDNORM 0x040
#define EPOLLWRNORM 0x100
#define DEFAULT_POLLMASK (EPOLLIN | EPOLLOUT | EPOLLRDNORM | EPOLLWRNORM)

static inline void poll_wait(struct file *filp, wait_queue_head_t *wq, poll_table *p)
{
	if (p && p->_qproc && wq)
		p->_qproc(filp, wq, p);
}

static inline unsigned int vfs_poll(struct file *file, poll_table *pt)
{
	return file->f_op->poll ? file->f_op->poll(file, pt) : DEFAULT_POLLMASK;
}

#endif
