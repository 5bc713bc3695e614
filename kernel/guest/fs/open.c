// Opening and closing.
#include <linux/fs.h>
#include <linux/syscalls.h>
#include <linux/uaccess.h>
#include <linux/host.h>
#include <linux/hostfs.h>

#define __O_TMPFILE 020000000
#define VALID_OPEN_FLAGS (O_ACCMODE | O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC | O_APPEND | O_NONBLOCK | O_DIRECT | \
			  O_LARGEFILE | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_PATH | 0x1000 /* O_DSYNC */ |   \
			  0x101000 /* O_SYNC */ | 0x40000 /* O_NOATIME */ | 0x2000 /* FASYNC */ | __O_TMPFILE)
#define O_PATH_FLAGS (O_DIRECTORY | O_NOFOLLOW | O_PATH | O_CLOEXEC)

// How openat2 resolves a name. The host's kernel does that: here any name is accepted.
#define RESOLVE_NO_XDEV		0x01
#define RESOLVE_NO_MAGICLINKS	0x02
#define RESOLVE_NO_SYMLINKS	0x04
#define RESOLVE_BENEATH		0x08
#define RESOLVE_IN_ROOT		0x10
#define RESOLVE_CACHED		0x20
#define VALID_RESOLVE_FLAGS	(RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH | RESOLVE_IN_ROOT | RESOLVE_CACHED)

// build_open_flags converts flags and mode from user space for path_openat. It
// returns -EINVAL for invalid combinations.
notrace noinline int build_open_flags(const struct open_how *how, struct open_flags *op)
{
	u64 flags = how->flags;

	if (flags & ~(u64)VALID_OPEN_FLAGS || how->resolve & ~(u64)VALID_RESOLVE_FLAGS)
		return -EINVAL;
	if ((how->resolve & (RESOLVE_BENEATH | RESOLVE_IN_ROOT)) == (RESOLVE_BENEATH | RESOLVE_IN_ROOT))
		return -EINVAL;
	if (how->resolve & RESOLVE_CACHED && flags & (O_TRUNC | O_CREAT | __O_TMPFILE))
		return -EAGAIN;
	if (how->mode && (how->mode & ~(u64)S_IALLUGO || !(flags & (O_CREAT | __O_TMPFILE))))
		return -EINVAL;
	if (flags & O_PATH)
		flags &= O_PATH_FLAGS;
	op->mode = flags & O_CREAT ? how->mode | S_IFREG : 0;
	op->open_flag = flags;
	op->acc_mode = flags & O_PATH ? 0 :
		       ((flags & O_ACCMODE) == O_RDONLY ? MAY_READ : (flags & O_ACCMODE) == O_WRONLY ? MAY_WRITE : MAY_READ | MAY_WRITE);
	if (flags & O_TRUNC)
		op->acc_mode |= MAY_WRITE;
	if (flags & O_APPEND)
		op->acc_mode |= MAY_APPEND;
	op->intent = flags & O_PATH ? 0 : LOOKUP_OPEN;
	if (flags & O_CREAT)
		op->intent |= LOOKUP_CREATE | (flags & O_EXCL ? LOOKUP_EXCL : 0);
	op->lookup_flags = flags & O_DIRECTORY ? LOOKUP_DIRECTORY : 0;
	if (!(flags & O_NOFOLLOW) && !(flags & O_CREAT && flags & O_EXCL))
		op->lookup_flags |= LOOKUP_FOLLOW;
	return 0;
}

