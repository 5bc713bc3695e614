// Common functions of filesystems in memory.
#include <linux/fs.h>
#include <linux/host.h>
#include <linux/hostfs.h>
#include <linux/uaccess.h>
#include <linux/kstrtox.h>

int always_delete_dentry(const struct dentry *dentry)
{
	return 1;
}

const struct dentry_operations simple_dentry_operations = {
	.d_delete = always_delete_dentry,
};

// simple_lookup: a name that is not in the cache does not exist.
struct dentry *simple_lookup(struct inode *dir, struct dentry *dentry, unsigned int flags)
{
	if (dentry->d_name.len > NAME_MAX)
		return ERR_PTR(-ENAMETOOLONG);
	if (!dentry->d_sb->s_d_op)
		d_set_d_op(dentry, &simple_dentry_operations);
	d_add(dentry, NULL);
	return NULL;
}

// An open directory has a cursor, an unnamed child after which the next listing
// continues.
int dcache_dir_open(struct inode *inode, struct file *file)
{
	static const struct qstr dot = QSTR_INIT(".", 1);
	struct dentry *cursor = d_alloc(file->f_path.dentry, &dot);

	if (!cursor)
		return -ENOMEM;
	file->private_data = cursor;
	return 0;
}

int dcache_dir_close(struct inode *inode, struct file *file)
{
	dput(file->private_data);
	return 0;
}

// scan_positives returns the count-th positive child after p, with a reference, and
// puts last.
static __noipa struct dentry *scan_positives(struct dentry *dir, struct list_head *p, loff_t count, struct dentry *last)
{
	struct dentry *found = NULL;

	spin_lock(&dir->d_lock);
	for (p = p->next; p != &dir->d_subdirs; p = p->next) {
		struct dentry *d = list_entry(p, struct dentry, d_child);

		if (d_is_negative(d) || d_unhashed(d))
			continue;
		spin_lock(&d->d_lock);
		if (d->d_inode && !d_unhashed(d) && !--count) {
			d->d_lockref.count++;
			found = d;
		}
		spin_unlock(&d->d_lock);
		if (found)
			break;
	}
	spin_unlock(&dir->d_lock);
	dput(last);
	return found;
}

// put_cursor moves the cursor after d, or to the end if d is NULL.
static void put_cursor(struct dentry *dir, struct dentry *cursor, struct dentry *d)
{
	spin_lock(&dir->d_lock);
	if (d)
		list_move(&cursor->d_child, &d->d_child);
	else
		list_move_tail(&cursor->d_child, &dir->d_subdirs);
	spin_unlock(&dir->d_lock);
}

loff_t dcache_dir_lseek(struct file *file, loff_t offset, int whence)
{
	struct dentry *dir = file->f_path.dentry, *cursor = file->private_data, *d;

	if (host_mirrors())
		return host_made();
	if (whence == SEEK_CUR)
		offset += file->f_pos;
	else if (whence != SEEK_SET)
		return -EINVAL;
	if (offset < 0)
		return -EINVAL;
	if (offset == file->f_pos)
		return offset;
	down_read(&dir->d_inode->i_rwsem);
	file->f_pos = offset;
	if (offset > 2) {
		d = scan_positives(dir, &dir->d_subdirs, offset - 2, NULL);
		put_cursor(dir, cursor, d);
		dput(d);
	}
	up_read(&dir->d_inode->i_rwsem);
	return offset;
}

// emit_again gives ctx the names that the host's kernel has written to the caller's
// buffer.
static int emit_again(struct dir_context *ctx, char __user *buf)
{
	long at = 0, end = host_made();
	struct linux_dirent64 head;
	char name[NAME_MAX + 1];
	long len;

	while (at + (long)sizeof(head) <= end) {
		if (copy_from_user(&head, buf + at, sizeof(head)) || head.d_reclen < sizeof(head))
			break;
		len = strncpy_from_user(name, buf + at + offsetof(struct linux_dirent64, d_name), sizeof(name));
		if (len <= 0 || len >= (long)sizeof(name) || !dir_emit(ctx, name, len, head.d_ino, head.d_type))
			break;
		ctx->pos = head.d_off;
		at += head.d_reclen;
	}
	return end < 0 ? end : 0;
}

