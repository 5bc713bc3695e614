// Files of debugfs: calls go through a proxy that prevents the file's removal during
// the call.
#include <linux/debugfs.h>
#include <linux/hostfs.h>
#include <linux/poll.h>
#include <linux/completion.h>
#include <linux/seq_file.h>
#include <linux/mm.h>
#include <linux/kstrtox.h>
#include <linux/sprintf.h>
#include <linux/uaccess.h>
#include <linux/export.h>

// A debugfs_fsdata belongs to a file of the kernel's own.
struct debugfs_fsdata {
	const struct file_operations *real_fops;
	refcount_t active_users; // 1, and one for each call
	struct completion drained;
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

	if (fsd && refcount_dec_and_test(&fsd->active_users))
		complete_all(&fsd->drained);
}
EXPORT_SYMBOL(debugfs_file_put);

static noinline const struct file_operations *debugfs_real_fops(const struct file *filp)
{
	struct debugfs_fsdata *fsd = filp->f_path.dentry->d_fsdata;

	return fsd ? fsd->real_fops : filp->f_inode->i_private;
}

static __noipa loff_t full_proxy_llseek(struct file *filp, loff_t offset, int whence);
static __noipa ssize_t full_proxy_read(struct file *filp, char __user *buf, size_t size, loff_t *ppos);
static __noipa ssize_t full_proxy_write(struct file *filp, const char __user *buf, size_t size, loff_t *ppos);
static __noipa unsigned int full_proxy_poll(struct file *filp, struct poll_table_struct *wait);
static __noipa long full_proxy_unlocked_ioctl(struct file *filp, unsigned int cmd, unsigned long arg);
static __noipa int full_proxy_release(struct inode *inode, struct file *filp);

// take_module returns the operations with a reference to their module, or -ENXIO.
static int take_module(const struct file_operations *real)
{
	if (fops_get(real))
		return 0;
	WARN(!real->owner || real->owner->state != MODULE_STATE_GOING, "debugfs file owner did not clean up at exit\n");
	return -ENXIO;
}

// make_proxy returns operations that protect those that real has.
static struct file_operations *make_proxy(const struct file_operations *real)
{
	struct file_operations *proxy = kzalloc(sizeof(*proxy), GFP_KERNEL);

	if (!proxy)
		return NULL;
	proxy->release = full_proxy_release;
	if (real->llseek)
		proxy->llseek = full_proxy_llseek;
	if (real->read)
		proxy->read = full_proxy_read;
	if (real->write)
		proxy->write = full_proxy_write;
	if (real->poll)
		proxy->poll = full_proxy_poll;
	if (real->unlocked_ioctl)
		proxy->unlocked_ioctl = full_proxy_unlocked_ioctl;
	return proxy;
}

// drop_proxy gives up what open_own has taken.
static void drop_proxy(struct inode *inode, struct file *filp, const struct file_operations *real)
{
	const struct file_operations *proxy = filp->f_op;

	replace_fops(filp, inode->i_fop);
	kfree(proxy);
	fops_put(real);
}

// open_own opens a file of the kernel's own.
static int open_own(struct inode *inode, struct file *filp, const struct file_operations *real)
{
	int r = take_module(real);
	struct file_operations *proxy;

	if (r)
		return r;
	proxy = make_proxy(real);
	if (!proxy) {
		fops_put(real);
		return -ENOMEM;
	}
	replace_fops(filp, proxy);
	r = real->open ? real->open(inode, filp) : 0;
	if (r)
		drop_proxy(inode, filp, real);
	else if (filp->f_op != proxy)
		WARN(1, "debugfs file owner replaced proxy fops\n");
	return r;
}

static __noipa int full_proxy_open(struct inode *inode, struct file *filp)
{
	struct dentry *dentry = filp->f_path.dentry;
	const struct file_operations *real = debugfs_real_fops(filp);
	int r = debugfs_file_get(dentry);

	if (r)
		return r == -EIO ? -ENOENT : r;
	if (dentry->d_fsdata)
		r = open_own(inode, filp, real);
	else if (real->open)
		r = real->open(inode, filp);
	debugfs_file_put(dentry);
	return r;
}

// The operations of files whose own protect themselves.
static __noipa int open_proxy_open(struct inode *inode, struct file *filp)
{
	struct dentry *dentry = filp->f_path.dentry;
	const struct file_operations *real = debugfs_real_fops(filp);
	int r = debugfs_file_get(dentry);

	if (r)
		return r == -EIO ? -ENOENT : r;
	r = take_module(real);
	if (!r) {
		replace_fops(filp, real);
		r = real->open ? real->open(inode, filp) : 0;
	}
	debugfs_file_put(dentry);
	return r;
}

