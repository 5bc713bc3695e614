// ioctl(2) of files that have such an operation.
#include <linux/fs.h>
#include <linux/syscalls.h>

noinline long vfs_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	long error = -ENOTTY;

	if (!filp->f_op->unlocked_ioctl)
		return error;
	error = filp->f_op->unlocked_ioctl(filp, cmd, arg);
	return error == -ENOIOCTLCMD ? -ENOTTY : error;
}

SYSCALL_DEFINE3(ioctl, unsigned int, fd, unsigned int, cmd, unsigned long, arg)
{
	struct fd f = fdget(fd);
	long error;

	if (!f.file)
		return -EBADF;
	error = vfs_ioctl(f.file, cmd, arg);
	fdput(f);
	return error;
}
