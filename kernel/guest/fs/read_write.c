// Reading, writing and seeking.
#include <linux/fs.h>
#include <linux/host.h>
#include <linux/syscalls.h>
#include <linux/uaccess.h>

noinline loff_t vfs_setpos(struct file *file, loff_t offset, loff_t maxsize)
{
	if (offset < 0 || offset > maxsize)
		return -EINVAL;
	if (offset != file->f_pos) {
		file->f_pos = offset;
		file->f_version = 0;
	}
	return offset;
}

noinline loff_t generic_file_llseek_size(struct file *file, loff_t offset, int whence, loff_t maxsize, loff_t eof)
{
	if (host_mirrors())
		return host_made();
	switch (whence) {
	case SEEK_SET:
		return vfs_setpos(file, offset, maxsize);
	case SEEK_CUR:
		if (!offset)
			return file->f_pos;
		spin_lock(&file->f_lock);
		offset = vfs_setpos(file, file->f_pos + offset, maxsize);
		spin_unlock(&file->f_lock);
		return offset;
	case SEEK_END:
		return vfs_setpos(file, eof + offset, maxsize);
	}
	return -EINVAL;
}

loff_t generic_file_llseek(struct file *file, loff_t offset, int whence)
{
	return generic_file_llseek_size(file, offset, whence, MAX_LFS_FILESIZE, file->f_inode->i_size);
}
EXPORT_SYMBOL(generic_file_llseek);

loff_t default_llseek(struct file *file, loff_t offset, int whence)
{
	loff_t ret;

	inode_lock(file->f_inode);
	ret = generic_file_llseek(file, offset, whence);
	inode_unlock(file->f_inode);
	return ret;
}
EXPORT_SYMBOL(default_llseek);

loff_t no_llseek(struct file *file, loff_t offset, int whence)
{
	return -ESPIPE;
}

loff_t noop_llseek(struct file *file, loff_t offset, int whence)
{
	return file->f_pos;
}
EXPORT_SYMBOL(noop_llseek);

static __always_inline loff_t llseek(struct file *file, loff_t offset, int whence)
{
	if (!(file->f_mode & FMODE_LSEEK))
		return host_result(-ESPIPE);
	return host_result(file->f_op->llseek(file, offset, whence));
}

noinline loff_t vfs_llseek(struct file *file, loff_t offset, int whence)
{
	return llseek(file, offset, whence);
}
EXPORT_SYMBOL(vfs_llseek);

// The last value of whence, SEEK_HOLE.
#define SEEK_MAX 4

static __noipa loff_t ksys_lseek(unsigned int fd, loff_t offset, unsigned int whence)
{
	struct fd f = fdget_pos(fd);
	loff_t ret;

	if (!f.file)
		return -EBADF;
	ret = whence > SEEK_MAX ? -EINVAL : llseek(f.file, offset, whence);
	fdput_pos(f);
	return ret;
}

SYSCALL_DEFINE3(lseek, unsigned int, fd, loff_t, offset, unsigned int, whence)
{
	return ksys_lseek(fd, offset, whence);
}

// rw_verify_area checks that count bytes at *ppos may be read or written.
noinline int rw_verify_area(int read_write, struct file *file, const loff_t *ppos, size_t count)
{
	if (unlikely((ssize_t)count < 0))
		return -EINVAL;
	if (ppos) {
		loff_t pos = *ppos;

		if (unlikely(pos < 0))
			return -EINVAL;
		if (unlikely(pos + (loff_t)count < 0))
			return -EOVERFLOW;
	}
	return security_file_permission(file, read_write == READ ? MAY_READ : MAY_WRITE);
}

static void init_sync_kiocb(struct kiocb *kiocb, struct file *filp, const loff_t *ppos)
{
	*kiocb = (struct kiocb){ .ki_filp = filp, .ki_pos = ppos ? *ppos : 0 };
}

