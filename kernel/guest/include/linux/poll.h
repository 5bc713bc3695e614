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
#define EPOLLNVAL 0x020
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

// The queue of the host's files: nobody wakes it.
wait_queue_head_t *host_queue(void);
// host_poll_file is vfs_poll of a mirrored call, for the file at fd.
unsigned int host_poll_file(unsigned int fd, struct file *file, poll_table *pt);
// host_polled_again installs the files of the descriptors of which the host has told when it
// had made the call.
void host_polled_again(void);
// host_waits_for reports whether the host has told of fd as one that the call waits for.
bool host_waits_for(unsigned int fd);
u64 select_estimate_accuracy(struct timespec64 *tv);

#endif
