// stat and its variants.
#include <linux/fs.h>
#include <linux/host.h>
#include <linux/syscalls.h>
#include <linux/uaccess.h>

// generic_fillattr fills in all attributes from the inode.
noinline void generic_fillattr(IDMAP_PARAM REQUEST_PARAM struct inode *inode, struct kstat *stat)
{
	stat->dev = inode->i_sb->s_dev;
	stat->ino = inode->i_ino;
	stat->mode = inode->i_mode;
	stat->nlink = inode->i_nlink;
	stat->uid = inode->i_uid;
	stat->gid = inode->i_gid;
	stat->rdev = inode->i_rdev;
	stat->size = inode->i_size;
	stat->atime = inode->i_atime;
	stat->mtime = inode->i_mtime;
	stat->ctime = inode->i_ctime;
	stat->blksize = 1U << inode->i_blkbits;
	stat->blocks = inode->i_blocks;
}

#define STATX_BASIC_STATS 0x7ff
#define AT_NO_AUTOMOUNT 0x800

int vfs_getattr_nosec(const struct path *path, struct kstat *stat, u32 request_mask, unsigned int query_flags)
{
	struct inode *inode = path->dentry->d_inode;

	memset(stat, 0, sizeof(*stat));
	stat->result_mask = STATX_BASIC_STATS;
	if (inode->i_op->getattr)
		return host_result(inode->i_op->getattr(IDMAP_OF(path->mnt) path, stat, request_mask, query_flags));
	generic_fillattr(IDMAP_OF(path->mnt) REQUEST_ARG(request_mask) inode, stat);
	return host_result(0);
}

int vfs_getattr(const struct path *path, struct kstat *stat, u32 request_mask, unsigned int query_flags)
{
	int err = security_inode_getattr(path);

	return err ? err : vfs_getattr_nosec(path, stat, request_mask, query_flags);
}

// vfs_statx looks up a path and gets its attributes.
noinline int vfs_statx(int dfd, path_arg_t filename, int flags, struct kstat *stat, u32 request_mask)
{
	unsigned int lookup = flags & AT_SYMLINK_NOFOLLOW ? 0 : LOOKUP_FOLLOW;
	struct path path;
	int err;

	if (flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | AT_NO_AUTOMOUNT | 0x6000 /* AT_STATX_SYNC_TYPE */))
		return host_result(-EINVAL);
#if GUEST_LINUX < 601
	err = user_path_at_empty(dfd, filename, lookup | (flags & AT_EMPTY_PATH ? LOOKUP_EMPTY : 0), &path, NULL);
#else
	err = filename_lookup(dfd, filename, lookup, &path, NULL);
#endif
	if (err)
		return host_result(err);
	err = vfs_getattr(&path, stat, request_mask, flags);
	path_put(&path);
	return err;
}

// statx_at is vfs_statx with a name from user space.
static __always_inline int statx_at(int dfd, const char __user *filename, int flags, struct kstat *stat, u32 request_mask)
{
#if GUEST_LINUX < 601
	return vfs_statx(dfd, filename, flags, stat, request_mask);
#else
	struct filename *name = getname_flags(filename, flags & AT_EMPTY_PATH ? LOOKUP_EMPTY : 0, NULL);
	int err = vfs_statx(dfd, name, flags, stat, request_mask);

	putname(name);
	return err;
#endif
}

noinline int vfs_fstatat(int dfd, const char __user *filename, struct kstat *stat, int flags)
{
#if GUEST_LINUX >= 612
	char first;

	// What fstat of the C library does.
	if (flags == AT_EMPTY_PATH && dfd >= 0 && (!filename || (!get_user(first, filename) && !first)))
		return vfs_fstat(dfd, stat);
#endif
	return statx_at(dfd, filename, flags | AT_NO_AUTOMOUNT, stat, STATX_BASIC_STATS);
}

// stat_at is called by the stat system calls. In 5.10 it is not vfs_fstatat.
#if GUEST_LINUX < 601
#define stat_at(dfd, filename, stat, flags) vfs_statx(dfd, filename, (flags) | AT_NO_AUTOMOUNT, stat, STATX_BASIC_STATS)
#else
#define stat_at vfs_fstatat
#endif

int vfs_fstat(int fd, struct kstat *stat)
{
	struct fd f = fdget_raw(fd);
	int err;

	if (!f.file)
		return -EBADF;
	err = vfs_getattr(&f.file->f_path, stat, STATX_BASIC_STATS, 0);
	fdput(f);
	return err;
}

// The stat of x86-64's user space.
struct stat {
	unsigned long st_dev, st_ino, st_nlink;
	unsigned int st_mode, st_uid, st_gid, __pad0;
	unsigned long st_rdev;
	long st_size, st_blksize, st_blocks;
	unsigned long st_atime, st_atime_nsec, st_mtime, st_mtime_nsec, st_ctime, st_ctime_nsec;
	long __unused[3];
};

static __noipa int cp_new_stat(struct kstat *stat, struct stat __user *statbuf)
{
	struct stat tmp;

	if (host_mirrors()) // the host's kernel has written it
		return 0;
	tmp = (struct stat){
		.st_dev = stat->dev, .st_ino = stat->ino, .st_nlink = stat->nlink, .st_mode = stat->mode,
		.st_uid = stat->uid.val, .st_gid = stat->gid.val, .st_rdev = stat->rdev, .st_size = stat->size,
		.st_blksize = stat->blksize, .st_blocks = stat->blocks,
		.st_atime = stat->atime.tv_sec, .st_atime_nsec = stat->atime.tv_nsec,
		.st_mtime = stat->mtime.tv_sec, .st_mtime_nsec = stat->mtime.tv_nsec,
		.st_ctime = stat->ctime.tv_sec, .st_ctime_nsec = stat->ctime.tv_nsec,
	};

	return copy_to_user(statbuf, &tmp, sizeof(tmp)) ? -EFAULT : 0;
}

