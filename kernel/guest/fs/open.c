// Opening and closing.
#include <linux/fs.h>
#include <linux/syscalls.h>
#include <linux/uaccess.h>

#define VALID_OPEN_FLAGS (O_ACCMODE | O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC | O_APPEND | O_NONBLOCK | O_DIRECT | \
			  O_LARGEFILE | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_PATH | 0x1000 /* O_DSYNC */ |   \
			  0x101000 /* O_SYNC */ | 0x40000 /* O_NOATIME */ | 0x2000 /* FASYNC */)

// build_open_flags converts flags and mode from user space for path_openat. It
// returns -EINVAL for invalid combinations.
noinline int build_open_flags(const struct open_how *how, struct open_flags *op)
{
	u64 flags = how->flags;

	if (flags & ~(u64)VALID_OPEN_FLAGS || how->resolve)
		return -EINVAL;
	if (how->mode && (how->mode & ~(u64)S_IALLUGO || !(flags & O_CREAT)))
		return -EINVAL;
	if (flags & O_PATH)
		flags &= O_DIRECTORY | O_NOFOLLOW | O_PATH | O_CLOEXEC;
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
int vfs_open(const struct path *path, struct file *file)
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
			fd = PTR_ERR(f);
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
		.mode = flags & O_CREAT ? mode & S_IALLUGO : 0,
	};

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
		return err;
	err = inode_permission(IDMAP_OF(path.mnt) path.dentry->d_inode, MAY_EXEC | MAY_CHDIR);
	if (!err)
		set_fs_pwd(current->fs, &path);
	path_put(&path);
	return err;
}

SYSCALL_DEFINE1(dup, unsigned int, fildes)
{
	struct file *file = fget_raw(fildes);
	int fd;

	if (!file)
		return -EBADF;
	fd = f_dupfd(0, file, 0);
	fput(file);
	return fd;
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
