// Files without a name: counters, timers, signals, changes of files. The host's programs have
// them; here each has the functions that Linux's has, which wait for the host's kernel and
// return its result.
#include <linux/fs.h>
#include <linux/host.h>
#include <linux/hostfs.h>
#include <linux/err.h>
#include <linux/hrtimer.h>
#include <linux/poll.h>
#include <linux/string.h>
#include <linux/syscalls.h>
#include <linux/uaccess.h>

static struct file *anon_file(const char *name, const struct file_operations *fops, void *priv, int flags)
{
	struct vfsmount *mnt = host_pseudo_mnt();
	struct inode *inode = host_mirrors() ? new_inode_pseudo(mnt->mnt_sb) : NULL;
	struct file *file;

	if (!inode)
		return ERR_PTR(-ENOSYS);
	inode->i_mode = 0600;
	file = alloc_file_pseudo(inode, mnt, name, flags & (O_ACCMODE | O_NONBLOCK), fops);
	if (IS_ERR(file))
		iput(inode);
	else
		file->private_data = priv;
	return file;
}

#if GUEST_LINUX < 601
noinline __noclone struct file *anon_inode_getfile(const char *name, const struct file_operations *fops, void *priv, int flags)
{
	return anon_file(name, fops, priv, flags);
}
#define __anon_inode_getfile anon_inode_getfile
#else
static __noipa struct file *__anon_inode_getfile(const char *name, const struct file_operations *fops, void *priv, int flags)
{
	return anon_file(name, fops, priv, flags);
}

noinline __noclone struct file *anon_inode_getfile(const char *name, const struct file_operations *fops, void *priv, int flags)
{
	return __anon_inode_getfile(name, fops, priv, flags);
}
#endif

noinline __noclone int anon_inode_getfd(const char *name, const struct file_operations *fops, void *priv, int flags)
{
	int fd = get_unused_fd_flags(flags);

	return fd < 0 ? fd : host_install_new(fd, __anon_inode_getfile(name, fops, priv, flags));
}

// anon_fd is the same for those who call anon_inode_getfile themselves.
static __always_inline int anon_fd(const char *name, const struct file_operations *fops, int flags)
{
	int fd = get_unused_fd_flags(flags);

	return fd < 0 ? fd : host_install_new(fd, anon_inode_getfile(name, fops, NULL, flags));
}

// In 6.12 some of those who called anon_inode_getfd do so.
#if GUEST_LINUX >= 612
#define new_anon_fd(name, fops, flags) anon_fd(name, fops, flags)
#else
#define new_anon_fd(name, fops, flags) anon_inode_getfd(name, fops, NULL, flags)
#endif

// fs/eventfd.c
static __noipa ssize_t eventfd_read(struct kiocb *iocb, struct iov_iter *to)
{
	return host_transfer(iocb);
}

static __noipa ssize_t eventfd_write(struct file *file, const char __user *buf, size_t count, loff_t *ppos)
{
	return host_made();
}

HOST_POLL_OP(eventfd_poll)

static const struct file_operations eventfd_fops = {
	.read_iter = eventfd_read,
	.write = eventfd_write,
	.poll = eventfd_poll,
	.llseek = noop_llseek,
};

static __noipa int do_eventfd(unsigned int count, int flags)
{
	return anon_fd("[eventfd]", &eventfd_fops, O_RDWR | flags);
}

SYSCALL_DEFINE2(eventfd2, unsigned int, count, int, flags)
{
	return do_eventfd(count, flags);
}

SYSCALL_DEFINE1(eventfd, unsigned int, count)
{
	return do_eventfd(count, 0);
}

// fs/timerfd.c and fs/signalfd.c. What they read comes by an iterator in 6.12.
#if GUEST_LINUX >= 612
#define HOST_READS(name)						\
static __noipa ssize_t name##_iter(struct kiocb *iocb, struct iov_iter *to)	\
{									\
	return host_transfer(iocb);					\
}
#define READS(name) .read_iter = name##_iter
#else
#define HOST_READS(name)						\
static __noipa ssize_t name(struct file *file, char __user *buf, size_t count, loff_t *ppos)	\
{									\
	return host_made();						\
}
#define READS(name) .read = name
#endif

HOST_READS(timerfd_read)
HOST_POLL_OP(timerfd_poll)

static const struct file_operations timerfd_fops = {
	READS(timerfd_read),
	.poll = timerfd_poll,
	.llseek = noop_llseek,
};

SYSCALL_DEFINE2(timerfd_create, int, clockid, int, flags)
{
	return new_anon_fd("[timerfd]", &timerfd_fops, O_RDWR | flags);
}

struct itimerspec64 {
	struct timespec64 it_interval, it_value;
};

static __always_inline long timerfd_of(int ufd)
{
	struct fd f = fdget(ufd);

	if (!f.file)
		return -EBADF;
	fdput(f);
	return host_made();
}