static const struct file_operations debugfs_open_proxy_file_operations = {
	.open = open_proxy_open,
};

static __noipa int full_proxy_release(struct inode *inode, struct file *filp)
{
	const struct file_operations *real = debugfs_real_fops(filp);
	int r = real->release ? real->release(inode, filp) : 0;

	if (filp->f_path.dentry->d_fsdata)
		drop_proxy(inode, filp, real);
	return r;
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

static __noipa unsigned int full_proxy_poll(struct file *filp, struct poll_table_struct *wait)
{
	struct dentry *dentry = filp->f_path.dentry;
	unsigned int r;

	if (debugfs_file_get(dentry))
		return EPOLLHUP;
	r = debugfs_real_fops(filp)->poll(filp, wait);
	debugfs_file_put(dentry);
	return r;
}

static __noipa long full_proxy_unlocked_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	struct dentry *dentry = filp->f_path.dentry;
	long r = debugfs_file_get(dentry);

	if (r)
		return r;
	r = debugfs_real_fops(filp)->unlocked_ioctl(filp, cmd, arg);
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

// present says that a directory has the name already.
static void present(const char *name, const struct dentry *parent, bool dir)
{
	const char *in = (const char *)parent->d_name.name;

	if (dir)
		pr_err("debugfs: Directory '%s' with parent '%s' already present!\n", name, in);
	else
		pr_err("debugfs: File '%s' in directory '%s' already present!\n", name, in);
}

static struct dentry *made(struct dentry *dentry, const char *name, const struct dentry *parent, bool dir)
{
	if (dentry == ERR_PTR(-EEXIST))
		present(name, parent, dir);
	return dentry;
}

// debugfs_create_dir makes a directory below parent (NULL: the root), or returns -EEXIST and the like.
struct dentry *debugfs_create_dir(const char *name, struct dentry *parent)
{
	if (IS_ERR(parent))
		return parent;
	parent = debugfs_parent(parent);
	return made(hostfs_make_dir(parent, name, 0755), name, parent, true);
}
EXPORT_SYMBOL(debugfs_create_dir);

static struct dentry *create_file(const char *name, umode_t mode, struct dentry *parent, void *data,
				  const struct file_operations *proxy, const struct file_operations *fops)
{
	struct debugfs_fsdata *fsd;
	struct dentry *dentry;

	if (IS_ERR(parent))
		return parent;
	parent = debugfs_parent(parent);
	fsd = kzalloc(sizeof(*fsd), GFP_KERNEL);
	if (!fsd)
		return ERR_PTR(-ENOMEM);
	fsd->real_fops = fops;
	refcount_set(&fsd->active_users, 1);
	init_completion(&fsd->drained);
	dentry = hostfs_make_file(parent, name, (mode & S_IALLUGO) | S_IFREG, proxy, data, 0, fsd, &debugfs_dops);
	if (IS_ERR(dentry))
		kfree(fsd);
	return made(dentry, name, parent, false);
}

static const struct file_operations no_fops;

noinline struct dentry *debugfs_create_file(const char *name, umode_t mode, struct dentry *parent, void *data, const struct file_operations *fops)
{
	return create_file(name, mode, parent, data, &debugfs_full_proxy_file_operations, fops ? fops : &no_fops);
}
EXPORT_SYMBOL(debugfs_create_file);

noinline struct dentry *debugfs_create_file_unsafe(const char *name, umode_t mode, struct dentry *parent, void *data, const struct file_operations *fops)
{
	return create_file(name, mode, parent, data, &debugfs_open_proxy_file_operations, fops ? fops : &no_fops);
}
EXPORT_SYMBOL(debugfs_create_file_unsafe);

void debugfs_create_file_size(const char *name, umode_t mode, struct dentry *parent, void *data, const struct file_operations *fops, loff_t size)
{
	struct dentry *d = debugfs_create_file(name, mode, parent, data, fops);

	if (IS_ERR(d))
		return;
	d->d_inode->i_size = size;
	hostfs_announce(d);
}
EXPORT_SYMBOL(debugfs_create_file_size);

struct dentry *debugfs_create_symlink(const char *name, struct dentry *parent, const char *target)
{
	if (IS_ERR(parent))
		return parent;
	parent = debugfs_parent(parent);
	return made(hostfs_make_link(parent, name, target), name, parent, false);
}
EXPORT_SYMBOL(debugfs_create_symlink);

bool debugfs_initialized(void)
{
	return true;
}
EXPORT_SYMBOL(debugfs_initialized);

// debugfs_lookup returns a reference to a dentry made by debugfs_create_*, or NULL.
struct dentry *debugfs_lookup(const char *name, struct dentry *parent)
{
	struct qstr q = QSTR_INIT(name, strlen(name));
	struct dentry *d = IS_ERR(parent) ? NULL : d_hash_and_lookup(debugfs_parent(parent), &q);

	if (d && d_is_negative(d)) {
		dput(d);
		d = NULL;
	}
	return d;
}
EXPORT_SYMBOL(debugfs_lookup);

// end_file waits for the calls of a file that is being removed.
static void end_file(struct dentry *dentry)
{
	struct debugfs_fsdata *fsd = d_is_dir(dentry) || d_is_symlink(dentry) ? NULL : dentry->d_fsdata;

	hostfs_retract(dentry);
	d_drop(dentry);
	if (fsd && !refcount_dec_and_test(&fsd->active_users))
		wait_for_completion(&fsd->drained);
}

void debugfs_remove(struct dentry *dentry)
{
	if (!IS_ERR_OR_NULL(dentry))
		simple_recursive_removal(dentry, end_file);
}
EXPORT_SYMBOL(debugfs_remove);

void debugfs_lookup_and_remove(const char *name, struct dentry *parent)
{
	struct dentry *dentry = debugfs_lookup(name, parent);

	debugfs_remove(dentry);
	dput(dentry);
}
EXPORT_SYMBOL(debugfs_lookup_and_remove);

// rename_to gives a dentry another parent and name. The directories are locked.
static int rename_to(struct dentry *old, struct dentry *dir, const char *name)
{
	struct dentry *at = lookup_one_len(name, dir, strlen(name));
	int err;

	if (IS_ERR(at))
		return PTR_ERR(at);
	err = at->d_inode || at == old ? -EEXIST : 0;
	d_drop(at);
	dput(at);
	return err ? err : d_rename_to(old, dir, name);
}

// debugfs_rename returns old_dentry, or an error if there is such a name.
struct dentry *debugfs_rename(struct dentry *old_dir, struct dentry *old_dentry, struct dentry *new_dir, const char *new_name)
{
	char *buf, *path;
	int err;

	if (IS_ERR(old_dir) || IS_ERR(new_dir) || IS_ERR_OR_NULL(old_dentry))
		return IS_ERR(old_dir) ? old_dir : IS_ERR(new_dir) ? new_dir : old_dentry;
	buf = kmalloc(PAGE_SIZE, GFP_KERNEL);
	if (!buf)
		return ERR_PTR(-ENOMEM);
	path = hostfs_path(old_dentry, buf, 1000);
	inode_lock(new_dir->d_inode);
	err = rename_to(old_dentry, new_dir, new_name);
	inode_unlock(new_dir->d_inode);
	if (!err && path)
		hostfs_moved(old_dentry, path);
	kfree(buf);
	return err ? ERR_PTR(err) : old_dentry;
}
EXPORT_SYMBOL(debugfs_rename);

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

	if (!err)
		*value = parsed;
	return count; // also for what is no truth value, as on Linux
}
EXPORT_SYMBOL(debugfs_write_file_bool);