// dcache_readdir lists the children that the cache holds.
int dcache_readdir(struct file *file, struct dir_context *ctx)
{
	struct dentry *dir = file->f_path.dentry, *cursor = file->private_data, *d = NULL;
	struct list_head *p;

	if (host_mirrors())
		return emit_again(ctx, (char __user *)current->host_call->args[1]);
	if (!dir_emit_dots(file, ctx))
		return 0;
	p = ctx->pos == 2 ? &dir->d_subdirs : &cursor->d_child;
	while ((d = scan_positives(dir, p, 1, d))) {
		struct inode *inode = d->d_inode;

		if (!dir_emit(ctx, (const char *)d->d_name.name, d->d_name.len, inode->i_ino, S_DT(inode->i_mode)))
			break;
		ctx->pos++;
		p = &d->d_child;
	}
	// The cursor goes before the first entry that was not returned.
	spin_lock(&dir->d_lock);
	if (d)
		list_move_tail(&cursor->d_child, &d->d_child);
	else
		list_move_tail(&cursor->d_child, &dir->d_subdirs);
	spin_unlock(&dir->d_lock);
	dput(d);
	return 0;
}

ssize_t generic_read_dir(struct file *filp, char __user *buf, size_t size, loff_t *ppos)
{
	return -EISDIR;
}

const struct file_operations simple_dir_operations = {
	.open = dcache_dir_open,
	.release = dcache_dir_close,
	.llseek = dcache_dir_lseek,
	.read = generic_read_dir,
	.iterate_shared = dcache_readdir,
};

const struct inode_operations simple_dir_inode_operations = {
	.lookup = simple_lookup,
};

const char *simple_get_link(struct dentry *dentry, struct inode *inode, struct delayed_call *done)
{
	return inode->i_link;
}

const struct inode_operations simple_symlink_inode_operations = {
	.get_link = simple_get_link,
};

int simple_open(struct inode *inode, struct file *file)
{
	if (inode->i_private)
		file->private_data = inode->i_private;
	return 0;
}
EXPORT_SYMBOL(simple_open);

int simple_setattr(IDMAP_PARAM struct dentry *dentry, struct iattr *attr)
{
	struct inode *inode = dentry->d_inode;
	int err = setattr_prepare(IDMAP_ARG(idmap) dentry, attr);

	if (err)
		return err;
	if (attr->ia_valid & ATTR_SIZE)
		inode->i_size = attr->ia_size;
	setattr_copy(IDMAP_ARG(idmap) inode, attr);
	return 0;
}

int noop_fsync(struct file *file, loff_t start, loff_t end, int datasync)
{
	return 0;
}

int simple_getattr(IDMAP_PARAM const struct path *path, struct kstat *stat, u32 request_mask, unsigned int query_flags)
{
	generic_fillattr(IDMAP_ARG(idmap) REQUEST_ARG(request_mask) path->dentry->d_inode, stat);
	return 0;
}

int simple_link(struct dentry *old_dentry, struct inode *dir, struct dentry *dentry)
{
	struct inode *inode = old_dentry->d_inode;

	inode->i_ctime = dir->i_ctime = dir->i_mtime = current_time(inode);
	inc_nlink(inode);
	ihold(inode);
	dget(dentry);
	d_instantiate(dentry, inode);
	return 0;
}

// simple_empty reports whether a directory has no children that are files.
noinline int simple_empty(struct dentry *dentry)
{
	struct dentry *child;
	int empty = 1;

	spin_lock(&dentry->d_lock);
	list_for_each_entry(child, &dentry->d_subdirs, d_child) {
		if (d_is_positive(child) && !d_unhashed(child)) {
			empty = 0;
			break;
		}
	}
	spin_unlock(&dentry->d_lock);
	return empty;
}

int simple_unlink(struct inode *dir, struct dentry *dentry)
{
	struct inode *inode = dentry->d_inode;

	inode->i_ctime = dir->i_ctime = dir->i_mtime = current_time(inode);
	drop_nlink(inode);
	dput(dentry);
	return 0;
}

int simple_rmdir(struct inode *dir, struct dentry *dentry)
{
	if (!simple_empty(dentry))
		return -ENOTEMPTY;
	drop_nlink(dentry->d_inode);
	simple_unlink(dir, dentry);
	drop_nlink(dir);
	return 0;
}