static __noipa int do_timerfd_settime(int ufd, int flags, const struct itimerspec64 *new, struct itimerspec64 *old)
{
	return timerfd_of(ufd);
}

static __noipa int do_timerfd_gettime(int ufd, struct itimerspec64 *t)
{
	return timerfd_of(ufd);
}

SYSCALL_DEFINE4(timerfd_settime, int, ufd, int, flags, const struct itimerspec64 __user *, utmr, struct itimerspec64 __user *, otmr)
{
	struct itimerspec64 new, old;

	if (!host_mirrors())
		return -ENOSYS;
	if (get_timespec64(&new.it_interval, &utmr->it_interval) || get_timespec64(&new.it_value, &utmr->it_value))
		return -EFAULT;
	return do_timerfd_settime(ufd, flags, &new, &old);
}

SYSCALL_DEFINE2(timerfd_gettime, int, ufd, struct itimerspec64 __user *, otmr)
{
	struct itimerspec64 t;

	return host_mirrors() ? do_timerfd_gettime(ufd, &t) : -ENOSYS;
}

HOST_READS(signalfd_read)
HOST_POLL_OP(signalfd_poll)

static const struct file_operations signalfd_fops = {
	READS(signalfd_read),
	.poll = signalfd_poll,
	.llseek = noop_llseek,
};

static __noipa int do_signalfd4(int ufd, u64 *mask, int flags)
{
	struct fd f;

	if (ufd < 0)
		return new_anon_fd("[signalfd]", &signalfd_fops, O_RDWR | flags);
	f = fdget(ufd);
	if (!f.file)
		return -EBADF;
	fdput(f);
	return host_only();
}

SYSCALL_DEFINE4(signalfd4, int, ufd, u64 __user *, user_mask, size_t, sizemask, int, flags)
{
	u64 mask;

	if (copy_from_user(&mask, user_mask, sizeof(mask)))
		return -EFAULT;
	return do_signalfd4(ufd, &mask, flags);
}

SYSCALL_DEFINE3(signalfd, int, ufd, u64 __user *, user_mask, size_t, sizemask)
{
	u64 mask;

	if (copy_from_user(&mask, user_mask, sizeof(mask)))
		return -EFAULT;
	return do_signalfd4(ufd, &mask, 0);
}

// fs/notify/inotify/inotify_user.c
static __noipa ssize_t inotify_read(struct file *file, char __user *buf, size_t count, loff_t *pos)
{
	return host_made();
}

static __noipa long inotify_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	return host_made();
}

HOST_POLL_OP(inotify_poll)

static const struct file_operations inotify_fops = {
	.read = inotify_read,
	.unlocked_ioctl = inotify_ioctl,
	.poll = inotify_poll,
	.llseek = noop_llseek,
};

static __noipa int do_inotify_init(int flags)
{
	return anon_inode_getfd("inotify", &inotify_fops, NULL, O_RDONLY | flags);
}

SYSCALL_DEFINE1(inotify_init1, int, flags)
{
	return do_inotify_init(flags);
}

SYSCALL_DEFINE0(inotify_init)
{
	return do_inotify_init(0);
}

// kernel/fork.c
HOST_POLL_OP(pidfd_poll)

static const struct file_operations pidfd_fops = { .poll = pidfd_poll, .llseek = noop_llseek };

// fs/eventpoll.c
HOST_POLL_OP(ep_eventpoll_poll)

static const struct file_operations eventpoll_fops = { .poll = ep_eventpoll_poll, .llseek = noop_llseek };

static __noipa int do_epoll_create(int flags)
{
	return anon_fd("[eventpoll]", &eventpoll_fops, O_RDWR | flags);
}

SYSCALL_DEFINE1(epoll_create1, int, flags)
{
	return do_epoll_create(flags);
}

SYSCALL_DEFINE1(epoll_create, int, size)
{
	return do_epoll_create(0);
}

#define EPOLL_CTL_ADD 1
#define EPOLL_CTL_DEL 2
#define EPOLL_CTL_MOD 3

struct epoll_event {
	u32 events;
	u64 data;
} __packed;
static_assert(sizeof(struct epoll_event) == 12, "epoll_event");

static __noipa void ep_ptable_queue_proc(struct file *file, wait_queue_head_t *whead, poll_table *pt)
{
}

static __noipa int ep_remove(struct file *ep, struct file *epi)
{
	return 0;
}

