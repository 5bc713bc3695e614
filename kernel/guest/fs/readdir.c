// Listing directories.
#include <linux/fs.h>
#include <linux/host.h>
#include <linux/syscalls.h>
#include <linux/uaccess.h>

// iterate_dir calls the file's iterate_shared with the directory locked. It returns
// -ENOTDIR, -EINTR, or -ENOENT if the directory has been removed.
int iterate_dir(struct file *file, struct dir_context *ctx)
{
	struct inode *inode = file->f_inode;
	bool shared = file->f_op->iterate_shared;
	int res;

	if (!shared && !file->f_op->iterate)
		return -ENOTDIR;
	res = security_file_permission(file, MAY_READ);
	if (res)
		return res;
	res = shared ? down_read_killable(&inode->i_rwsem) : down_write_killable(&inode->i_rwsem);
	if (res)
		return res;
	res = -ENOENT;
	if (inode->i_nlink || !d_unhashed(file->f_path.dentry)) {
		ctx->pos = file->f_pos;
		res = shared ? file->f_op->iterate_shared(file, ctx) : file->f_op->iterate(file, ctx);
		file->f_pos = ctx->pos;
		touch_atime(&file->f_path);
	}
	if (shared)
		up_read(&inode->i_rwsem);
	else
		up_write(&inode->i_rwsem);
	return res;
}

// A getdents_callback64 fills user space's buffer with records.
struct getdents_callback64 {
	struct dir_context ctx;
	struct linux_dirent64 __user *current_dir;
	int prev_reclen, count, error;
};

// verify_dirent_name detects invalid names from a broken filesystem.
static __noipa int verify_dirent_name(const char *name, int len)
{
	if (len <= 0 || len >= PATH_MAX || memchr(name, '/', len))
		return -EIO;
	return 0;
}

// filldir64 stores one name. It returns false if the buffer is full or on an error.
static bool filldir64(struct dir_context *ctx, const char *name, int namlen, loff_t offset, u64 ino, unsigned int d_type)
{
	struct getdents_callback64 *buf = container_of(ctx, struct getdents_callback64, ctx);
	struct linux_dirent64 __user *to = buf->current_dir, *prev;
	int reclen = ALIGN((int)offsetof(struct linux_dirent64, d_name) + namlen + 1, (int)sizeof(u64));

	buf->error = verify_dirent_name(name, namlen);
	if (buf->error)
		return false;
	buf->error = -EINVAL;
	if (reclen > buf->count)
		return false;
	if (buf->prev_reclen && signal_pending(current))
		return false;
	prev = (void __user *)to - buf->prev_reclen;
	buf->error = -EFAULT;
	if (buf->prev_reclen && put_user((s64)offset, &prev->d_off))
		return false;
	if (put_user(ino, &to->d_ino) || put_user((unsigned short)reclen, &to->d_reclen) ||
	    put_user((unsigned char)d_type, &to->d_type) || copy_to_user(to->d_name, name, namlen) ||
	    put_user((char)0, &to->d_name[namlen]))
		return false;
	buf->error = 0;
	buf->current_dir = (void __user *)to + reclen;
	buf->prev_reclen = reclen;
	buf->count -= reclen;
	return true;
}

SYSCALL_DEFINE3(getdents64, unsigned int, fd, struct linux_dirent64 __user *, dirent, unsigned int, count)
{
	struct getdents_callback64 buf = { .ctx.actor = filldir64, .count = count, .current_dir = dirent };
	struct fd f = fdget_pos(fd);
	int error;

	if (!f.file)
		return -EBADF;
	error = iterate_dir(f.file, &buf.ctx);
	if (error >= 0)
		error = buf.error;
	if (host_mirrors())
		error = host_made();
	else if (buf.prev_reclen) {
		struct linux_dirent64 __user *last = (void __user *)buf.current_dir - buf.prev_reclen;

		error = put_user((s64)buf.ctx.pos, &last->d_off) ? -EFAULT : (int)count - buf.count;
	}
	fdput_pos(f);
	return error;
}
