// A filesystem in memory, mounted on /ram: names are dentries that stay in the
// cache, content is an array of pages.
#include <linux/host.h>
#include <linux/hostfs.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/uaccess.h>
#include <linux/seq_file.h>

#define RAMFS_MAX_PAGES 4096 // a file's

static const struct inode_operations ramfs_dir_inode_operations;
static const struct file_operations ramfs_file_operations;

noinline __noclone struct inode *ramfs_get_inode(struct super_block *sb, const struct inode *dir, umode_t mode, dev_t dev)
{
	struct inode *inode = new_inode(sb);

	if (!inode)
		return NULL;
	inode->i_ino = get_next_ino();
	inode_init_owner(IDMAP_ARG(init_idmap) inode, dir, mode);
	inode->i_atime = inode->i_mtime = inode->i_ctime = current_time(inode);
	switch (mode & S_IFMT) {
	case S_IFREG:
		inode->i_fop = &ramfs_file_operations;
		break;
	case S_IFDIR:
		inode->i_op = &ramfs_dir_inode_operations;
		inode->i_fop = &simple_dir_operations;
		inc_nlink(inode);
		break;
	case S_IFLNK:
		inode->i_op = &simple_symlink_inode_operations;
		break;
	}
	return inode;
}

static __noipa int ramfs_mknod(IDMAP_PARAM struct inode *dir, struct dentry *dentry, umode_t mode, dev_t dev)
{
	struct inode *inode = ramfs_get_inode(dir->i_sb, dir, mode, dev);

	if (!inode)
		return -ENOSPC;
	d_instantiate(dentry, inode);
	dget(dentry); // the name keeps the dentry in the cache
	dir->i_mtime = dir->i_ctime = current_time(dir);
	return 0;
}

static int ramfs_create(IDMAP_PARAM struct inode *dir, struct dentry *dentry, umode_t mode, bool excl)
{
	return ramfs_mknod(IDMAP_ARG(idmap) dir, dentry, mode | S_IFREG, 0);
}

static int ramfs_mkdir(IDMAP_PARAM struct inode *dir, struct dentry *dentry, umode_t mode)
{
	int err = ramfs_mknod(IDMAP_ARG(idmap) dir, dentry, mode | S_IFDIR, 0);

	if (!err)
		inc_nlink(dir);
	return err;
}

static int ramfs_symlink(IDMAP_PARAM struct inode *dir, struct dentry *dentry, const char *symname)
{
	char *text = kstrdup(symname, GFP_KERNEL);
	int err = text ? ramfs_mknod(IDMAP_ARG(idmap) dir, dentry, S_IFLNK | S_IRWXUGO, 0) : -ENOMEM;

	if (err) {
		kfree(text);
		return err;
	}
	dentry->d_inode->i_link = text;
	dentry->d_inode->i_size = strlen(text);
	return 0;
}

static const struct inode_operations ramfs_dir_inode_operations = {
	.create = ramfs_create,
	.lookup = simple_lookup,
	.link = simple_link,
	.unlink = simple_unlink,
	.symlink = ramfs_symlink,
	.mkdir = ramfs_mkdir,
	.rmdir = simple_rmdir,
	.mknod = ramfs_mknod,
};

// grow makes the array of pages hold n.
static int grow(struct address_space *m, unsigned long n)
{
	struct page **pages;

	if (n <= m->nrpages)
		return 0;
	if (n > RAMFS_MAX_PAGES)
		return -EFBIG;
	pages = krealloc(m->pages, n * sizeof(*pages), GFP_KERNEL);
	if (!pages)
		return -ENOMEM;
	memset(pages + m->nrpages, 0, (n - m->nrpages) * sizeof(*pages));
	m->pages = pages;
	m->nrpages = n;
	return 0;
}

// grab_page returns a page of the file, which it allocates if necessary, or NULL.
static void *grab_page(struct address_space *m, unsigned long index)
{
	if (!m->pages[index])
		m->pages[index] = alloc_pages(GFP_KERNEL | __GFP_ZERO, 0);
	return m->pages[index] ? page_address(m->pages[index]) : NULL;
}

noinline __noclone ssize_t generic_file_read_iter(struct kiocb *iocb, struct iov_iter *iter)
{
	struct inode *inode = iocb->ki_filp->f_inode;
	struct address_space *m = inode->i_mapping;
	size_t done = 0;

	if (iocb->ki_filp->f_mapping->a_ops)
		return filemap_read(iocb, iter, 0);
	if (host_mirrors())
		return host_transfer(iocb);
	down_read(&inode->i_rwsem);
	while (iter->count && iocb->ki_pos < inode->i_size) {
		unsigned long index = iocb->ki_pos >> PAGE_SHIFT, off = offset_in_page(iocb->ki_pos);
		size_t want = min3((size_t)(PAGE_SIZE - off), iter->count, (size_t)(inode->i_size - iocb->ki_pos)), n;

		if (index < m->nrpages && m->pages[index])
			n = copy_to_iter(page_address(m->pages[index]) + off, want, iter);
		else
			n = iov_iter_zero(want, iter);
		iocb->ki_pos += n;
		done += n;
		if (n < want) {
			up_read(&inode->i_rwsem);
			return done ? (ssize_t)done : -EFAULT;
		}
	}
	up_read(&inode->i_rwsem);
	touch_atime(&iocb->ki_filp->f_path);
	return done;
}
EXPORT_SYMBOL(generic_file_read_iter);