noinline __noclone int do_epoll_ctl(int epfd, int op, int fd, struct epoll_event *epds, bool nonblock)
{
	poll_table pt = { NULL };
	struct fd f, tf;

	f = fdget(epfd);
	if (!f.file)
		return -EBADF;
	tf = fdget(fd);
	if (tf.file) {
		if (!host_waits_for(fd)) {
			/* it is there already, or not there */
		} else if (op == EPOLL_CTL_ADD) {
			pt._qproc = ep_ptable_queue_proc;
			host_poll_file(fd, tf.file, &pt);
		} else if (op == EPOLL_CTL_MOD) {
			host_poll_file(fd, tf.file, &pt);
		} else if (op == EPOLL_CTL_DEL) {
			ep_remove(f.file, tf.file);
		}
		fdput(tf);
	}
	fdput(f);
	return host_made();
}

SYSCALL_DEFINE4(epoll_ctl, int, epfd, int, op, int, fd, struct epoll_event __user *, event)
{
	struct epoll_event epds;

	if (!host_mirrors())
		return -ENOSYS;
	if (op != EPOLL_CTL_DEL && copy_from_user(&epds, event, sizeof(epds)))
		return -EFAULT;
	return do_epoll_ctl(epfd, op, fd, &epds, false);
}

#if GUEST_LINUX >= 612
static __noipa void ep_start_scan(struct file *ep)
{
}
#endif

static __noipa void ep_done_scan(struct file *ep)
{
}

// ep_send_events asks those files that the host's kernel has found ready.
static __always_inline void ep_send_events(struct file *ep)
{
	struct host_mirror *m = (struct host_mirror *)current_host_call()->mirror;
	struct host_polled *p = (struct host_polled *)m->polled;
	poll_table pt = { NULL };
	struct file *file;
	u64 i;

#if GUEST_LINUX >= 612
	ep_start_scan(ep);
#endif
	host_polled_again();
	for (i = 0; i < m->nr_polled; i++) {
		file = fget(p[i].file.fd);
		if (file) {
			host_poll_file(p[i].file.fd, file, &pt);
			fput(file);
		}
	}
#if GUEST_LINUX >= 601
	ep_done_scan(ep);
#endif
}

static __noipa int do_epoll_wait(int epfd, struct epoll_event __user *events, int maxevents, struct timespec64 *to)
{
	struct fd f = fdget(epfd);
	bool wait = !to || to->tv_sec || to->tv_nsec;
	ktime_t expires;
	u64 slack = 0;
	long ret;

	if (!f.file)
		return -EBADF;
	if (to && wait) {
		slack = select_estimate_accuracy(to);
		expires = timespec64_to_ns(to);
	}
	if (wait && !host_ready()) {
		set_current_state(TASK_INTERRUPTIBLE);
		schedule_hrtimeout_range(to ? &expires : NULL, slack, HRTIMER_MODE_ABS);
	}
	ret = host_made();
	if (ret > 0)
		ep_send_events(f.file);
	fdput(f);
	return ret;
}

// ep_timeout sets *to to the end of a time in milliseconds, or returns NULL if it has none.
static __always_inline struct timespec64 *ep_timeout(struct timespec64 *to, long ms)
{
	if (ms < 0)
		return NULL;
	select_set_timeout(to, ms / 1000, ms % 1000 * 1000000L);
	return to;
}

SYSCALL_DEFINE4(epoll_wait, int, epfd, struct epoll_event __user *, events, int, maxevents, int, timeout)
{
	struct timespec64 to;

	return host_mirrors() ? do_epoll_wait(epfd, events, maxevents, ep_timeout(&to, timeout)) : -ENOSYS;
}

SYSCALL_DEFINE6(epoll_pwait, int, epfd, struct epoll_event __user *, events, int, maxevents, int, timeout,
		const u64 __user *, sigmask, size_t, sigsetsize)
{
	struct timespec64 to;

	return host_mirrors() ? do_epoll_wait(epfd, events, maxevents, ep_timeout(&to, timeout)) : -ENOSYS;
}

#if GUEST_LINUX >= 601
SYSCALL_DEFINE6(epoll_pwait2, int, epfd, struct epoll_event __user *, events, int, maxevents, const struct timespec64 __user *, timeout,
		const u64 __user *, sigmask, size_t, sigsetsize)
{
	struct timespec64 to;
	int err;

	if (!host_mirrors())
		return -ENOSYS;
	err = end_of_time(&to, timeout);
	return err ? err : do_epoll_wait(epfd, events, maxevents, timeout ? &to : NULL);
}
#endif

static const struct {
	const char *name;
	const struct file_operations *fops;
} anon_files[] = {
	{ "anon_inode:[eventfd]", &eventfd_fops }, { "anon_inode:[eventpoll]", &eventpoll_fops },
	{ "anon_inode:[timerfd]", &timerfd_fops }, { "anon_inode:[signalfd]", &signalfd_fops },
	{ "anon_inode:inotify", &inotify_fops }, { "anon_inode:[pidfd]", &pidfd_fops },
};

const struct file_operations *host_anon_fops(const char *name)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(anon_files); i++)
		if (!strcmp(name, anon_files[i].name))
			return anon_files[i].fops;
	return NULL;
}
