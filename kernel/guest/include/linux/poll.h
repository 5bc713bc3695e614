// poll.h: waiting for files to become ready.
#ifndef _LINUX_POLL_H
#define _LINUX_POLL_H

#include <linux/fs.h>
#include <linux/ktime.h>
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
// What the file of the host is ready for (EPOLL*) whose poll operation is called.
unsigned int host_ready(void);

// host_poll_op is the end of the poll operation of a file of the host.
static __always_inline unsigned int host_poll_op(struct file *file, poll_table *wait)
{
	poll_wait(file, host_queue(), wait);
	return host_ready();
}

// HOST_POLL_OP defines a poll operation that does no more.
#define HOST_POLL_OP(name)							\
static __noipa unsigned int name(struct file *file, poll_table *wait)	\
{									\
	return host_poll_op(file, wait);				\
}

// host_poll_file is vfs_poll of a mirrored call, for the file at fd.
unsigned int host_poll_file(unsigned int fd, struct file *file, poll_table *pt);
// host_polled_again installs the files of the descriptors of which the host has told when it
// had made the call.
void host_polled_again(void);
// host_waits_for reports whether the host has told of fd as one that the call waits for.
bool host_waits_for(unsigned int fd);
u64 select_estimate_accuracy(struct timespec64 *tv);

// select_set_timeout sets *to to the end of a time from now on, of CLOCK_MONOTONIC. It
// returns -EINVAL if there is no such time.
static __always_inline int select_set_timeout(struct timespec64 *to, time64_t sec, long nsec)
{
	struct timespec64 ts = { .tv_sec = sec, .tv_nsec = nsec };

	if (!timespec64_valid(&ts))
		return -EINVAL;
	if (!sec && !nsec) {
		to->tv_sec = to->tv_nsec = 0;
	} else {
		ktime_get_ts64(to);
		*to = timespec64_add_safe(*to, ts);
	}
	return 0;
}

// end_of_time sets *to to the end of a time of user space, if there is one.
static __always_inline int end_of_time(struct timespec64 *to, const struct timespec64 __user *tsp)
{
	struct timespec64 ts;

	if (!tsp)
		return 0;
	return get_timespec64(&ts, tsp) ? -EFAULT : select_set_timeout(to, ts.tv_sec, ts.tv_nsec);
}

#endif
