// Files of debugfs: calls go through a proxy that prevents the file's removal during
// the call.
#include <linux/debugfs.h>
#include <linux/hostfs.h>
#include <linux/kstrtox.h>
#include <linux/sprintf.h>
#include <linux/uaccess.h>
#include <linux/export.h>

// A debugfs_fsdata belongs to a file of the kernel's own.
struct debugfs_fsdata {
	const struct file_operations *real_fops;
	refcount_t active_users;
};

// debugfs_file_get returns -EIO if the file has been removed. The host's files have
// no such data: the host keeps them during a call.
noinline int debugfs_file_get(struct dentry *dentry)
{
	struct debugfs_fsdata *fsd = dentry->d_fsdata;

	if (d_unhashed(dentry) && fsd)
		return -EIO;
	if (fsd && !refcount_inc_not_zero(&fsd->active_users))
		return -EIO;
	return 0;
}
EXPORT_SYMBOL(debugfs_file_get);

noinline void debugfs_file_put(struct dentry *dentry)
{
	struct debugfs_fsdata *fsd = dentry->d_fsdata;

	if (fsd)
		refcount_dec_and_test(&fsd->active_users);
}
EXPORT_SYMBOL(debugfs_file_put);

static const struct file_operations *debugfs_real_fops(const struct file *filp)
{
	struct debugfs_fsdata *fsd = filp->f_path.dentry->d_fsdata;

	return fsd ? fsd->real_fops : filp->f_inode->i_private;
}

static __noipa int full_proxy_open(struct inode *inode, struct file *filp)
{
	struct dentry *dentry = filp->f_path.dentry;
	int r = debugfs_file_get(dentry);

	if (r)
		return r;
	if (debugfs_real_fops(filp)->open)
		r = debugfs_real_fops(filp)->open(inode, filp);
	debugfs_file_put(dentry);
	return r;
}

static __noipa int full_proxy_release(struct inode *inode, struct file *filp)
{
	const struct file_operations *real = debugfs_real_fops(filp);

	return real->release ? real->release(inode, filp) : 0;
}

static __noipa int full_proxy_flush(struct file *filp, fl_owner_t id)
{
	const struct file_operations *real = debugfs_real_fops(filp);

	return real->flush ? real->flush(filp, id) : 0;
}

static __noipa loff_t full_proxy_llseek(struct file *filp, loff_t offset, int whence)
{
	struct dentry *dentry = filp->f_path.dentry;
	loff_t r = debugfs_file_get(dentry);

	if (r)
		return r;
	r = debugfs_real_fops(filp)->llseek ? debugfs_real_fops(filp)->llseek(filp, offset, whence) : -ESPIPE;
	debugfs_file_put(dentry);
	return r;
}

static __noipa ssize_t full_proxy_read(struct file *filp, char __user *buf, size_t size, loff_t *ppos)
{
	struct dentry *dentry = filp->f_path.dentry;
	ssize_t r = debugfs_file_get(dentry);

	if (r)
		return r;
	r = debugfs_real_fops(filp)->read ? debugfs_real_fops(filp)->read(filp, buf, size, ppos) : -EINVAL;
	debugfs_file_put(dentry);
	return r;
}

static __noipa ssize_t full_proxy_write(struct file *filp, const char __user *buf, size_t size, loff_t *ppos)
{
	struct dentry *dentry = filp->f_path.dentry;
	ssize_t r = debugfs_file_get(dentry);

	if (r)
		return r;
	r = debugfs_real_fops(filp)->write ? debugfs_real_fops(filp)->write(filp, buf, size, ppos) : -EINVAL;
	debugfs_file_put(dentry);
	return r;
}

const struct file_operations debugfs_full_proxy_file_operations = {
	.open = full_proxy_open,
	.release = full_proxy_release,
	.flush = full_proxy_flush,
	.llseek = full_proxy_llseek,
	.read = full_proxy_read,
	.write = full_proxy_write,
};

static void debugfs_release_dentry(struct dentry *dentry)
{
	kfree(dentry->d_fsdata);
}

static const struct dentry_operations debugfs_dops = {
	.d_delete = always_delete_dentry,
	.d_release = debugfs_release_dentry,
};

static struct dentry *debugfs_parent(struct dentry *parent)
{
	return parent ? parent : debugfs_mount->mnt_root;
}

// debugfs_create_dir makes a directory below parent (NULL: the root), or returns -EEXIST and the like.
struct dentry *debugfs_create_dir(const char *name, struct dentry *parent)
{
	struct dentry *dentry;
	struct inode *inode;

	parent = debugfs_parent(parent);
	dentry = start_creating_in(name, parent);
	if (IS_ERR(dentry))
		return dentry;
	inode = hostfs_get_inode(dentry->d_sb, S_IFDIR | 0755);
	d_instantiate(dentry, inode);
	inc_nlink(parent->d_inode);
	return end_creating_in(dentry);
}
EXPORT_SYMBOL(debugfs_create_dir);

struct dentry *debugfs_create_file(const char *name, umode_t mode, struct dentry *parent, void *data, const struct file_operations *fops)
{
	struct debugfs_fsdata *fsd;
	struct dentry *dentry;
	struct inode *inode;