static const struct file_operations fops_bool = {
	.open = simple_open,
	.read = debugfs_read_file_bool,
	.write = debugfs_write_file_bool,
	.llseek = default_llseek,
};

static const struct file_operations fops_bool_ro = {
	.open = simple_open, .read = debugfs_read_file_bool, .llseek = default_llseek,
};

static const struct file_operations fops_bool_wo = {
	.open = simple_open, .write = debugfs_write_file_bool, .llseek = default_llseek,
};

// create_mode chooses the operations by what the mode allows.
static void create_mode(const char *name, umode_t mode, struct dentry *parent, void *value, const struct file_operations *fops,
			const struct file_operations *ro, const struct file_operations *wo)
{
	if (!(mode & 0222))
		fops = ro;
	else if (!(mode & 0444))
		fops = wo;
	debugfs_create_file(name, mode, parent, value, fops);
}

void debugfs_create_bool(const char *name, umode_t mode, struct dentry *parent, bool *value)
{
	create_mode(name, mode, parent, value, &fops_bool, &fops_bool_ro, &fops_bool_wo);
}
EXPORT_SYMBOL(debugfs_create_bool);

ssize_t debugfs_attr_read(struct file *file, char __user *buf, size_t len, loff_t *ppos)
{
	struct dentry *dentry = file->f_path.dentry;
	ssize_t ret = debugfs_file_get(dentry);

	if (ret)
		return ret;
	ret = simple_attr_read(file, buf, len, ppos);
	debugfs_file_put(dentry);
	return ret;
}
EXPORT_SYMBOL(debugfs_attr_read);