// do_dentry_open opens inode as f, by its f_op's open.
int do_dentry_open(struct file *f, struct inode *inode, int (*open)(struct inode *, struct file *))
{
	static const struct file_operations empty_fops;
	int err;

	path_get(&f->f_path);
	f->f_inode = inode;
	f->f_mapping = inode->i_mapping;
	if (f->f_flags & O_PATH) {
		f->f_mode = FMODE_PATH | FMODE_OPENED;
		f->f_op = &empty_fops;
		return 0;
	}
	if (f->f_mode & FMODE_WRITE) {
		err = __mnt_want_write(f->f_path.mnt);
		if (err)
			goto out_path;
		atomic_inc(&inode->i_writecount);
	}
	f->f_mode |= FMODE_LSEEK | FMODE_PREAD | FMODE_PWRITE;
	if (S_ISREG(inode->i_mode) || S_ISDIR(inode->i_mode))
		f->f_mode |= FMODE_ATOMIC_POS;
	f->f_op = fops_get(inode->i_fop);
	err = -ENODEV;
	if (!f->f_op)
		goto out_write;
	err = security_file_open(f);
	if (err)
		goto out_put;
	if (!open)
		open = f->f_op->open;
	if (open) {
		err = open(inode, f);
		if (err)
			goto out_put;
	}
	f->f_mode |= FMODE_OPENED;
	if (f->f_mode & FMODE_READ && (f->f_op->read || f->f_op->read_iter))
		f->f_mode |= FMODE_CAN_READ;
	if (f->f_mode & FMODE_WRITE && (f->f_op->write || f->f_op->write_iter))
		f->f_mode |= FMODE_CAN_WRITE;
	if (!f->f_op->llseek)
		f->f_mode &= ~FMODE_LSEEK;
	f->f_flags &= ~(O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC);
	return 0;
out_put:
	fops_put(f->f_op);
out_write:
	if (f->f_mode & FMODE_WRITE) {
		atomic_dec(&inode->i_writecount);
		__mnt_drop_write(f->f_path.mnt);
	}
out_path:
	path_put(&f->f_path);
	f->f_path = (struct path){ NULL, NULL };
	f->f_inode = NULL;
	return err;
}

// vfs_open opens path as file, whose path is not yet set.
noinline int vfs_open(const struct path *path, struct file *file)
{
	file->f_path = *path;
	return do_dentry_open(file, path->dentry->d_inode, NULL);
}

struct file *dentry_open(const struct path *path, int flags, const struct cred *cred)
{
	struct file *f = alloc_empty_file(flags, cred);
	int err;

	if (IS_ERR(f))
		return f;
	err = vfs_open(path, f);
	if (err) {
		fput(f);
		return ERR_PTR(err);
	}
	return f;
}

// filp_open opens a path for the kernel itself.
struct file *filp_open(const char *filename, int flags, umode_t mode)
{
	struct open_how how = { .flags = flags, .mode = flags & O_CREAT ? mode & S_IALLUGO : 0 };
	struct filename *name = getname_kernel(filename);
	struct open_flags op;
	struct file *f;
	int err;

	if (IS_ERR(name))
		return ERR_CAST(name);
	err = build_open_flags(&how, &op);
	f = err ? ERR_PTR(err) : do_filp_open(AT_FDCWD, name, &op);
	putname(name);
	return f;
}
EXPORT_SYMBOL(filp_open);

// install_as_host installs f at the host's descriptor, for which fd was reserved.
static int install_as_host(unsigned int fd, struct file *f)
{
	int ret;

	host_unreserve(fd);
	ret = host_opened(f);
	if (ret >= 0)
		fd_install(ret, f);
	else
		fput(f);
	return ret;
}

// do_sys_openat2 returns the new descriptor, or -errno.
long do_sys_openat2(int dfd, const char __user *filename, struct open_how *how)
{
	struct open_flags op;
	struct filename *name;
	struct file *f;
	int fd = build_open_flags(how, &op);

	if (fd)
		return fd;
	name = getname(filename);
	if (IS_ERR(name))
		return PTR_ERR(name);
	fd = get_unused_fd_flags(how->flags);
	if (fd >= 0) {
		f = do_filp_open(dfd, name, &op);
		if (IS_ERR(f)) {
			put_unused_fd(fd);
			fd = host_mirrors() ? host_made() : PTR_ERR(f);
		} else if (host_mirrors()) {
			fd = install_as_host(fd, f);
		} else {
			fd_install(fd, f);
		}
	}
	putname(name);
	return fd;
}

long do_sys_open(int dfd, const char __user *filename, int flags, umode_t mode)
{
	struct open_how how = {
		.flags = flags & VALID_OPEN_FLAGS,
		.mode = flags & (O_CREAT | __O_TMPFILE) ? mode & S_IALLUGO : 0,
	};

	if (how.flags & O_PATH)
		how.flags &= O_PATH_FLAGS;
	return do_sys_openat2(dfd, filename, &how);
}

SYSCALL_DEFINE3(open, const char __user *, filename, int, flags, umode_t, mode)
{
	return do_sys_open(AT_FDCWD, filename, flags | O_LARGEFILE, mode);
}