	dentry = start_creating_in(name, debugfs_parent(parent));
	if (IS_ERR(dentry))
		return dentry;
	fsd = kzalloc(sizeof(*fsd), GFP_KERNEL);
	inode = fsd ? hostfs_get_inode(dentry->d_sb, (mode & S_IALLUGO) | S_IFREG) : NULL;
	if (!inode) {
		kfree(fsd);
		end_creating_in(dentry);
		dput(dentry);
		return ERR_PTR(-ENOMEM);
	}
	fsd->real_fops = fops;
	refcount_set(&fsd->active_users, 1);
	inode->i_private = data;
	inode->i_fop = &debugfs_full_proxy_file_operations;
	dentry->d_fsdata = fsd;
	dentry->d_flags &= ~DCACHE_OP_REVALIDATE;
	d_set_d_op(dentry, &debugfs_dops);
	d_instantiate(dentry, inode);
	return end_creating_in(dentry);
}
EXPORT_SYMBOL(debugfs_create_file);

// debugfs_lookup returns a reference to a dentry made by debugfs_create_*, or NULL.
struct dentry *debugfs_lookup(const char *name, struct dentry *parent)
{
	struct qstr q = QSTR_INIT(name, strlen(name));
	struct dentry *d = d_hash_and_lookup(debugfs_parent(parent), &q);

	if (d && d_is_negative(d)) {
		dput(d);
		d = NULL;
	}
	return d;
}
EXPORT_SYMBOL(debugfs_lookup);

void debugfs_remove(struct dentry *dentry)
{
	if (!IS_ERR_OR_NULL(dentry))
		simple_recursive_removal(dentry, NULL);
}
EXPORT_SYMBOL(debugfs_remove);

static ssize_t read_text(char __user *buf, size_t count, loff_t *ppos, const char *text)
{
	return simple_read_from_buffer(buf, count, ppos, text, strlen(text));
}

noinline __noclone ssize_t debugfs_read_file_bool(struct file *file, char __user *user_buf, size_t count, loff_t *ppos)
{
	bool *value = file->f_inode->i_private;

	return read_text(user_buf, count, ppos, *value ? "Y\n" : "N\n");
}
EXPORT_SYMBOL(debugfs_read_file_bool);

noinline __noclone ssize_t debugfs_write_file_bool(struct file *file, const char __user *user_buf, size_t count, loff_t *ppos)
{
	bool *value = file->f_inode->i_private, parsed;
	int err = kstrtobool_from_user(user_buf, count, &parsed);

	if (err)
		return err == -EFAULT ? err : -EINVAL;
	*value = parsed;
	return count;
}
EXPORT_SYMBOL(debugfs_write_file_bool);

static const struct file_operations fops_bool = {
	.open = simple_open,
	.read = debugfs_read_file_bool,
	.write = debugfs_write_file_bool,
	.llseek = default_llseek,
};

void debugfs_create_bool(const char *name, umode_t mode, struct dentry *parent, bool *value)
{
	debugfs_create_file(name, mode, parent, value, &fops_bool);
}
EXPORT_SYMBOL(debugfs_create_bool);

static __noipa ssize_t debugfs_u64_get(struct file *file, char __user *user_buf, size_t count, loff_t *ppos)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu\n", *(u64 *)file->f_inode->i_private);
	return read_text(user_buf, count, ppos, text);
}

static __noipa ssize_t debugfs_u64_set(struct file *file, const char __user *user_buf, size_t count, loff_t *ppos)
{
	int err = kstrtoull_from_user(user_buf, count, 0, file->f_inode->i_private);

	return err ? err : (ssize_t)count;
}

static __noipa ssize_t debugfs_u32_get(struct file *file, char __user *user_buf, size_t count, loff_t *ppos)
{
	char text[24];

	snprintf(text, sizeof(text), "%u\n", *(u32 *)file->f_inode->i_private);
	return read_text(user_buf, count, ppos, text);
}

static __noipa ssize_t debugfs_u32_set(struct file *file, const char __user *user_buf, size_t count, loff_t *ppos)
{
	int err = kstrtouint_from_user(user_buf, count, 0, file->f_inode->i_private);

	return err ? err : (ssize_t)count;
}

static const struct file_operations fops_u64 = {
	.open = simple_open, .read = debugfs_u64_get, .write = debugfs_u64_set, .llseek = default_llseek,
};

static const struct file_operations fops_u32 = {
	.open = simple_open, .read = debugfs_u32_get, .write = debugfs_u32_set, .llseek = default_llseek,
};

void debugfs_create_u64(const char *name, umode_t mode, struct dentry *parent, u64 *value)
{
	debugfs_create_file(name, mode, parent, value, &fops_u64);
}
EXPORT_SYMBOL(debugfs_create_u64);

void debugfs_create_u32(const char *name, umode_t mode, struct dentry *parent, u32 *value)
{
	debugfs_create_file(name, mode, parent, value, &fops_u32);
}
EXPORT_SYMBOL(debugfs_create_u32);