static __noipa ssize_t new_sync_read(struct file *filp, char __user *buf, size_t len, loff_t *ppos)
{
	struct kiocb kiocb;
	struct iov_iter iter;
	ssize_t ret;

	init_sync_kiocb(&kiocb, filp, ppos);
	iov_iter_ubuf(&iter, READ, buf, len);
	ret = filp->f_op->read_iter(&kiocb, &iter);
	if (ppos)
		*ppos = kiocb.ki_pos;
	return ret;
}

static __noipa ssize_t new_sync_write(struct file *filp, const char __user *buf, size_t len, loff_t *ppos)
{
	struct kiocb kiocb;
	struct iov_iter iter;
	ssize_t ret;

	init_sync_kiocb(&kiocb, filp, ppos);
	iov_iter_ubuf(&iter, WRITE, (void __user *)buf, len);
	ret = filp->f_op->write_iter(&kiocb, &iter);
	if (ret > 0 && ppos)
		*ppos = kiocb.ki_pos;
	return ret;
}

// vfs_read returns the number of bytes read, 0 at the end, -EBADF if the file is not
// open for reading, -EINVAL if it cannot be read, -EFAULT for a bad buffer.
ssize_t vfs_read(struct file *file, char __user *buf, size_t count, loff_t *pos)
{
	ssize_t ret;

	if (!(file->f_mode & FMODE_READ))
		return -EBADF;
	if (!(file->f_mode & FMODE_CAN_READ))
		return -EINVAL;
	if (unlikely(!access_ok(buf, count)))
		return -EFAULT;
	ret = rw_verify_area(READ, file, pos, count);
	if (ret)
		return ret;
	if (count > MAX_RW_COUNT)
		count = MAX_RW_COUNT;
	if (file->f_op->read)
		ret = file->f_op->read(file, buf, count, pos);
	else
		ret = new_sync_read(file, buf, count, pos);
	if (ret > 0)
		current->ioac.rchar += ret;
	current->ioac.syscr++;
	return ret;
}

ssize_t vfs_write(struct file *file, const char __user *buf, size_t count, loff_t *pos)
{
	ssize_t ret;

	if (!(file->f_mode & FMODE_WRITE))
		return -EBADF;
	if (!(file->f_mode & FMODE_CAN_WRITE))
		return -EINVAL;
	if (unlikely(!access_ok(buf, count)))
		return -EFAULT;
	ret = rw_verify_area(WRITE, file, pos, count);
	if (ret)
		return ret;
	if (count > MAX_RW_COUNT)
		count = MAX_RW_COUNT;
	cond_resched();
	if (file->f_op->write)
		ret = file->f_op->write(file, buf, count, pos);
	else
		ret = new_sync_write(file, buf, count, pos);
	if (ret > 0)
		current->ioac.wchar += ret;
	current->ioac.syscw++;
	return ret;
}

// kernel_read reads into kernel memory, from files that have a read_iter.
ssize_t kernel_read(struct file *file, void *buf, size_t count, loff_t *pos)
{
	struct kvec iov = { buf, min_t(size_t, count, MAX_RW_COUNT) };
	struct kiocb kiocb;
	struct iov_iter iter;
	ssize_t ret;

	if (!(file->f_mode & FMODE_CAN_READ) || !file->f_op->read_iter)
		return -EINVAL;
	ret = rw_verify_area(READ, file, pos, count);
	if (ret)
		return ret;
	init_sync_kiocb(&kiocb, file, pos);
	iov_iter_kvec(&iter, READ, &iov, 1, iov.iov_len);
	ret = file->f_op->read_iter(&kiocb, &iter);
	if (ret > 0 && pos)
		*pos = kiocb.ki_pos;
	return ret;
}
EXPORT_SYMBOL(kernel_read);