SYSCALL_DEFINE4(openat, int, dfd, const char __user *, filename, int, flags, umode_t, mode)
{
	return do_sys_open(dfd, filename, flags | O_LARGEFILE, mode);
}

SYSCALL_DEFINE2(creat, const char __user *, pathname, umode_t, mode)
{
	return do_sys_open(AT_FDCWD, pathname, O_CREAT | O_WRONLY | O_TRUNC | O_LARGEFILE, mode);
}

#undef __SYSCALL_INLINE
#define __SYSCALL_INLINE __SYSCALL_OUTLINE
SYSCALL_DEFINE4(openat2, int, dfd, const char __user *, filename, struct open_how __user *, how, size_t, usize)
{
	struct open_how tmp = { 0 };

	if (usize < sizeof(tmp))
		return -EINVAL;
	if (usize > sizeof(tmp))
		return -E2BIG;
	if (copy_from_user(&tmp, how, sizeof(tmp)))
		return -EFAULT;
	if (!(tmp.flags & O_PATH))
		tmp.flags |= O_LARGEFILE;
	return do_sys_openat2(dfd, filename, &tmp);
}
#undef __SYSCALL_INLINE
#define __SYSCALL_INLINE __always_inline

void dnotify_flush(struct file *filp, fl_owner_t id);

// filp_close calls flush and drops a reference, for close(2) of a descriptor.
noinline int filp_close(struct file *filp, fl_owner_t id)
{
	int ret = 0;

	if (WARN_ON(file_count(filp) == 0))
		return 0;
	if (filp->f_op->flush)
		ret = filp->f_op->flush(filp, id);
	if (!(filp->f_mode & FMODE_PATH))
		dnotify_flush(filp, id);
	fput(filp);
	return ret;
}
EXPORT_SYMBOL(filp_close);

// dnotify_flush removes a directory's notifications for this owner. There are never
// any, so it only checks.
noinline __noclone void dnotify_flush(struct file *filp, fl_owner_t id)
{
	struct inode *inode = filp->f_inode;

	if (S_ISDIR(inode->i_mode))
		WARN_ON(inode->i_fsnotify_marks);
}

SYSCALL_DEFINE1(close, unsigned int, fd)
{
	return close_fd(fd);
}

SYSCALL_DEFINE1(chdir, const char __user *, filename)
{
	struct path path;
	int err = user_path_at_empty(AT_FDCWD, filename, LOOKUP_FOLLOW | LOOKUP_DIRECTORY, &path, NULL);

	if (err)
		return host_result(err);
	err = host_result(inode_permission(IDMAP_OF(path.mnt) path.dentry->d_inode, MAY_EXEC | MAY_CHDIR));
	if (!err)
		set_fs_pwd(current->fs, &path);
	path_put(&path);
	return err;
}