// simple_read_from_buffer copies the bytes at *ppos, of available ones, to user
// space.
ssize_t simple_read_from_buffer(void __user *to, size_t count, loff_t *ppos, const void *from, size_t available)
{
	loff_t pos = *ppos;
	size_t left;

	if (pos < 0)
		return -EINVAL;
	if ((size_t)pos >= available || !count)
		return 0;
	count = min(count, (size_t)(available - pos));
	left = copy_to_user(to, (const char *)from + pos, count);
	if (left == count)
		return -EFAULT;
	count -= left;
	*ppos = pos + count;
	return count;
}
EXPORT_SYMBOL(simple_read_from_buffer);

ssize_t simple_write_to_buffer(void *to, size_t available, loff_t *ppos, const void __user *from, size_t count)
{
	loff_t pos = *ppos;
	size_t left;

	if (pos < 0)
		return -EINVAL;
	if ((size_t)pos >= available || !count)
		return 0;
	count = min(count, (size_t)(available - pos));
	left = copy_from_user((char *)to + pos, from, count);
	if (left == count)
		return -EFAULT;
	count -= left;
	*ppos = pos + count;
	return count;
}
EXPORT_SYMBOL(simple_write_to_buffer);

ssize_t memory_read_from_buffer(void *to, size_t count, loff_t *ppos, const void *from, size_t available)
{
	loff_t pos = *ppos;

	if (pos < 0)
		return -EINVAL;
	if ((size_t)pos >= available)
		return 0;
	count = min(count, (size_t)(available - pos));
	memcpy(to, (const char *)from + pos, count);
	*ppos = pos + count;
	return count;
}
EXPORT_SYMBOL(memory_read_from_buffer);

// simple_attr is an open file that shows one number.
struct simple_attr {
	int (*get)(void *, u64 *);
	int (*set)(void *, u64);
	char get_buf[64], set_buf[64];
	void *data;
	const char *fmt;
	struct mutex mutex;
};

int simple_attr_open(struct inode *inode, struct file *file, int (*get)(void *, u64 *), int (*set)(void *, u64), const char *fmt)
{
	struct simple_attr *attr = kzalloc(sizeof(*attr), GFP_KERNEL);

	if (!attr)
		return -ENOMEM;
	attr->get = get;
	attr->set = set;
	attr->data = inode->i_private;
	attr->fmt = fmt;
	mutex_init(&attr->mutex);
	file->private_data = attr;
	return nonseekable_open(inode, file);
}
EXPORT_SYMBOL_GPL(simple_attr_open);

int simple_attr_release(struct inode *inode, struct file *file)
{
	kfree(file->private_data);
	return 0;
}
EXPORT_SYMBOL_GPL(simple_attr_release);

// simple_attr_read generates the text when it is read from its beginning.
ssize_t simple_attr_read(struct file *file, char __user *buf, size_t len, loff_t *ppos)
{
	struct simple_attr *attr = file->private_data;
	ssize_t ret;
	u64 val;

	if (!attr->get)
		return -EACCES;
	ret = mutex_lock_interruptible(&attr->mutex);
	if (ret)
		return ret;
	if (!*ppos || !attr->get_buf[0]) {
		ret = attr->get(attr->data, &val);
		if (ret)
			goto out;
		scnprintf(attr->get_buf, sizeof(attr->get_buf), attr->fmt, (unsigned long long)val);
	}
	ret = simple_read_from_buffer(buf, len, ppos, attr->get_buf, strlen(attr->get_buf));
out:
	mutex_unlock(&attr->mutex);
	return ret;
}
EXPORT_SYMBOL_GPL(simple_attr_read);

static ssize_t write_attr(struct file *file, const char __user *buf, size_t len, bool is_signed)
{
	struct simple_attr *attr = file->private_data;
	size_t size = min(len, sizeof(attr->set_buf) - 1);
	unsigned long long val;
	ssize_t ret;

	if (!attr->set)
		return -EACCES;
	ret = mutex_lock_interruptible(&attr->mutex);
	if (ret)
		return ret;
	ret = -EFAULT;
	if (copy_from_user(attr->set_buf, buf, size))
		goto out;
	attr->set_buf[size] = 0;
	ret = is_signed ? kstrtoll(attr->set_buf, 0, (long long *)&val) : kstrtoull(attr->set_buf, 0, &val);
	if (!ret)
		ret = attr->set(attr->data, val);
	if (!ret)
		ret = len;
out:
	mutex_unlock(&attr->mutex);
	return ret;
}

