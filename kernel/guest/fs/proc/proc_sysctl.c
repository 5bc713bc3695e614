// Reads and writes below /proc/sys.
#include <linux/hostfs.h>
#include <linux/host.h>

static DEFINE_SPINLOCK(sysctl_lock);
static int sysctl_users;

// A sysctl's header is in use while its handler runs.
static void grab_header(void)
{
	spin_lock(&sysctl_lock);
	sysctl_users++;
	spin_unlock(&sysctl_lock);
}

static noinline void sysctl_head_finish(void)
{
	spin_lock(&sysctl_lock);
	sysctl_users--;
	spin_unlock(&sysctl_lock);
}

static __noipa int sysctl_perm(const struct inode *inode, int op)
{
	return (inode->i_mode >> 6 & op) == op || capable(21) ? 0 : -EPERM;
}

// proc_sys_call_handler has the host handle the value. It returns -ENOMEM for sizes
// for which Linux would not allocate a buffer.
static __noipa ssize_t proc_sys_call_handler(struct kiocb *iocb, struct iov_iter *iter, int write)
{
	ssize_t error;

	grab_header();
	error = sysctl_perm(iocb->ki_filp->f_inode, write ? MAY_WRITE : MAY_READ);
	if (!error && iter->count >= KMALLOC_MAX_SIZE)
		error = -ENOMEM;
	if (!error)
		error = write ? hostfs_write_iter(iocb, iter) : hostfs_read_iter(iocb, iter);
	sysctl_head_finish();
	return error;
}

static __noipa ssize_t proc_sys_read(struct kiocb *iocb, struct iov_iter *iter)
{
	return proc_sys_call_handler(iocb, iter, 0);
}

static __noipa ssize_t proc_sys_write(struct kiocb *iocb, struct iov_iter *iter)
{
	return proc_sys_call_handler(iocb, iter, 1);
}

static __noipa int proc_sys_open(struct inode *inode, struct file *filp)
{
	return hostfs_open(inode, filp);
}

const struct file_operations proc_sys_file_operations = {
	.open = proc_sys_open,
	.read_iter = proc_sys_read,
	.write_iter = proc_sys_write,
	.llseek = default_llseek,
	.flush = hostfs_flush,
	.release = hostfs_release,
};
