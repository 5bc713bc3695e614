// Waiting until files are ready: poll(2) and select(2), and poll(2) of the host's programs on
// files of ours.
#include <linux/host.h>
#include <linux/hrtimer.h>
#include <linux/poll.h>
#include <linux/sched.h>
#include <linux/fs.h>
#include <linux/slab.h>
#include <linux/syscalls.h>
#include <linux/uaccess.h>

#define MAX_QUEUES 32

struct poll_table_entry {
	struct file *filp;
	wait_queue_entry_t wait;
	wait_queue_head_t *wait_address;
};

// poll_wqueues is a task that waits on queues of files.
struct poll_wqueues {
	poll_table pt;
	struct task_struct *polling_task;
	int triggered, n;
	struct poll_table_entry entries[MAX_QUEUES];
};

static DECLARE_WAIT_QUEUE_HEAD(host_files_queue);

wait_queue_head_t *host_queue(void)
{
	return &host_files_queue;
}

static int pollwake(wait_queue_entry_t *wait, unsigned int mode, int sync, void *key)
{
	struct poll_wqueues *w = wait->private;

	smp_store_release(&w->triggered, 1);
	wake_up_process(w->polling_task);
	return 1;
}

static void __pollwait(struct file *filp, wait_queue_head_t *wait_address, poll_table *p)
{
	struct poll_wqueues *w = container_of(p, struct poll_wqueues, pt);
	struct poll_table_entry *e;

	if (w->n == MAX_QUEUES)
		return;
	e = &w->entries[w->n++];
	e->filp = get_file(filp);
	e->wait_address = wait_address;
	init_waitqueue_func_entry(&e->wait, pollwake);
	e->wait.private = w;
	add_wait_queue(wait_address, &e->wait);
}

static noinline void poll_initwait(struct poll_wqueues *w, bool wait)
{
	w->pt._qproc = wait ? __pollwait : NULL;
	w->pt._key = ~0U;
	w->polling_task = current;
	w->triggered = w->n = 0;
}

noinline __noclone void poll_freewait(struct poll_wqueues *w)
{
	int i;

	for (i = 0; i < w->n; i++) {
		remove_wait_queue(w->entries[i].wait_address, &w->entries[i].wait);
		fput(w->entries[i].filp);
	}
}

static long poll_until(struct file *file, unsigned int seen, struct poll_wqueues *w)
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
	struct poll_wqueues w;
	long mask;

	if (!file)
		return -EBADF;
	poll_initwait(&w, wait);
	mask = wait ? poll_until(file, seen, &w) : vfs_poll(file, &w.pt);
	poll_freewait(&w);
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

// Of its callers only poll(2) does not have it inlined, before 6.12.
noinline __noclone int poll_select_set_timeout(struct timespec64 *to, time64_t sec, long nsec)
{
	return select_set_timeout(to, sec, nsec);
}
#if GUEST_LINUX >= 612
#define poll_select_set_timeout select_set_timeout
#endif

noinline __noclone u64 select_estimate_accuracy(struct timespec64 *tv)
{
	struct timespec64 now;

	ktime_get_ts64(&now);
	return 50000; // the timer slack of a task, in nanoseconds
}

// poll_schedule waits until one of the host's files may be ready, or until the end of a time.
static __always_inline void poll_schedule(struct timespec64 *end_time, u64 slack)
{
	ktime_t expires;

	if (end_time)
		expires = timespec64_to_ns(end_time);
	set_current_state(TASK_INTERRUPTIBLE);
	schedule_hrtimeout_range(end_time ? &expires : NULL, slack, HRTIMER_MODE_ABS);
}

static bool no_time(const struct timespec64 *end_time)
{
	return end_time && !end_time->tv_sec && !end_time->tv_nsec;
}

// wait_for_files asks the files of a call, waits if none is ready, and asks them again. once
// asks each of them, and returns how many are ready.
static __always_inline int wait_for_files(struct timespec64 *end_time, int (*once)(const void *files, poll_table *pt), const void *files)
{
	struct poll_wqueues table;
	u64 slack = 0;
	int count;

	poll_initwait(&table, !no_time(end_time));
	if (end_time && !no_time(end_time))
		slack = select_estimate_accuracy(end_time);
	count = once(files, &table.pt);
	table.pt._qproc = NULL;
	if (!count && !no_time(end_time)) {
		poll_schedule(end_time, slack);
		once(files, &table.pt);
	}
	count = host_made();
	poll_freewait(&table);
	return count;
}

#define POLLFDS_AT_ONCE 30

struct pollfd {
	int fd;
	short events, revents;
};

static __always_inline unsigned int do_pollfd(struct pollfd *pollfd, poll_table *pwait)
{
	struct fd f = { NULL };
	unsigned int mask;

	if (pollfd->fd < 0)
		return 0;
	f = fdget(pollfd->fd);
	if (!f.file)
		return EPOLLNVAL;
	mask = host_poll_file(pollfd->fd, f.file, pwait) & ((u16)pollfd->events | EPOLLERR | EPOLLHUP);
	fdput(f);
	return mask;
}

// The array of poll(2).
struct pollfds {
	struct pollfd __user *ufds;
	unsigned int n;
};

static __always_inline int poll_once(const void *files, poll_table *pt)
{
	struct pollfds left = *(const struct pollfds *)files;
	struct pollfd fds[POLLFDS_AT_ONCE];
	unsigned int i, n;
	int count = 0;

	for (; left.n; left.n -= n, left.ufds += n) {
		n = min_t(unsigned int, left.n, POLLFDS_AT_ONCE);
		if (copy_from_user(fds, left.ufds, n * sizeof(fds[0])))
			return -EFAULT;
		for (i = 0; i < n; i++) {
			if (do_pollfd(&fds[i], pt)) {
				count++;
				pt->_qproc = NULL;
			}
		}
	}
	return count;
}

