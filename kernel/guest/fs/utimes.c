// Setting the times of files.
#include <linux/fs.h>
#include <linux/host.h>
#include <linux/namei.h>
#include <linux/syscalls.h>
#include <linux/uaccess.h>

#define UTIME_NOW 0x3fffffff
#define UTIME_OMIT 0x3ffffffe

static bool valid_time(const struct timespec64 *t)
{
	return t->tv_nsec == UTIME_NOW || t->tv_nsec == UTIME_OMIT || (t->tv_nsec >= 0 && t->tv_nsec < 1000000000);
}

// vfs_utimes sets both times of a file. Without times they become the present one.
noinline __noclone int vfs_utimes(const struct path *path, struct timespec64 *times)
{
	struct inode *inode = path->dentry->d_inode;
	struct iattr attr = { .ia_valid = ATTR_CTIME | ATTR_ATIME | ATTR_MTIME };
	int err;

	if (times && (!valid_time(&times[0]) || !valid_time(&times[1])))
		return -EINVAL;
	if (times && times[0].tv_nsec == UTIME_NOW && times[1].tv_nsec == UTIME_NOW)
		times = NULL;
	err = mnt_want_write(path->mnt);
	if (err)
		return host_result(err);
	if (times) {
		if (times[0].tv_nsec == UTIME_OMIT)
			attr.ia_valid &= ~ATTR_ATIME;
		else if (times[0].tv_nsec != UTIME_NOW)
			attr.ia_valid |= ATTR_ATIME_SET;
		if (times[1].tv_nsec == UTIME_OMIT)
			attr.ia_valid &= ~ATTR_MTIME;
		else if (times[1].tv_nsec != UTIME_NOW)
			attr.ia_valid |= ATTR_MTIME_SET;
		attr.ia_atime = times[0];
		attr.ia_mtime = times[1];
		attr.ia_valid |= ATTR_TIMES_SET;
	} else {
		attr.ia_valid |= ATTR_TOUCH;
	}
	inode_lock(inode);
	err = notify_change(IDMAP_OF(path->mnt) path->dentry, &attr, NULL);
	inode_unlock(inode);
	mnt_drop_write(path->mnt);
	return err;
}

noinline __noclone long do_utimes(int dfd, const char __user *filename, struct timespec64 *times, int flags)
{
	struct path path;
	struct fd f;
	int err;

	if (!filename && dfd != AT_FDCWD) {
		if (flags)
			return -EINVAL;
		f = fdget(dfd);
		if (!f.file)
			return -EBADF;
		err = vfs_utimes(&f.file->f_path, times);
		fdput(f);
		return err;
	}
	if (flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
		return -EINVAL;
	err = user_path_at_empty(dfd, filename,
				 (flags & AT_SYMLINK_NOFOLLOW ? 0 : LOOKUP_FOLLOW) | (flags & AT_EMPTY_PATH ? LOOKUP_EMPTY : 0), &path, NULL);
	if (err)
		return host_result(err);
	err = vfs_utimes(&path, times);
	path_put(&path);
	return err;
}

SYSCALL_DEFINE4(utimensat, int, dfd, const char __user *, filename, struct timespec64 __user *, utimes, int, flags)
{
	struct timespec64 times[2];

	if (utimes) {
		if (copy_from_user(times, utimes, sizeof(times)))
			return -EFAULT;
		if (times[0].tv_nsec == UTIME_OMIT && times[1].tv_nsec == UTIME_OMIT)
			return 0;
	}
	return do_utimes(dfd, filename, utimes ? times : NULL, flags);
}
