// Writing what is in memory to a file's disk.
#include <linux/fs.h>
#include <linux/host.h>
#include <linux/syscalls.h>

static __always_inline int fsync_range(struct file *file, loff_t start, loff_t end, int datasync)
{
	if (!file->f_op->fsync)
		return host_result(-EINVAL);
	return host_result(file->f_op->fsync(file, start, end, datasync));
}

noinline __noclone int vfs_fsync_range(struct file *file, loff_t start, loff_t end, int datasync)
{
	return fsync_range(file, start, end, datasync);
}

// vfs_fsync is for modules.
noinline __noclone int vfs_fsync(struct file *file, int datasync)
{
	return vfs_fsync_range(file, 0, MAX_LFS_FILESIZE, datasync);
}
EXPORT_SYMBOL(vfs_fsync);

// Of these, before 6.12, only fsync comes by vfs_fsync_range in Debian's kernels.
static __always_inline long do_fsync(unsigned int fd, int datasync)
{
	struct fd f = fdget(fd);
	long ret;

	if (!f.file)
		return -EBADF;
#if GUEST_LINUX < 612
	if (datasync)
		ret = fsync_range(f.file, 0, MAX_LFS_FILESIZE, datasync);
	else
#endif
		ret = vfs_fsync_range(f.file, 0, MAX_LFS_FILESIZE, datasync);
	fdput(f);
	return ret;
}

SYSCALL_DEFINE1(fsync, unsigned int, fd)
{
	return do_fsync(fd, 0);
}

SYSCALL_DEFINE1(fdatasync, unsigned int, fd)
{
	return do_fsync(fd, 1);
}