// do_faccessat returns 0 if the file may be used as mode says.
static __noipa long do_faccessat(int dfd, const char __user *filename, int mode, int flags)
{
	struct path path;
	int res;

	if (mode & ~(MAY_READ | MAY_WRITE | MAY_EXEC) || flags & ~(AT_EACCESS | AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
		return -EINVAL;
	res = user_path_at_empty(dfd, filename,
				 (flags & AT_SYMLINK_NOFOLLOW ? 0 : LOOKUP_FOLLOW) | (flags & AT_EMPTY_PATH ? LOOKUP_EMPTY : 0), &path, NULL);
	if (res)
		return host_result(res);
	res = inode_permission(IDMAP_OF(path.mnt) path.dentry->d_inode, mode | MAY_ACCESS);
	path_put(&path);
	return host_result(res);
}

SYSCALL_DEFINE2(access, const char __user *, filename, int, mode)
{
	return do_faccessat(AT_FDCWD, filename, mode, 0);
}

SYSCALL_DEFINE3(faccessat, int, dfd, const char __user *, filename, int, mode)
{
	return do_faccessat(dfd, filename, mode, 0);
}

SYSCALL_DEFINE4(faccessat2, int, dfd, const char __user *, filename, int, mode, int, flags)
{
	return do_faccessat(dfd, filename, mode, flags);
}

int do_truncate(IDMAP_PARAM struct dentry *dentry, loff_t length, unsigned int time_attrs, struct file *filp)
{
	struct iattr attr = { .ia_size = length, .ia_valid = ATTR_SIZE | time_attrs };
	int ret;

	if (length < 0)
		return host_result(-EINVAL);
	if (filp) {
		attr.ia_file = filp;
		attr.ia_valid |= ATTR_FILE;
	}
	inode_lock(dentry->d_inode);
	ret = notify_change(IDMAP_ARG(idmap) dentry, &attr, NULL);
	inode_unlock(dentry->d_inode);
	return ret;
}

noinline __noclone long vfs_truncate(const struct path *path, loff_t length)
{
	struct inode *inode = path->dentry->d_inode;
	long error;

	if (!S_ISREG(inode->i_mode))
		return host_result(S_ISDIR(inode->i_mode) ? -EISDIR : -EINVAL);
	error = mnt_want_write(path->mnt);
	if (error)
		return host_result(error);
	error = inode_permission(IDMAP_OF(path->mnt) inode, MAY_WRITE);
	error = error ? host_result(error) : do_truncate(IDMAP_OF(path->mnt) path->dentry, length, 0, NULL);
	mnt_drop_write(path->mnt);
	return error;
}

noinline __noclone long do_sys_truncate(const char __user *pathname, loff_t length)
{
	struct path path;
	int error;

	if (length < 0)
		return -EINVAL;
	error = user_path_at_empty(AT_FDCWD, pathname, LOOKUP_FOLLOW, &path, NULL);
	if (error)
		return host_result(error);
	error = vfs_truncate(&path, length);
	path_put(&path);
	return error;
}

SYSCALL_DEFINE2(truncate, const char __user *, path, long, length)
{
	return do_sys_truncate(path, length);
}

noinline __noclone long do_sys_ftruncate(unsigned int fd, loff_t length, int small)
{
	struct fd f;
	int error = -EINVAL;

	if (length < 0)
		return -EINVAL;
	f = fdget(fd);
	if (!f.file)
		return -EBADF;
	if (S_ISREG(f.file->f_inode->i_mode) && f.file->f_mode & FMODE_WRITE)
		error = do_truncate(IDMAP_OF(f.file->f_path.mnt) f.file->f_path.dentry, length, ATTR_MTIME | ATTR_CTIME, f.file);
	fdput(f);
	return error;
}

SYSCALL_DEFINE2(ftruncate, unsigned int, fd, unsigned long, length)
{
	return do_sys_ftruncate(fd, length, 1);
}

noinline __noclone int vfs_fallocate(struct file *file, int mode, loff_t offset, loff_t len)
{
	int error = security_file_permission(file, MAY_WRITE);

	return error ? error : host_made();
}

SYSCALL_DEFINE4(fallocate, int, fd, int, mode, loff_t, offset, loff_t, len)
{
	struct fd f;
	int error;

	if (!host_mirrors())
		return -ENOSYS;
	f = fdget(fd);
	if (!f.file)
		return -EBADF;
	error = vfs_fallocate(f.file, mode, offset, len);
	fdput(f);
	return error;
}

noinline __noclone int generic_fadvise(struct file *file, loff_t offset, loff_t len, int advice)
{
	return host_made();
}

noinline __noclone int ksys_fadvise64_64(int fd, loff_t offset, loff_t len, int advice)
{
	struct fd f;
	int ret;

	if (!host_mirrors())
		return -ENOSYS;
	f = fdget(fd);
	if (!f.file)
		return -EBADF;
	ret = generic_fadvise(f.file, offset, len, advice);
	fdput(f);
	return ret;
}

SYSCALL_DEFINE4(fadvise64, int, fd, loff_t, offset, size_t, len, int, advice)
{
	return ksys_fadvise64_64(fd, offset, len, advice);
}

// change_attributes is notify_change with all that is locked for it.
static __always_inline int change_attributes(const struct path *path, struct iattr *attr)
{
	struct inode *inode = path->dentry->d_inode;
	int error = mnt_want_write(path->mnt);

	if (error)
		return host_result(error);
	inode_lock(inode);
	error = notify_change(IDMAP_OF(path->mnt) path->dentry, attr, NULL);
	inode_unlock(inode);
	mnt_drop_write(path->mnt);
	return error;
}

noinline __noclone int chmod_common(const struct path *path, umode_t mode)
{
	struct iattr attr = { .ia_valid = ATTR_MODE | ATTR_CTIME };

	attr.ia_mode = (mode & S_IALLUGO) | (path->dentry->d_inode->i_mode & ~S_IALLUGO);
	return change_attributes(path, &attr);
}

noinline __noclone int vfs_fchmod(struct file *file, umode_t mode)
{
	return chmod_common(&file->f_path, mode);
}

SYSCALL_DEFINE2(fchmod, unsigned int, fd, umode_t, mode)
{
	struct fd f = fdget(fd);
	int err;

	if (!f.file)
		return -EBADF;
	err = vfs_fchmod(f.file, mode);
	fdput(f);
	return err;
}

static __noipa int do_fchmodat(int dfd, const char __user *filename, umode_t mode)
{
	struct path path;
	int error = user_path_at_empty(dfd, filename, LOOKUP_FOLLOW, &path, NULL);

	if (error)
		return host_result(error);
	error = chmod_common(&path, mode);
	path_put(&path);
	return error;
}

SYSCALL_DEFINE3(fchmodat, int, dfd, const char __user *, filename, umode_t, mode)
{
	return do_fchmodat(dfd, filename, mode);
}

SYSCALL_DEFINE2(chmod, const char __user *, filename, umode_t, mode)
{
	return do_fchmodat(AT_FDCWD, filename, mode);
}

noinline __noclone int chown_common(const struct path *path, uid_t user, gid_t group)
{
	struct iattr attr = { .ia_valid = ATTR_CTIME };

	if (user != (uid_t)-1) {
		attr.ia_valid |= ATTR_UID;
		attr.ia_uid.val = user;
	}
	if (group != (gid_t)-1) {
		attr.ia_valid |= ATTR_GID;
		attr.ia_gid.val = group;
	}
	if (!S_ISDIR(path->dentry->d_inode->i_mode))
		attr.ia_valid |= ATTR_KILL_SUID | ATTR_KILL_SGID;
	return change_attributes(path, &attr);
}

noinline __noclone int do_fchownat(int dfd, const char __user *filename, uid_t user, gid_t group, int flag)
{
	struct path path;
	int error;

	if (flag & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
		return -EINVAL;
	error = user_path_at_empty(dfd, filename,
				   (flag & AT_SYMLINK_NOFOLLOW ? 0 : LOOKUP_FOLLOW) | (flag & AT_EMPTY_PATH ? LOOKUP_EMPTY : 0), &path, NULL);
	if (error)
		return host_result(error);
	error = chown_common(&path, user, group);
	path_put(&path);
	return error;
}

SYSCALL_DEFINE5(fchownat, int, dfd, const char __user *, filename, uid_t, user, gid_t, group, int, flag)
{
	return do_fchownat(dfd, filename, user, group, flag);
}

SYSCALL_DEFINE3(chown, const char __user *, filename, uid_t, user, gid_t, group)
{
	return do_fchownat(AT_FDCWD, filename, user, group, 0);
}

SYSCALL_DEFINE3(lchown, const char __user *, filename, uid_t, user, gid_t, group)
{
	return do_fchownat(AT_FDCWD, filename, user, group, AT_SYMLINK_NOFOLLOW);
}

noinline __noclone int vfs_fchown(struct file *file, uid_t user, gid_t group)
{
	return chown_common(&file->f_path, user, group);
}

noinline __noclone int ksys_fchown(unsigned int fd, uid_t user, gid_t group)
{
	struct fd f = fdget(fd);
	int error;

	if (!f.file)
		return -EBADF;
	error = vfs_fchown(f.file, user, group);
	fdput(f);
	return error;
}

SYSCALL_DEFINE3(fchown, unsigned int, fd, uid_t, user, gid_t, group)
{
	return ksys_fchown(fd, user, group);
}

int nonseekable_open(struct inode *inode, struct file *filp)
{
	filp->f_mode &= ~(FMODE_LSEEK | FMODE_PREAD | FMODE_PWRITE);
	return 0;
}
EXPORT_SYMBOL(nonseekable_open);

int stream_open(struct inode *inode, struct file *filp)
{
	filp->f_mode &= ~(FMODE_LSEEK | FMODE_PREAD | FMODE_PWRITE | FMODE_ATOMIC_POS);
	filp->f_mode |= FMODE_STREAM;
	return 0;
}
EXPORT_SYMBOL(stream_open);