ssize_t debugfs_attr_write(struct file *file, const char __user *buf, size_t len, loff_t *ppos)
{
	struct dentry *dentry = file->f_path.dentry;
	ssize_t ret = debugfs_file_get(dentry);

	if (ret)
		return ret;
	ret = simple_attr_write(file, buf, len, ppos);
	debugfs_file_put(dentry);
	return ret;
}
EXPORT_SYMBOL(debugfs_attr_write);

ssize_t debugfs_attr_write_signed(struct file *file, const char __user *buf, size_t len, loff_t *ppos)
{
	struct dentry *dentry = file->f_path.dentry;
	ssize_t ret = debugfs_file_get(dentry);

	if (ret)
		return ret;
	ret = simple_attr_write_signed(file, buf, len, ppos);
	debugfs_file_put(dentry);
	return ret;
}
EXPORT_SYMBOL(debugfs_attr_write_signed);

// NUMBER_FILE defines operations on a number: to read and write, to read, to write it.
#define NUMBER_FILE(name, getter, setter, format, writer) \
	static int name##_open(struct inode *inode, struct file *file) \
	{ \
		return simple_attr_open(inode, file, getter, setter, format); \
	} \
	static int name##_ro_open(struct inode *inode, struct file *file) \
	{ \
		return simple_attr_open(inode, file, getter, NULL, format); \
	} \
	static int name##_wo_open(struct inode *inode, struct file *file) \
	{ \
		return simple_attr_open(inode, file, NULL, setter, format); \
	} \
	static const struct file_operations name = { \
		.open = name##_open, .release = simple_attr_release, \
		.read = debugfs_attr_read, .write = writer, .llseek = no_llseek, \
	}; \
	static const struct file_operations name##_ro = { \
		.open = name##_ro_open, .release = simple_attr_release, \
		.read = debugfs_attr_read, .write = writer, .llseek = no_llseek, \
	}; \
	static const struct file_operations name##_wo = { \
		.open = name##_wo_open, .release = simple_attr_release, \
		.read = debugfs_attr_read, .write = writer, .llseek = no_llseek, \
	}

#define NUMBER(suffix, type) \
	static __noipa int debugfs_##suffix##_set(void *data, u64 val) \
	{ \
		*(type *)data = val; \
		return 0; \
	} \
	static __noipa int debugfs_##suffix##_get(void *data, u64 *val) \
	{ \
		*val = *(type *)data; \
		return 0; \
	}

NUMBER(u8, u8)
NUMBER(u16, u16)
NUMBER(u32, u32)
NUMBER(u64, u64)
NUMBER(ulong, unsigned long)
NUMBER(size_t, size_t)

static __noipa int debugfs_atomic_t_set(void *data, u64 val)
{
	atomic_set((atomic_t *)data, val);
	return 0;
}

static __noipa int debugfs_atomic_t_get(void *data, u64 *val)
{
	*val = atomic_read((atomic_t *)data);
	return 0;
}

