// Data from file to file. The host's kernel moves it.
#include <linux/fs.h>
#include <linux/host.h>
#include <linux/hostfs.h>
#include <linux/syscalls.h>
#include <linux/uaccess.h>

ssize_t host_splice_to_socket(struct file *out, loff_t *pos, size_t len);

static bool is_pipe(const struct file *file)
{
	return file->f_op == &pipefifo_fops;
}

#if GUEST_LINUX >= 601
static __noipa long splice_file_to_pipe(struct file *in, struct file *opipe, loff_t *offset, size_t len, unsigned int flags)
{
	return host_made();
}
#endif

noinline __noclone long do_splice_direct(struct file *in, loff_t *ppos, struct file *out, loff_t *opos, size_t len, unsigned int flags)
{
	int err = rw_verify_area(WRITE, out, opos, len);

	if (err)
		return err;
	return S_ISSOCK(out->f_inode->i_mode) ? host_splice_to_socket(out, opos, len) : host_made();
}

// iter_file_splice_write is the end of a splice(2) from a pipe to a regular file.
static __noipa ssize_t iter_file_splice_write(void *pipe, struct file *out, loff_t *ppos, size_t len, unsigned int flags)
{
	return host_made();
}

static __noipa long do_splice(struct file *in, loff_t *off_in, struct file *out, loff_t *off_out, size_t len, unsigned int flags)
{
	loff_t pos = off_in ? *off_in : off_out ? *off_out : 0;
	int err;

	if (is_pipe(in) && !is_pipe(out)) {
		err = rw_verify_area(WRITE, out, &pos, len);
		if (err)
			return err;
		if (S_ISSOCK(out->f_inode->i_mode))
			return host_splice_to_socket(out, &pos, len);
		return S_ISREG(out->f_inode->i_mode) ? iter_file_splice_write(in->f_inode, out, &pos, len, flags) : host_made();
	}
#if GUEST_LINUX >= 601
	if (is_pipe(out) && !is_pipe(in))
		return splice_file_to_pipe(in, out, &pos, len, flags);
#endif
	return host_made();
}

static __noipa long __do_splice(struct file *in, loff_t __user *off_in, struct file *out, loff_t __user *off_out, size_t len, unsigned int flags)
{
	loff_t in_pos, out_pos;

	if (off_in && copy_from_user(&in_pos, off_in, sizeof(in_pos)))
		return -EFAULT;
	if (off_out && copy_from_user(&out_pos, off_out, sizeof(out_pos)))
		return -EFAULT;
	return do_splice(in, off_in ? &in_pos : NULL, out, off_out ? &out_pos : NULL, len, flags);
}

static __noipa long do_tee(struct file *in, struct file *out, size_t len, unsigned int flags)
{
	return host_made();
}

// Two descriptors of a call. It is inlined in Debian's kernels.
static __always_inline long of_two(int fd_in, int fd_out, struct fd *in, struct fd *out)
{
	if (!host_mirrors())
		return -ENOSYS;
	*in = fdget(fd_in);
	if (!in->file)
		return -EBADF;
	*out = fdget(fd_out);
	if (out->file)
		return 0;
	fdput(*in);
	return -EBADF;
}

static __always_inline void put_two(struct fd in, struct fd out)
{
	fdput(out);
	fdput(in);
}

SYSCALL_DEFINE6(splice, int, fd_in, loff_t __user *, off_in, int, fd_out, loff_t __user *, off_out, size_t, len, unsigned int, flags)
{
	struct fd in, out;
	long ret = of_two(fd_in, fd_out, &in, &out);

	if (ret)
		return ret;
	ret = __do_splice(in.file, off_in, out.file, off_out, len, flags);
	put_two(in, out);
	return ret;
}

SYSCALL_DEFINE4(tee, int, fdin, int, fdout, size_t, len, unsigned int, flags)
{
	struct fd in, out;
	long ret = of_two(fdin, fdout, &in, &out);

	if (ret)
		return ret;
	ret = do_tee(in.file, out.file, len, flags);
	put_two(in, out);
	return ret;
}

// fs/read_write.c
static __always_inline long sendfile_to(struct file *in, loff_t *pos, struct file *out, size_t count)
{
	int err;

#if GUEST_LINUX >= 601
	if (is_pipe(out))
		return splice_file_to_pipe(in, out, pos, count, 0);
#endif
	err = rw_verify_area(WRITE, out, &out->f_pos, count);
	return err ? err : do_splice_direct(in, pos, out, &out->f_pos, count, 0);
}

static __noipa ssize_t do_sendfile(int out_fd, int in_fd, loff_t *ppos, size_t count, loff_t max)
{
	struct fd in, out;
	loff_t pos;
	long ret;

	in = fdget(in_fd);
	if (!in.file)
		return -EBADF;
	pos = ppos ? *ppos : in.file->f_pos;
	ret = rw_verify_area(READ, in.file, &pos, count);
	if (ret)
		goto put_in;
	out = fdget(out_fd);
	ret = -EBADF;
	if (out.file) {
		ret = sendfile_to(in.file, &pos, out.file, count);
		fdput(out);
	}
put_in:
	fdput(in);
	return ret;
}

SYSCALL_DEFINE4(sendfile64, int, out_fd, int, in_fd, loff_t __user *, offset, size_t, count)
{
	loff_t pos;

	if (!host_mirrors())
		return -ENOSYS;
	if (offset && copy_from_user(&pos, offset, sizeof(pos)))
		return -EFAULT;
	return do_sendfile(out_fd, in_fd, offset ? &pos : NULL, count, 0);
}

noinline __noclone ssize_t vfs_copy_file_range(struct file *in, loff_t pos_in, struct file *out, loff_t pos_out, size_t len, unsigned int flags)
{
	int ret = rw_verify_area(READ, in, &pos_in, len);

	if (!ret)
		ret = rw_verify_area(WRITE, out, &pos_out, len);
	return ret ? ret : do_splice_direct(in, &pos_in, out, &pos_out, len, 0);
}

SYSCALL_DEFINE6(copy_file_range, int, fd_in, loff_t __user *, off_in, int, fd_out, loff_t __user *, off_out, size_t, len, unsigned int, flags)
{
	loff_t pos_in, pos_out;
	struct fd in, out;
	long ret = of_two(fd_in, fd_out, &in, &out);

	if (ret)
		return ret;
	pos_in = in.file->f_pos;
	pos_out = out.file->f_pos;
	ret = -EFAULT;
	if (!(off_in && copy_from_user(&pos_in, off_in, sizeof(pos_in))) && !(off_out && copy_from_user(&pos_out, off_out, sizeof(pos_out))))
		ret = vfs_copy_file_range(in.file, pos_in, out.file, pos_out, len, flags);
	put_two(in, out);
	return ret;
}