ssize_t kernel_write(struct file *file, const void *buf, size_t count, loff_t *pos)
{
	struct kvec iov = { (void *)buf, min_t(size_t, count, MAX_RW_COUNT) };
	struct kiocb kiocb;
	struct iov_iter iter;
	ssize_t ret;

	if (!(file->f_mode & FMODE_CAN_WRITE) || !file->f_op->write_iter)
		return -EINVAL;
	ret = rw_verify_area(WRITE, file, pos, count);
	if (ret)
		return ret;
	init_sync_kiocb(&kiocb, file, pos);
	iov_iter_kvec(&iter, WRITE, &iov, 1, iov.iov_len);
	ret = file->f_op->write_iter(&kiocb, &iter);
	if (ret > 0 && pos)
		*pos = kiocb.ki_pos;
	return ret;
}
EXPORT_SYMBOL(kernel_write);

// Streams have no position.
static loff_t *file_ppos(struct file *file)
{
	return file->f_mode & FMODE_STREAM ? NULL : &file->f_pos;
}

ssize_t ksys_read(unsigned int fd, char __user *buf, size_t count)
{
	struct fd f = fdget_pos(fd);
	loff_t pos, *ppos;
	ssize_t ret;

	if (!f.file)
		return -EBADF;
	ppos = file_ppos(f.file);
	if (ppos) {
		pos = *ppos;
		ppos = &pos;
	}
	ret = vfs_read(f.file, buf, count, ppos);
	if (ret >= 0 && ppos)
		f.file->f_pos = pos;
	fdput_pos(f);
	return ret;
}

ssize_t ksys_write(unsigned int fd, const char __user *buf, size_t count)
{
	struct fd f = fdget_pos(fd);
	loff_t pos, *ppos;
	ssize_t ret;

	if (!f.file)
		return -EBADF;
	ppos = file_ppos(f.file);
	if (ppos) {
		pos = *ppos;
		ppos = &pos;
	}
	ret = vfs_write(f.file, buf, count, ppos);
	if (ret >= 0 && ppos)
		f.file->f_pos = pos;
	fdput_pos(f);
	return ret;
}

SYSCALL_DEFINE3(read, unsigned int, fd, char __user *, buf, size_t, count)
{
	return ksys_read(fd, buf, count);
}

SYSCALL_DEFINE3(write, unsigned int, fd, const char __user *, buf, size_t, count)
{
	return ksys_write(fd, buf, count);
}

SYSCALL_DEFINE4(pread64, unsigned int, fd, char __user *, buf, size_t, count, loff_t, pos)
{
	struct fd f;
	ssize_t ret = -EBADF;

	if (pos < 0)
		return -EINVAL;
	f = fdget(fd);
	if (f.file) {
		ret = f.file->f_mode & FMODE_PREAD ? vfs_read(f.file, buf, count, &pos) : -ESPIPE;
		fdput(f);
	}
	return ret;
}

SYSCALL_DEFINE4(pwrite64, unsigned int, fd, const char __user *, buf, size_t, count, loff_t, pos)
{
	struct fd f;
	ssize_t ret = -EBADF;

	if (pos < 0)
		return -EINVAL;
	f = fdget(fd);
	if (f.file) {
		ret = f.file->f_mode & FMODE_PWRITE ? vfs_write(f.file, buf, count, &pos) : -ESPIPE;
		fdput(f);
	}
	return ret;
}

// do_iter_readv_writev reads or writes all parts of iter by one operation of the file.
static __noipa ssize_t do_iter_readv_writev(struct file *filp, struct iov_iter *iter, loff_t *ppos, int type, rwf_t flags)
{
	struct kiocb kiocb;
	ssize_t ret;

	if (flags & ~RWF_SUPPORTED)
		return host_result(-EOPNOTSUPP);
	init_sync_kiocb(&kiocb, filp, ppos);
	ret = type == READ ? filp->f_op->read_iter(&kiocb, iter) : filp->f_op->write_iter(&kiocb, iter);
	if (ppos)
		*ppos = kiocb.ki_pos;
	return ret;
}

