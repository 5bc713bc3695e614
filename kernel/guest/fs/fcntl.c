// fcntl(2). The guest follows descriptors; the rest is the host's.
#include <linux/fs.h>
#include <linux/hostfs.h>
#include <linux/export.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/syscalls.h>

#define F_DUPFD 0
#define F_SETFD 2
#define F_GETFL 3
#define FD_CLOEXEC 1
#define F_DUPFD_CLOEXEC 1030

static long host_set_close_on_exec(int fd, bool on)
{
	long err = host_result(-EINVAL);

	if (err >= 0)
		set_close_on_exec(fd, on);
	return err;
}

static __noipa long do_fcntl(int fd, unsigned int cmd, unsigned long arg, struct file *filp)
{
	switch (cmd) {
	case F_DUPFD:
		return f_dupfd(arg, filp, 0);
	case F_DUPFD_CLOEXEC:
		return f_dupfd(arg, filp, O_CLOEXEC);
	case F_SETFD:
		return host_set_close_on_exec(fd, arg & FD_CLOEXEC);
	case F_GETFL:
		return host_result(filp->f_flags);
	}
	return host_result(-EINVAL);
}

SYSCALL_DEFINE3(fcntl, unsigned int, fd, unsigned int, cmd, unsigned long, arg)
{
	struct fd f = fdget_raw(fd);
	long err;

	if (!f.file)
		return -EBADF;
	err = do_fcntl(fd, cmd, arg, f.file);
	fdput(f);
	return err;
}

#define FASYNC 020000
#define FASYNC_MAGIC 0x4601

static DEFINE_SPINLOCK(fasync_lock);

static void fasync_free_rcu(struct rcu_head *head)
{
	kfree(container_of(head, struct fasync_struct, fa_rcu));
}

// fasync_entry returns the link to a file's entry in a list, or to its end.
static struct fasync_struct **fasync_entry(struct file *filp, struct fasync_struct **fp)
{
	while (*fp && (*fp)->fa_file != filp)
		fp = &(*fp)->fa_next;
	return fp;
}

static int fasync_remove_entry(struct file *filp, struct fasync_struct **fapp)
{
	struct fasync_struct **fp, *fa;

	spin_lock(&filp->f_lock);
	spin_lock(&fasync_lock);
	fp = fasync_entry(filp, fapp);
	fa = *fp;
	if (fa) {
		write_lock_irq(&fa->fa_lock);
		fa->fa_file = NULL;
		write_unlock_irq(&fa->fa_lock);
		*fp = fa->fa_next;
		filp->f_flags &= ~FASYNC;
		call_rcu(&fa->fa_rcu, fasync_free_rcu);
	}
	spin_unlock(&fasync_lock);
	spin_unlock(&filp->f_lock);
	return !!fa;
}

static int fasync_add_entry(int fd, struct file *filp, struct fasync_struct **fapp)
{
	struct fasync_struct *new = kzalloc(sizeof(*new), GFP_KERNEL), *fa;

	if (!new)
		return -ENOMEM;
	rwlock_init(&new->fa_lock);
	*new = (struct fasync_struct){ .fa_lock = new->fa_lock, .magic = FASYNC_MAGIC, .fa_fd = fd, .fa_file = filp };
	spin_lock(&filp->f_lock);
	spin_lock(&fasync_lock);
	fa = *fasync_entry(filp, fapp);
	if (fa) {
		fa->fa_fd = fd;
	} else {
		new->fa_next = *fapp;
		rcu_assign_pointer(*fapp, new);
		filp->f_flags |= FASYNC;
	}
	spin_unlock(&fasync_lock);
	spin_unlock(&filp->f_lock);
	if (fa)
		kfree(new);
	return !fa;
}

// fasync_helper puts a file into a driver's list of those that want SIGIO, or takes it out.
// It returns 1 if that has changed the list, 0 if not, and -ENOMEM.
int fasync_helper(int fd, struct file *filp, int on, struct fasync_struct **fapp)
{
	return on ? fasync_add_entry(fd, filp, fapp) : fasync_remove_entry(filp, fapp);
}
EXPORT_SYMBOL(fasync_helper);

// send_sigio sends the signal of a file's owner to it.
static void send_sigio(struct fown_struct *fown, int fd, int band)
{
	struct kernel_siginfo info = { .si_signo = fown->signum ?: SIGIO, .si_code = band };
	struct task_struct *p;

	read_lock(&fown->lock);
	rcu_read_lock();
	p = fown->pid ? pid_task(fown->pid, PIDTYPE_PID) : NULL;
	if (p)
		do_send_sig_info(info.si_signo, fown->signum ? &info : SEND_SIG_PRIV, p, fown->pid_type);
	rcu_read_unlock();
	read_unlock(&fown->lock);
}

// kill_fasync tells the owners of the files in a list that something has happened.
void kill_fasync(struct fasync_struct **fp, int sig, int band)
{
	struct fasync_struct *fa;
	unsigned long flags;

	if (!*fp)
		return;
	rcu_read_lock();
	for (fa = rcu_dereference(*fp); fa; fa = rcu_dereference(fa->fa_next)) {
		if (fa->magic != FASYNC_MAGIC) {
			pr_err("kill_fasync: bad magic number in fasync_struct!\n");
			break;
		}
		read_lock_irqsave(&fa->fa_lock, flags);
		if (fa->fa_file && (sig != SIGURG || fa->fa_file->f_owner.signum))
			send_sigio(&fa->fa_file->f_owner, fa->fa_fd, band);
		read_unlock_irqrestore(&fa->fa_lock, flags);
	}
	rcu_read_unlock();
}
EXPORT_SYMBOL(kill_fasync);