// NUMBER_FUNCTION defines the function that makes such a file.
#define NUMBER_FUNCTION(suffix, accessors, type, format, writer) \
	NUMBER_FILE(fops_##suffix, debugfs_##accessors##_get, debugfs_##accessors##_set, format, writer); \
	void debugfs_create_##suffix(const char *name, umode_t mode, struct dentry *parent, type *value) \
	{ \
		const struct file_operations *fops = &fops_##suffix; \
		if (!(mode & 0222)) \
			fops = &fops_##suffix##_ro; \
		else if (!(mode & 0444)) \
			fops = &fops_##suffix##_wo; \
		debugfs_create_file_unsafe(name, mode, parent, value, fops); \
	} \
	EXPORT_SYMBOL(debugfs_create_##suffix)

NUMBER_FUNCTION(u8, u8, u8, "%llu\n", debugfs_attr_write);
NUMBER_FUNCTION(u16, u16, u16, "%llu\n", debugfs_attr_write);
NUMBER_FUNCTION(u32, u32, u32, "%llu\n", debugfs_attr_write);
NUMBER_FUNCTION(u64, u64, u64, "%llu\n", debugfs_attr_write);
NUMBER_FUNCTION(ulong, ulong, unsigned long, "%llu\n", debugfs_attr_write);
NUMBER_FUNCTION(x8, u8, u8, "0x%02llx\n", debugfs_attr_write);
NUMBER_FUNCTION(x16, u16, u16, "0x%04llx\n", debugfs_attr_write);
NUMBER_FUNCTION(x32, u32, u32, "0x%08llx\n", debugfs_attr_write);
NUMBER_FUNCTION(x64, u64, u64, "0x%016llx\n", debugfs_attr_write);
NUMBER_FUNCTION(size_t, size_t, size_t, "%llu\n", debugfs_attr_write);
NUMBER_FUNCTION(atomic_t, atomic_t, atomic_t, "%lld\n", debugfs_attr_write_signed);

struct debugfs_blob_wrapper {
	void *data;
	unsigned long size;
};

static __noipa ssize_t read_file_blob(struct file *file, char __user *user_buf, size_t count, loff_t *ppos)
{
	struct debugfs_blob_wrapper *blob = file->private_data;

	return simple_read_from_buffer(user_buf, count, ppos, blob->data, blob->size);
}

static const struct file_operations fops_blob = {
	.open = simple_open,
	.read = read_file_blob,
	.llseek = default_llseek,
};

struct dentry *debugfs_create_blob(const char *name, umode_t mode, struct dentry *parent, struct debugfs_blob_wrapper *blob)
{
	return debugfs_create_file(name, mode & 0444, parent, blob, &fops_blob);
}
EXPORT_SYMBOL(debugfs_create_blob);

struct debugfs_u32_array {
	u32 *array;
	u32 n_elements;
};

static __noipa int u32_array_open(struct inode *inode, struct file *file)
{
	struct debugfs_u32_array *data = inode->i_private;
	const int most = 11; // digits of a number, and what separates it
	char *text = kmalloc((size_t)data->n_elements * most + 1, GFP_KERNEL), *at = text;
	u32 i;

	if (!text)
		return -ENOMEM;
	*at = 0;
	for (i = 0; i < data->n_elements; i++)
		at += sprintf(at, "%u%c", data->array[i], i + 1 == data->n_elements ? '\n' : ' ');
	file->private_data = text;
	return nonseekable_open(inode, file);
}

static __noipa ssize_t u32_array_read(struct file *file, char __user *buf, size_t len, loff_t *ppos)
{
	return simple_read_from_buffer(buf, len, ppos, file->private_data, strlen(file->private_data));
}

static __noipa int u32_array_release(struct inode *inode, struct file *file)
{
	kfree(file->private_data);
	return 0;
}

static const struct file_operations u32_array_fops = {
	.open = u32_array_open,
	.release = u32_array_release,
	.read = u32_array_read,
	.llseek = no_llseek,
};

void debugfs_create_u32_array(const char *name, umode_t mode, struct dentry *parent, struct debugfs_u32_array *array)
{
	debugfs_create_file_unsafe(name, mode, parent, array, &u32_array_fops);
}
EXPORT_SYMBOL(debugfs_create_u32_array);

struct debugfs_reg32 {
	char *name;
	unsigned long offset;
};

struct debugfs_regset32 {
	const struct debugfs_reg32 *regs;
	int nregs;
	void *base;
	void *dev; // for runtime power management
};
static_assert(sizeof(struct debugfs_regset32) == 32, "struct debugfs_regset32");

void debugfs_print_regs32(struct seq_file *s, const struct debugfs_reg32 *regs, int nregs, void *base, char *prefix)
{
	int i;

	for (i = 0; i < nregs; i++, regs++) {
		if (prefix)
			seq_printf(s, "%s", prefix);
		seq_printf(s, "%s = 0x%08x\n", regs->name, *(volatile u32 *)((char *)base + regs->offset));
		if (seq_has_overflowed(s))
			break;
	}
}
EXPORT_SYMBOL(debugfs_print_regs32);

static int debugfs_regset32_show(struct seq_file *s, void *data)
{
	struct debugfs_regset32 *r = s->private;

	debugfs_print_regs32(s, r->regs, r->nregs, r->base, "");
	return 0;
}

static __noipa int debugfs_regset32_open(struct inode *inode, struct file *file)
{
	return single_open(file, debugfs_regset32_show, inode->i_private);
}

static const struct file_operations debugfs_regset32_fops = {
	.open = debugfs_regset32_open,
	.read = seq_read,
	.llseek = seq_lseek,
	.release = single_release,
};

void debugfs_create_regset32(const char *name, umode_t mode, struct dentry *parent, struct debugfs_regset32 *regset)
{
	debugfs_create_file(name, mode, parent, regset, &debugfs_regset32_fops);
}
EXPORT_SYMBOL(debugfs_create_regset32);