// loop_readv_writev is for files that can only read or write one piece of memory.
static ssize_t loop_readv_writev(struct file *filp, struct iov_iter *iter, loff_t *ppos, int type, rwf_t flags)
{
	ssize_t done = 0;

	if (flags & ~RWF_HIPRI)
		return host_result(-EOPNOTSUPP);
	while (iter->count) {
		const struct iovec *iov = iter->iov;
		size_t len = min(iov->iov_len - iter->iov_offset, iter->count);
		char __user *base = iov->iov_base + iter->iov_offset;
		ssize_t n = type == READ ? filp->f_op->read(filp, base, len, ppos) : filp->f_op->write(filp, base, len, ppos);

		if (n < 0 || host_mirrors())
			return done ? done : n;
		done += n;
		if ((size_t)n < len)
			break;
		iter->count -= n;
		iter->iov_offset = 0;
		iter->iov++;
	}
	return done;
}

// do_iter_read is vfs_read for the memory of iter.
static __noipa ssize_t do_iter_read(struct file *file, struct iov_iter *iter, loff_t *pos, rwf_t flags)
{
	ssize_t ret;

	if (!(file->f_mode & FMODE_READ))
		return -EBADF;
	if (!(file->f_mode & FMODE_CAN_READ))
		return -EINVAL;
	if (!iter->count)
		return 0;
	ret = rw_verify_area(READ, file, pos, iter->count);
	if (ret < 0)
		return ret;
	if (file->f_op->read_iter)
		return do_iter_readv_writev(file, iter, pos, READ, flags);
	return loop_readv_writev(file, iter, pos, READ, flags);
}

static __noipa ssize_t do_iter_write(struct file *file, struct iov_iter *iter, loff_t *pos, rwf_t flags)
{
	ssize_t ret;

	if (!(file->f_mode & FMODE_WRITE))
		return -EBADF;
	if (!(file->f_mode & FMODE_CAN_WRITE))
		return -EINVAL;
	if (!iter->count)
		return 0;
	ret = rw_verify_area(WRITE, file, pos, iter->count);
	if (ret < 0)
		return ret;
	if (file->f_op->write_iter)
		return do_iter_readv_writev(file, iter, pos, WRITE, flags);
	return loop_readv_writev(file, iter, pos, WRITE, flags);
}

noinline __noclone ssize_t vfs_readv(struct file *file, const struct iovec __user *vec, unsigned long vlen, loff_t *pos, rwf_t flags)
{
	struct iovec fast[UIO_FASTIOV], *iov = fast;
	struct iov_iter iter;
	ssize_t ret = import_iovec(READ, vec, vlen, ARRAY_SIZE(fast), &iov, &iter);

	if (ret < 0)
		return ret;
	ret = do_iter_read(file, &iter, pos, flags);
	kfree(iov);
	return ret;
}

static __noipa ssize_t vfs_writev(struct file *file, const struct iovec __user *vec, unsigned long vlen, loff_t *pos, rwf_t flags)
{
	struct iovec fast[UIO_FASTIOV], *iov = fast;
	struct iov_iter iter;
	ssize_t ret = import_iovec(WRITE, vec, vlen, ARRAY_SIZE(fast), &iov, &iter);

	if (ret < 0)
		return ret;
	ret = do_iter_write(file, &iter, pos, flags);
	kfree(iov);
	return ret;
}