static __noipa int do_sys_poll(struct pollfd __user *ufds, unsigned int nfds, struct timespec64 *end_time)
{
	struct pollfds files = { ufds, nfds };

	return host_mirrors() ? wait_for_files(end_time, poll_once, &files) : -ENOSYS;
}

SYSCALL_DEFINE3(poll, struct pollfd __user *, ufds, unsigned int, nfds, int, timeout_msecs)
{
	struct timespec64 end_time, *to = NULL;

	if (timeout_msecs >= 0) {
		to = &end_time;
		poll_select_set_timeout(to, timeout_msecs / 1000, timeout_msecs % 1000 * 1000000L);
	}
	return do_sys_poll(ufds, nfds, to);
}

SYSCALL_DEFINE5(ppoll, struct pollfd __user *, ufds, unsigned int, nfds, struct timespec64 __user *, tsp,
		const u64 __user *, sigmask, size_t, sigsetsize)
{
	struct timespec64 to;
	int err = end_of_time(&to, tsp);

	return err ? err : do_sys_poll(ufds, nfds, tsp ? &to : NULL);
}

// The three sets of select(2), of n bits each.
struct fd_sets {
	int n;
	unsigned long *in, *out, *ex;
};

static __always_inline int select_file(int fd, unsigned int events, poll_table *pt)
{
	struct fd f = fdget(fd);
	int ready;

	if (!f.file)
		return 0;
	ready = !!(host_poll_file(fd, f.file, pt) & events);
	fdput(f);
	return ready;
}

static __always_inline int select_once(const void *files, poll_table *pt)
{
	const struct fd_sets *sets = files;
	unsigned long in, out, ex, bit;
	int i, fd, count = 0;

	for (i = 0; i * BITS_PER_LONG < sets->n; i++) {
		in = sets->in[i];
		out = sets->out[i];
		ex = sets->ex[i];
		for (bit = 1, fd = i * BITS_PER_LONG; bit && fd < sets->n; bit <<= 1, fd++) {
			if (!((in | out | ex) & bit))
				continue;
			if (select_file(fd, (in & bit ? EPOLLIN | EPOLLHUP | EPOLLERR : 0) | (out & bit ? EPOLLOUT | EPOLLERR : 0) |
					    (ex & bit ? EPOLLPRI : 0), pt)) {
				count++;
				pt->_qproc = NULL;
			}
		}
	}
	return count;
}

static __noipa int do_select(int n, struct fd_sets *sets, struct timespec64 *end_time)
{
	return wait_for_files(end_time, select_once, sets);
}

#define FD_SETS_ON_STACK 30 // longs
#define MAX_FD_SET 65536    // descriptors

static __always_inline int get_fd_set(unsigned long bytes, const void __user *ufdset, unsigned long *fdset)
{
	if (ufdset)
		return copy_from_user(fdset, ufdset, bytes) ? -EFAULT : 0;
	memset(fdset, 0, bytes);
	return 0;
}

noinline __noclone int core_sys_select(int n, unsigned long __user *inp, unsigned long __user *outp, unsigned long __user *exp,
				       struct timespec64 *end_time)
{
	unsigned long on_stack[FD_SETS_ON_STACK], *bits = on_stack, longs;
	struct fd_sets sets;
	int ret;

	if (!host_mirrors())
		return -ENOSYS;
	if (n < 0)
		return -EINVAL;
	n = min(n, MAX_FD_SET);
	longs = DIV_ROUND_UP(n, BITS_PER_LONG);
	if (3 * longs > FD_SETS_ON_STACK) {
		bits = kmalloc_array(3 * longs, sizeof(long), GFP_KERNEL);
		if (!bits)
			return -ENOMEM;
	}
	sets = (struct fd_sets){ n, bits, bits + longs, bits + 2 * longs };
	ret = get_fd_set(longs * sizeof(long), inp, sets.in);
	if (!ret)
		ret = get_fd_set(longs * sizeof(long), outp, sets.out);
	if (!ret)
		ret = get_fd_set(longs * sizeof(long), exp, sets.ex);
	if (!ret)
		ret = do_select(n, &sets, end_time);
	if (bits != on_stack)
		kfree(bits);
	return ret;
}

struct old_timeval {
	long tv_sec, tv_usec;
};

static __noipa int kern_select(int n, unsigned long __user *inp, unsigned long __user *outp, unsigned long __user *exp,
			       struct old_timeval __user *tvp)
{
	struct timespec64 end_time, *to = NULL;
	struct old_timeval tv;

	if (tvp) {
		if (copy_from_user(&tv, tvp, sizeof(tv)))
			return -EFAULT;
		to = &end_time;
		if (select_set_timeout(to, tv.tv_sec + tv.tv_usec / USEC_PER_SEC, tv.tv_usec % USEC_PER_SEC * NSEC_PER_USEC))
			return -EINVAL;
	}
	return core_sys_select(n, inp, outp, exp, to);
}

SYSCALL_DEFINE5(select, int, n, unsigned long __user *, inp, unsigned long __user *, outp, unsigned long __user *, exp,
		struct old_timeval __user *, tvp)
{
	return kern_select(n, inp, outp, exp, tvp);
}

SYSCALL_DEFINE6(pselect6, int, n, unsigned long __user *, inp, unsigned long __user *, outp, unsigned long __user *, exp,
		struct timespec64 __user *, tsp, void __user *, sig)
{
	struct timespec64 to;
	int err = end_of_time(&to, tsp);

	return err ? err : core_sys_select(n, inp, outp, exp, tsp ? &to : NULL);
}