// write_blocks is generic_perform_write for a disk.
static ssize_t write_blocks(struct kiocb *iocb, struct iov_iter *iter)
{
	struct address_space *m = iocb->ki_filp->f_mapping;
	ssize_t done = 0;

	while (iter->count) {
		unsigned long off = offset_in_page(iocb->ki_pos);
		size_t want = min((size_t)(PAGE_SIZE - off), iter->count), n;
		struct page *page;
		int ret = m->a_ops->write_begin(iocb->ki_filp, m, iocb->ki_pos, want, &page);

		if (ret)
			return done ? done : ret;
		n = copy_from_iter(page_address(page) + off, want, iter);
		ret = m->a_ops->write_end(iocb->ki_filp, m, iocb->ki_pos, want, n, page);
		iocb->ki_pos += ret;
		done += ret;
		if (ret < (int)want)
			return done ? done : -EFAULT;
	}
	return done;
}

noinline __noclone ssize_t generic_perform_write(struct kiocb *iocb, struct iov_iter *iter)
{
	struct inode *inode = iocb->ki_filp->f_inode;
	ssize_t done = 0;
	int err = 0;

	if (iocb->ki_filp->f_mapping->a_ops)
		return write_blocks(iocb, iter);

	while (iter->count) {
		unsigned long index = iocb->ki_pos >> PAGE_SHIFT, off = offset_in_page(iocb->ki_pos);
		size_t want = min((size_t)(PAGE_SIZE - off), iter->count), n;
		void *page;

		err = grow(inode->i_mapping, index + 1);
		page = err ? NULL : grab_page(inode->i_mapping, index);
		if (!page) {
			err = err ? err : -ENOSPC;
			break;
		}
		n = copy_from_iter(page + off, want, iter);
		iocb->ki_pos += n;
		done += n;
		if (iocb->ki_pos > inode->i_size)
			inode->i_size = iocb->ki_pos;
		if (n < want) {
			err = -EFAULT;
			break;
		}
	}
	inode->i_mtime = inode->i_ctime = current_time(inode);
	return done ? done : err;
}

noinline __noclone ssize_t generic_file_write_iter(struct kiocb *iocb, struct iov_iter *iter)
{
	struct file *file = iocb->ki_filp;
	ssize_t ret;

	if (host_mirrors())
		return host_transfer(iocb);
	inode_lock(file->f_inode);
	if (file->f_flags & O_APPEND)
		iocb->ki_pos = file->f_inode->i_size;
	ret = generic_perform_write(iocb, iter);
	inode_unlock(file->f_inode);
	return ret;
}
EXPORT_SYMBOL(generic_file_write_iter);

static void truncate_pages(struct inode *inode)
{
	struct address_space *m = inode->i_mapping;
	unsigned long i;

	for (i = 0; i < m->nrpages; i++) {
		if (m->pages[i])
			put_page(m->pages[i]);
	}
	kfree(m->pages);
	m->pages = NULL;
	m->nrpages = 0;
	inode->i_size = 0;
}

static int ramfs_open(struct inode *inode, struct file *file)
{
	if (file->f_flags & O_TRUNC) {
		inode_lock(inode);
		truncate_pages(inode);
		inode_unlock(inode);
	}
	return 0;
}

static const struct file_operations ramfs_file_operations = {
	.open = ramfs_open,
	.read_iter = generic_file_read_iter,
	.write_iter = generic_file_write_iter,
	.llseek = generic_file_llseek,
};

static void ramfs_evict_inode(struct inode *inode)
{
	if (S_ISREG(inode->i_mode))
		truncate_pages(inode);
	if (S_ISLNK(inode->i_mode))
		kfree(inode->i_link);
}

static const struct super_operations ramfs_ops = {
	.evict_inode = ramfs_evict_inode,
};

static int ramfs_fill_super(struct super_block *sb)
{
	sb->s_magic = 0x858458f6;
	sb->s_op = &ramfs_ops;
	sb->s_root = d_make_root(ramfs_get_inode(sb, NULL, S_IFDIR | 01777, 0));
	return sb->s_root ? 0 : -ENOMEM;
}

struct file_system_type ramfs_fs_type = { .name = "tmpfs", .fill_super = ramfs_fill_super };
