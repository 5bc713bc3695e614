// Reading, writing and seeking.
#include <linux/fs.h>
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

noinline loff_t vfs_llseek(struct file *file, loff_t offset, int whence)
{
	if (!(file->f_mode & FMODE_LSEEK))
		return -ESPIPE;
	return file->f_op->llseek(file, offset, whence);
}
EXPORT_SYMBOL(vfs_llseek);

SYSCALL_DEFINE3(lseek, unsigned int, fd, loff_t, offset, unsigned int, whence)
{
	struct fd f = fdget_pos(fd);
	loff_t ret;

	if (!f.file)
		return -EBADF;
	ret = whence > SEEK_END ? -EINVAL : vfs_llseek(f.file, offset, whence);
	fdput_pos(f);
	return ret;
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
