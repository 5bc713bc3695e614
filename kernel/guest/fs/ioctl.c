// ioctl(2) of files that have such an operation.
#include <linux/fs.h>
#include <linux/syscalls.h>

static __always_inline long call_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	long error = -ENOTTY;

	if (!filp->f_op->unlocked_ioctl)
		return error;
	error = filp->f_op->unlocked_ioctl(filp, cmd, arg);
	return error == -ENOIOCTLCMD ? -ENOTTY : error;
}

/* For others in the kernel; ioctl(2) has it inlined, as in Debian's kernel. */
long vfs_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	return call_ioctl(filp, cmd, arg);
}

/* The commands that the VFS itself knows are made by the host. */
static __noipa int do_vfs_ioctl(struct file *filp, unsigned int fd, unsigned int cmd, unsigned long arg)
{
	return -ENOIOCTLCMD;
}

SYSCALL_DEFINE3(ioctl, unsigned int, fd, unsigned int, cmd, unsigned long, arg)
{
	struct fd f = fdget(fd);
	long error;

	if (!f.file)
		return -EBADF;
	error = do_vfs_ioctl(f.file, fd, cmd, arg);
	if (error == -ENOIOCTLCMD)
		error = call_ioctl(f.file, cmd, arg);
	fdput(f);
	return error;
}
