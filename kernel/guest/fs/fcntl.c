// fcntl(2). The guest follows descriptors; the rest is the host's.
#include <linux/fs.h>
#include <linux/host.h>
#include <linux/syscalls.h>

#define F_DUPFD 0
#define F_GETFL 3
#define F_DUPFD_CLOEXEC 1030

static __noipa long do_fcntl(int fd, unsigned int cmd, unsigned long arg, struct file *filp)
{
	switch (cmd) {
	case F_DUPFD:
		return f_dupfd(arg, filp, 0);
	case F_DUPFD_CLOEXEC:
		return f_dupfd(arg, filp, O_CLOEXEC);
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