ssize_t simple_attr_write(struct file *file, const char __user *buf, size_t len, loff_t *ppos)
{
	return write_attr(file, buf, len, false);
}
EXPORT_SYMBOL_GPL(simple_attr_write);

ssize_t simple_attr_write_signed(struct file *file, const char __user *buf, size_t len, loff_t *ppos)
{
	return write_attr(file, buf, len, true);
}
EXPORT_SYMBOL_GPL(simple_attr_write_signed);

static DEFINE_SPINLOCK(pin_fs_lock);

// simple_pin_fs mounts a filesystem for the kernel's own use with the first
// pin, and counts pins.
int simple_pin_fs(struct file_system_type *type, struct vfsmount **mount, int *count)
{
	struct vfsmount *mnt = NULL;

	spin_lock(&pin_fs_lock);
	if (!*mount) {
		spin_unlock(&pin_fs_lock);
		mnt = vfs_kern_mount(type);
		if (IS_ERR(mnt))
			return PTR_ERR(mnt);
		spin_lock(&pin_fs_lock);
		if (!*mount)
			*mount = mnt;
	}
	mntget(*mount);
	++*count;
	spin_unlock(&pin_fs_lock);
	mntput(mnt);
	return 0;
}

void simple_release_fs(struct vfsmount **mount, int *count)
{
	struct vfsmount *mnt;

	spin_lock(&pin_fs_lock);
	mnt = *mount;
	if (!--*count)
		*mount = NULL;
	spin_unlock(&pin_fs_lock);
	mntput(mnt);
}

// start_creating_in locks parent and returns a negative dentry for name, or an
// error (-EEXIST) and no lock.
struct dentry *start_creating_in(const char *name, struct dentry *parent)
{
	struct dentry *dentry;

	inode_lock(parent->d_inode);
	dentry = lookup_one_len(name, parent, strlen(name));
	if (!IS_ERR(dentry) && dentry->d_inode) {
		dput(dentry);
		dentry = ERR_PTR(-EEXIST);
	}
	if (IS_ERR(dentry))
		inode_unlock(parent->d_inode);
	return dentry;
}

// end_creating_in unlocks the parent. The reference of start_creating_in keeps
// the new dentry in the cache.
struct dentry *end_creating_in(struct dentry *dentry)
{
	inode_unlock(dentry->d_parent->d_inode);
	return dentry;
}

// any_child returns a positive child with a reference, or NULL.
static struct dentry *any_child(struct dentry *dir)
{
	return scan_positives(dir, &dir->d_subdirs, 1, NULL);
}

// simple_recursive_removal removes dentry and everything below it, deepest first, and
// calls callback before each removal. It drops the references that keep dentries in
// the cache.
void simple_recursive_removal(struct dentry *dentry, void (*callback)(struct dentry *))
{
	struct inode *dir = dentry->d_parent->d_inode, *inode = dentry->d_inode;
	struct dentry *child;

	while (d_is_dir(dentry) && (child = any_child(dentry))) {
		simple_recursive_removal(child, callback);
		dput(child);
	}
	inode_lock(dir);
	if (dentry->d_flags & DCACHE_FOUND) {
		d_drop(dentry);
	} else if (d_is_positive(dentry) && !d_unhashed(dentry)) {
		if (callback)
			callback(dentry);
		dir->i_ctime = dir->i_mtime = current_time(dir);
		if (d_is_dir(dentry)) {
			drop_nlink(inode);
			drop_nlink(dir);
		}
		drop_nlink(inode);
		d_drop(dentry);
		dput(dentry);
	}
	inode_unlock(dir);
}

// generic_file_open refuses files of 2 GB and more to programs that have not asked for them.
int generic_file_open(struct inode *inode, struct file *filp)
{
	if (!(filp->f_flags & O_LARGEFILE) && inode->i_size > 0x7fffffff)
		return -EOVERFLOW;
	return 0;
}
EXPORT_SYMBOL(generic_file_open);
