// Waiting until a file is ready, for poll(2) of the host's programs.
#include <linux/poll.h>
#include <linux/host.h>
#include <linux/sched.h>
#include <linux/fs.h>

#define MAX_QUEUES 8

// host_waiter is a task that waits on all queues of one file.
struct host_waiter {
	poll_table pt;
	struct task_struct *task;
	int triggered, n;
	struct {
		wait_queue_head_t *head;
		struct wait_queue_entry entry;
	} queues[MAX_QUEUES];
};

static int pollwake(wait_queue_entry_t *wait, unsigned int mode, int sync, void *key)
{
	struct host_waiter *w = wait->private;

	smp_store_release(&w->triggered, 1);
	wake_up_process(w->task);
	return 1;
}

static void __pollwait(struct file *filp, wait_queue_head_t *head, poll_table *p)
{
	struct host_waiter *w = container_of(p, struct host_waiter, pt);
	struct wait_queue_entry *e;

	if (w->n == MAX_QUEUES)
		return;
	e = &w->queues[w->n].entry;
	w->queues[w->n++].head = head;
	init_waitqueue_func_entry(e, pollwake);
	e->private = w;
	add_wait_queue(head, e);
}

static long poll_until(struct file *file, unsigned int seen, struct host_waiter *w)
{
	unsigned int mask;

	for (;;) {
		mask = vfs_poll(file, &w->pt);
		w->pt._qproc = NULL;
		if (mask != seen || !w->n)
			return mask;
		set_current_state(TASK_INTERRUPTIBLE);
		if (signal_pending(current)) {
			__set_current_state(TASK_RUNNING);
			return -EINTR;
		}
		if (!smp_load_acquire(&w->triggered))
			schedule();
		__set_current_state(TASK_RUNNING);
		w->triggered = 0;
	}
}

// host_poll returns for which events (EPOLL*) a file is ready. With wait it returns when
// they are others than those seen, or -EINTR.
long host_poll(unsigned int fd, unsigned int seen, bool wait)
{
	struct file *file = fget(fd);
	struct host_waiter w = { .pt = { ._qproc = wait ? __pollwait : NULL, ._key = ~0U }, .task = current };
	long mask;

	if (!file)
		return -EBADF;
	mask = wait ? poll_until(file, seen, &w) : vfs_poll(file, &w.pt);
	while (w.n--)
		remove_wait_queue(w.queues[w.n].head, &w.queues[w.n].entry);
	fput(file);
	return mask;
}

// host_file_mode returns FMODE_* of an open file.
long host_file_mode(unsigned int fd)
{
	struct file *file = fget(fd);
	long mode;

	if (!file)
		return -EBADF;
	mode = file->f_mode;
	fput(file);
	return mode;
}