SYSCALL_DEFINE2(newstat, const char __user *, filename, struct stat __user *, statbuf)
{
	struct kstat stat;
	int err = stat_at(AT_FDCWD, filename, &stat, 0);

	return err ? err : cp_new_stat(&stat, statbuf);
}

SYSCALL_DEFINE2(newlstat, const char __user *, filename, struct stat __user *, statbuf)
{
	struct kstat stat;
	int err = stat_at(AT_FDCWD, filename, &stat, AT_SYMLINK_NOFOLLOW);

	return err ? err : cp_new_stat(&stat, statbuf);
}

SYSCALL_DEFINE4(newfstatat, int, dfd, const char __user *, filename, struct stat __user *, statbuf, int, flag)
{
	struct kstat stat;
	int err = stat_at(dfd, filename, &stat, flag);

	// The host's GETATTR has no buffer: it takes the attributes from the file
	// operation.
	if (err || !statbuf)
		return err;
	return cp_new_stat(&stat, statbuf);
}

SYSCALL_DEFINE2(newfstat, unsigned int, fd, struct stat __user *, statbuf)
{
	struct kstat stat;
	int err = vfs_fstat(fd, &stat);

	return err ? err : cp_new_stat(&stat, statbuf);
}

struct statx_timestamp {
	s64 tv_sec;
	u32 tv_nsec;
	s32 __reserved;
};

struct statx {
	u32 stx_mask, stx_blksize;
	u64 stx_attributes;
	u32 stx_nlink, stx_uid, stx_gid;
	u16 stx_mode, __spare0;
	u64 stx_ino, stx_size, stx_blocks, stx_attributes_mask;
	struct statx_timestamp stx_atime, stx_btime, stx_ctime, stx_mtime;
	u32 stx_rdev_major, stx_rdev_minor, stx_dev_major, stx_dev_minor;
	u64 __spare2[14];
};
static_assert(sizeof(struct statx) == 256, "struct statx");

static struct statx_timestamp stamp(const struct timespec64 *ts)
{
	return (struct statx_timestamp){ .tv_sec = ts->tv_sec, .tv_nsec = ts->tv_nsec };
}

static __noipa int cp_statx(const struct kstat *stat, struct statx __user *buffer)
{
	struct statx tmp;

	if (host_mirrors())
		return 0;
	tmp = (struct statx){
		.stx_mask = stat->result_mask, .stx_blksize = stat->blksize, .stx_attributes = stat->attributes,
		.stx_nlink = stat->nlink, .stx_uid = stat->uid.val, .stx_gid = stat->gid.val, .stx_mode = stat->mode,
		.stx_ino = stat->ino, .stx_size = stat->size, .stx_blocks = stat->blocks,
		.stx_atime = stamp(&stat->atime), .stx_ctime = stamp(&stat->ctime), .stx_mtime = stamp(&stat->mtime),
		.stx_rdev_major = stat->rdev >> 20, .stx_rdev_minor = stat->rdev & 0xfffff,
		.stx_dev_major = stat->dev >> 20, .stx_dev_minor = stat->dev & 0xfffff,
	};

	return copy_to_user(buffer, &tmp, sizeof(tmp)) ? -EFAULT : 0;
}

noinline __noclone int do_statx(int dfd, path_arg_t filename, unsigned int flags, unsigned int mask, struct statx __user *buffer)
{
	struct kstat stat;
	int err = vfs_statx(dfd, filename, flags, &stat, mask);

	return err ? err : cp_statx(&stat, buffer);
}

SYSCALL_DEFINE5(statx, int, dfd, const char __user *, filename, unsigned int, flags, unsigned int, mask, struct statx __user *, buffer)
{
#if GUEST_LINUX < 601
	return do_statx(dfd, filename, flags, mask, buffer);
#else
	struct filename *name = getname_flags(filename, flags & AT_EMPTY_PATH ? LOOKUP_EMPTY : 0, NULL);
	int ret = do_statx(dfd, name, flags, mask, buffer);

	putname(name);
	return ret;
#endif
}

noinline __noclone int vfs_readlink(struct dentry *dentry, char __user *buffer, int buflen)
{
	struct inode *inode = dentry->d_inode;

	if (host_mirrors())
		return host_made();
	return inode->i_link ? readlink_copy(buffer, buflen, inode->i_link) : -EINVAL;
}

static __noipa int do_readlinkat(int dfd, const char __user *pathname, char __user *buf, int bufsiz)
{
	struct path path;
	int err;

	if (bufsiz <= 0)
		return -EINVAL;
	err = user_path_at_empty(dfd, pathname, LOOKUP_EMPTY, &path, NULL);
	if (err)
		return host_result(err);
	if (S_ISLNK(path.dentry->d_inode->i_mode)) {
		touch_atime(&path);
		err = vfs_readlink(path.dentry, buf, bufsiz);
	} else {
		err = -EINVAL;
	}
	path_put(&path);
	return host_result(err);
}

SYSCALL_DEFINE3(readlink, const char __user *, path, char __user *, buf, int, bufsiz)
{
	return do_readlinkat(AT_FDCWD, path, buf, bufsiz);
}

SYSCALL_DEFINE4(readlinkat, int, dfd, const char __user *, pathname, char __user *, buf, int, bufsiz)
{
	return do_readlinkat(dfd, pathname, buf, bufsiz);
}