// at_position does the work of do_readv and do_writev, which use the file's position.
static __always_inline ssize_t at_position(unsigned long fd, const struct iovec __user *vec, unsigned long vlen, rwf_t flags, int type)
{
	struct fd f = fdget_pos(fd);
	loff_t pos, *ppos;
	ssize_t ret;

	if (!f.file)
		return -EBADF;
	ppos = file_ppos(f.file);
	if (ppos) {
		pos = *ppos;
		ppos = &pos;
	}
	ret = type == READ ? vfs_readv(f.file, vec, vlen, ppos, flags) : vfs_writev(f.file, vec, vlen, ppos, flags);
	if (ret >= 0 && ppos)
		f.file->f_pos = pos;
	fdput_pos(f);
	if (type == READ) {
		if (ret > 0)
			current->ioac.rchar += ret;
		current->ioac.syscr++;
	} else {
		if (ret > 0)
			current->ioac.wchar += ret;
		current->ioac.syscw++;
	}
	return ret;
}

static __noipa ssize_t do_readv(unsigned long fd, const struct iovec __user *vec, unsigned long vlen, rwf_t flags)
{
	return at_position(fd, vec, vlen, flags, READ);
}

static __noipa ssize_t do_writev(unsigned long fd, const struct iovec __user *vec, unsigned long vlen, rwf_t flags)
{
	return at_position(fd, vec, vlen, flags, WRITE);
}

static __noipa ssize_t do_preadv(unsigned long fd, const struct iovec __user *vec, unsigned long vlen, loff_t pos, rwf_t flags)
{
	struct fd f;
	ssize_t ret = -EBADF;

	if (pos < 0)
		return -EINVAL;
	f = fdget(fd);
	if (f.file) {
		ret = f.file->f_mode & FMODE_PREAD ? vfs_readv(f.file, vec, vlen, &pos, flags) : -ESPIPE;
		fdput(f);
	}
	if (ret > 0)
		current->ioac.rchar += ret;
	current->ioac.syscr++;
	return ret;
}

static __noipa ssize_t do_pwritev(unsigned long fd, const struct iovec __user *vec, unsigned long vlen, loff_t pos, rwf_t flags)
{
	struct fd f;
	ssize_t ret = -EBADF;

	if (pos < 0)
		return -EINVAL;
	f = fdget(fd);
	if (f.file) {
		ret = f.file->f_mode & FMODE_PWRITE ? vfs_writev(f.file, vec, vlen, &pos, flags) : -ESPIPE;
		fdput(f);
	}
	if (ret > 0)
		current->ioac.wchar += ret;
	current->ioac.syscw++;
	return ret;
}

SYSCALL_DEFINE3(readv, unsigned long, fd, const struct iovec __user *, vec, unsigned long, vlen)
{
	return do_readv(fd, vec, vlen, 0);
}

SYSCALL_DEFINE3(writev, unsigned long, fd, const struct iovec __user *, vec, unsigned long, vlen)
{
	return do_writev(fd, vec, vlen, 0);
}

// pos_h is for machines with registers of 32 bits.
SYSCALL_DEFINE5(preadv, unsigned long, fd, const struct iovec __user *, vec, unsigned long, vlen, unsigned long, pos_l, unsigned long, pos_h)
{
	return do_preadv(fd, vec, vlen, pos_l, 0);
}

SYSCALL_DEFINE5(pwritev, unsigned long, fd, const struct iovec __user *, vec, unsigned long, vlen, unsigned long, pos_l, unsigned long, pos_h)
{
	return do_pwritev(fd, vec, vlen, pos_l, 0);
}

// The position -1 stands for the file's own.
SYSCALL_DEFINE6(preadv2, unsigned long, fd, const struct iovec __user *, vec, unsigned long, vlen, unsigned long, pos_l, unsigned long, pos_h, rwf_t, flags)
{
	return pos_l == -1UL ? do_readv(fd, vec, vlen, flags) : do_preadv(fd, vec, vlen, pos_l, flags);
}

SYSCALL_DEFINE6(pwritev2, unsigned long, fd, const struct iovec __user *, vec, unsigned long, vlen, unsigned long, pos_l, unsigned long, pos_h, rwf_t, flags)
{
	return pos_l == -1UL ? do_writev(fd, vec, vlen, flags) : do_pwritev(fd, vec, vlen, pos_l, flags);
}
