// What is known of a filesystem. It is the host's.
#include <linux/fs.h>
#include <linux/host.h>
#include <linux/namei.h>
#include <linux/syscalls.h>

struct kstatfs {
	long f_type;
};

static __noipa int statfs_by_dentry(struct dentry *dentry, struct kstatfs *buf)
{
	return host_made();
}

static __noipa int user_statfs(const char __user *pathname, struct kstatfs *st)
{
	struct path path;
	int err = user_path_at_empty(AT_FDCWD, pathname, LOOKUP_FOLLOW | 0x0800 /* LOOKUP_AUTOMOUNT */, &path, NULL);

	if (err)
		return host_made();
	err = statfs_by_dentry(path.dentry, st);
	path_put(&path);
	return err;
}

static __noipa int fd_statfs(int fd, struct kstatfs *st)
{
	struct fd f = fdget_raw(fd);
	int err;

	if (!f.file)
		return -EBADF;
	err = statfs_by_dentry(f.file->f_path.dentry, st);
	fdput(f);
	return err;
}

static __noipa int do_statfs_native(struct kstatfs *st, void __user *p)
{
	return 0;
}

SYSCALL_DEFINE2(statfs, const char __user *, pathname, void __user *, buf)
{
	struct kstatfs st;
	int err;

	if (!host_mirrors())
		return -ENOSYS;
	err = user_statfs(pathname, &st);
	return err ? err : do_statfs_native(&st, buf);
}

SYSCALL_DEFINE2(fstatfs, unsigned int, fd, void __user *, buf)
{
	struct kstatfs st;
	int err;

	if (!host_mirrors())
		return -ENOSYS;
	err = fd_statfs(fd, &st);
	return err ? err : do_statfs_native(&st, buf);
}
