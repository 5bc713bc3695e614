// Extended attributes of files. They are the host's.
#include <linux/fs.h>
#include <linux/host.h>
#include <linux/namei.h>
#include <linux/string.h>
#include <linux/syscalls.h>
#include <linux/uaccess.h>

#define XATTR_NAME_MAX 255

noinline __noclone ssize_t vfs_getxattr(IDMAP_PARAM struct dentry *dentry, const char *name, void *value, size_t size)
{
	return host_made();
}

noinline __noclone int vfs_setxattr(IDMAP_PARAM struct dentry *dentry, const char *name, const void *value, size_t size, int flags)
{
	return host_made();
}

noinline __noclone ssize_t vfs_listxattr(struct dentry *dentry, char *list, size_t size)
{
	return host_made();
}

noinline __noclone int vfs_removexattr(IDMAP_PARAM struct dentry *dentry, const char *name)
{
	return host_made();
}

static __always_inline long copy_name(char *kname, const char __user *name)
{
	long n = strncpy_from_user(kname, name, XATTR_NAME_MAX + 1);

	return n < 0 ? n : n == 0 || n == XATTR_NAME_MAX + 1 ? -ERANGE : 0;
}

// What is done with the attributes of one file. An argument that a call has not is NULL or 0.
typedef ssize_t (*xattr_call)(const struct path *path, const char __user *name, void __user *value, size_t size, int flags);

static __noipa ssize_t getxattr(const struct path *path, const char __user *name, void __user *value, size_t size, int flags)
{
	char kname[XATTR_NAME_MAX + 1];
	long err = copy_name(kname, name);

	return err ? err : vfs_getxattr(IDMAP_OF(path->mnt) path->dentry, kname, value, size);
}

static __noipa ssize_t setxattr(const struct path *path, const char __user *name, void __user *value, size_t size, int flags)
{
	char kname[XATTR_NAME_MAX + 1];
	long err = copy_name(kname, name);

	return err ? err : vfs_setxattr(IDMAP_OF(path->mnt) path->dentry, kname, value, size, flags);
}

static __noipa ssize_t listxattr(const struct path *path, const char __user *name, void __user *value, size_t size, int flags)
{
	return vfs_listxattr(path->dentry, value, size);
}

static __noipa ssize_t removexattr(const struct path *path, const char __user *name, void __user *value, size_t size, int flags)
{
	char kname[XATTR_NAME_MAX + 1];
	long err = copy_name(kname, name);

	return err ? err : vfs_removexattr(IDMAP_OF(path->mnt) path->dentry, kname);
}

static __always_inline ssize_t of_path(const char __user *pathname, unsigned int lookup, bool writes, xattr_call call,
				       const char __user *name, void __user *value, size_t size, int flags)
{
	struct path path;
	ssize_t ret = user_path_at_empty(AT_FDCWD, pathname, lookup, &path, NULL);

	if (ret)
		return host_made();
	if (writes)
		ret = mnt_want_write(path.mnt);
	if (!ret) {
		ret = call(&path, name, value, size, flags);
		if (writes)
			mnt_drop_write(path.mnt);
	}
	path_put(&path);
	return ret;
}

static __always_inline ssize_t of_fd(int fd, xattr_call call, const char __user *name, void __user *value, size_t size, int flags)
{
	struct fd f;
	ssize_t ret;

	if (!host_mirrors())
		return -ENOSYS;
	f = fdget(fd);
	if (!f.file)
		return -EBADF;
	ret = call(&f.file->f_path, name, value, size, flags);
	fdput(f);
	return ret;
}

static __noipa ssize_t path_getxattr(const char __user *pathname, const char __user *name, void __user *value, size_t size, unsigned int lookup)
{
	return of_path(pathname, lookup, false, getxattr, name, value, size, 0);
}

static __noipa int path_setxattr(const char __user *pathname, const char __user *name, const void __user *value, size_t size, int flags,
				 unsigned int lookup)
{
	return of_path(pathname, lookup, true, setxattr, name, (void __user *)value, size, flags);
}

static __noipa ssize_t path_listxattr(const char __user *pathname, char __user *list, size_t size, unsigned int lookup)
{
	return of_path(pathname, lookup, false, listxattr, NULL, list, size, 0);
}

static __noipa int path_removexattr(const char __user *pathname, const char __user *name, unsigned int lookup)
{
	return of_path(pathname, lookup, true, removexattr, name, NULL, 0, 0);
}

SYSCALL_DEFINE4(getxattr, const char __user *, pathname, const char __user *, name, void __user *, value, size_t, size)
{
	return host_mirrors() ? path_getxattr(pathname, name, value, size, LOOKUP_FOLLOW) : -ENOSYS;
}

SYSCALL_DEFINE4(lgetxattr, const char __user *, pathname, const char __user *, name, void __user *, value, size_t, size)
{
	return host_mirrors() ? path_getxattr(pathname, name, value, size, 0) : -ENOSYS;
}

SYSCALL_DEFINE4(fgetxattr, int, fd, const char __user *, name, void __user *, value, size_t, size)
{
	return of_fd(fd, getxattr, name, value, size, 0);
}

SYSCALL_DEFINE5(setxattr, const char __user *, pathname, const char __user *, name, const void __user *, value, size_t, size, int, flags)
{
	return host_mirrors() ? path_setxattr(pathname, name, value, size, flags, LOOKUP_FOLLOW) : -ENOSYS;
}

SYSCALL_DEFINE5(lsetxattr, const char __user *, pathname, const char __user *, name, const void __user *, value, size_t, size, int, flags)
{
	return host_mirrors() ? path_setxattr(pathname, name, value, size, flags, 0) : -ENOSYS;
}

SYSCALL_DEFINE5(fsetxattr, int, fd, const char __user *, name, const void __user *, value, size_t, size, int, flags)
{
	return of_fd(fd, setxattr, name, (void __user *)value, size, flags);
}

SYSCALL_DEFINE3(listxattr, const char __user *, pathname, char __user *, list, size_t, size)
{
	return host_mirrors() ? path_listxattr(pathname, list, size, LOOKUP_FOLLOW) : -ENOSYS;
}

SYSCALL_DEFINE3(llistxattr, const char __user *, pathname, char __user *, list, size_t, size)
{
	return host_mirrors() ? path_listxattr(pathname, list, size, 0) : -ENOSYS;
}

SYSCALL_DEFINE3(flistxattr, int, fd, char __user *, list, size_t, size)
{
	return of_fd(fd, listxattr, NULL, list, size, 0);
}

SYSCALL_DEFINE2(removexattr, const char __user *, pathname, const char __user *, name)
{
	return host_mirrors() ? path_removexattr(pathname, name, LOOKUP_FOLLOW) : -ENOSYS;
}

SYSCALL_DEFINE2(lremovexattr, const char __user *, pathname, const char __user *, name)
{
	return host_mirrors() ? path_removexattr(pathname, name, 0) : -ENOSYS;
}

SYSCALL_DEFINE2(fremovexattr, int, fd, const char __user *, name)
{
	return of_fd(fd, removexattr, name, NULL, 0, 0);
}
