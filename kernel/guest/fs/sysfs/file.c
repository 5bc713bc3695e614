// Files of sysfs: attributes of kernel objects. A file that is being removed waits for the
// calls that are in it; calls that come later fail with -ENODEV.
#include <linux/kernel.h>
#include <linux/kobject.h>
#include <linux/hostfs.h>
#include <linux/poll.h>
#include <linux/seq_file.h>
#include <linux/completion.h>
#include <linux/uaccess.h>
#include <linux/mm.h>
#include <linux/sprintf.h>
#include <linux/export.h>

// A sysfs_file is the d_fsdata of a file. Open files have a reference to the dentry.
struct sysfs_file {
	struct kobject *kobj;
	const struct attribute *attr;
	const struct bin_attribute *bin; // NULL for texts
	refcount_t active;		 // 1, and one for each call
	atomic_t event;			 // number of sysfs_notify
	struct completion drained;
};

// open_file is an open file's private data; for texts it begins with seq_file's.
struct open_file {
	struct mutex mutex;
	int event;
};

static DECLARE_WAIT_QUEUE_HEAD(notified);

static struct sysfs_file *file_of(const struct file *file)
{
	return file->f_path.dentry->d_fsdata;
}

static bool get_active(struct sysfs_file *f)
{
	return refcount_inc_not_zero(&f->active);
}

static void put_active(struct sysfs_file *f)
{
	if (refcount_dec_and_test(&f->active))
		complete_all(&f->drained);
}

static const struct sysfs_ops *ops_of(const struct sysfs_file *f)
{
	return f->kobj->ktype ? f->kobj->ktype->sysfs_ops : NULL;
}

// show_attribute has the attribute's owner fill a page.
static int show_attribute(struct seq_file *m, struct sysfs_file *f)
{
	const struct sysfs_ops *ops = ops_of(f);
	char *buf = kzalloc(PAGE_SIZE, GFP_KERNEL);
	ssize_t count;

	if (!buf)
		return -ENOMEM;
	count = ops->show(f->kobj, (struct attribute *)f->attr, buf);
	if (count >= (ssize_t)PAGE_SIZE) {
		printk("fill_read_buffer: %pS returned bad count\n", ops->show);
		count = PAGE_SIZE - 1;
	}
	if (count > 0)
		seq_write(m, buf, count);
	kfree(buf);
	return count < 0 ? count : 0;
}

static __noipa int sysfs_kf_seq_show(struct seq_file *m, void *v)
{
	struct sysfs_file *f = m->private;
	int err;

	m->poll_event = atomic_read(&f->event);
	if (m->size <= PAGE_SIZE) { // so that a page fits; the caller tries again
		m->count = m->size;
		return 0;
	}
	if (!get_active(f))
		return -ENODEV;
	err = show_attribute(m, f);
	put_active(f);
	return err;
}

// may_open: opens for a direction that the file does not have fail, whoever asks.
static int may_open(const struct file *file, const struct inode *inode, bool reads, bool writes)
{
	if (file->f_mode & FMODE_WRITE && (!(inode->i_mode & 0222) || !writes))
		return -EACCES;
	if (file->f_mode & FMODE_READ && (!(inode->i_mode & 0444) || !reads))
		return -EACCES;
	return 0;
}

static __noipa int kernfs_fop_open(struct inode *inode, struct file *file)
{
	struct sysfs_file *f = file_of(file);
	const struct sysfs_ops *ops;
	int err;

	if (!get_active(f))
		return -ENODEV;
	ops = ops_of(f);
	err = may_open(file, inode, ops && ops->show, ops && ops->store);
	if (!err)
		err = single_open(file, sysfs_kf_seq_show, f);
	if (!err)
		file->f_mode |= FMODE_PWRITE;
	put_active(f);
	return err;
}

// take_text returns a copy of at most a page of what is written, with a zero behind it.
static char *take_text(const char __user *buf, size_t *count)
{
	char *text;

	*count = min(*count, (size_t)PAGE_SIZE);
	text = kmalloc(*count + 1, GFP_KERNEL);
	if (!text)
		return ERR_PTR(-ENOMEM);
	if (copy_from_user(text, buf, *count)) {
		kfree(text);
		return ERR_PTR(-EFAULT);
	}
	text[*count] = 0;
	return text;
}

static __noipa ssize_t kernfs_fop_write(struct file *file, const char __user *buf, size_t count, loff_t *ppos)
{
	struct sysfs_file *f = file_of(file);
	struct seq_file *m = file->private_data;
	char *text = take_text(buf, &count);
	ssize_t ret = -ENODEV;

	if (IS_ERR(text))
		return PTR_ERR(text);
	mutex_lock(&m->lock);
	if (get_active(f)) {
		ret = count ? ops_of(f)->store(f->kobj, (struct attribute *)f->attr, text, count) : 0;
		put_active(f);
	}
	mutex_unlock(&m->lock);
	if (ret > 0)
		*ppos += ret;
	kfree(text);
	return ret;
}

static __noipa unsigned int kernfs_fop_poll(struct file *file, struct poll_table_struct *pt)
{
	struct sysfs_file *f = file_of(file);
	struct seq_file *m = file->private_data;

	poll_wait(file, &notified, pt);
	if (m->poll_event != atomic_read(&f->event))
		return DEFAULT_POLLMASK | EPOLLERR | EPOLLPRI;
	return DEFAULT_POLLMASK;
}

static const struct file_operations kernfs_file_fops = {
	.open = kernfs_fop_open,
	.read_iter = seq_read_iter,
	.write = kernfs_fop_write,
	.llseek = generic_file_llseek,
	.release = single_release,
	.poll = kernfs_fop_poll,
};

static __noipa int bin_open(struct inode *inode, struct file *file)
{
	const struct bin_attribute *b = file_of(file)->bin;

	return may_open(file, inode, b->read, b->write);
}

// bin_count returns how much of count is before the attribute's end; it has none if its
// size is 0.
static size_t bin_count(const struct bin_attribute *b, size_t count, loff_t pos)
{
	count = min(count, (size_t)PAGE_SIZE);
	if (!b->size)
		return count;
	return (u64)pos >= b->size ? 0 : min(count, (size_t)(b->size - pos));
}

static __noipa ssize_t sysfs_kf_bin_read(struct file *file, char __user *user, size_t count, loff_t *ppos)
{
	struct sysfs_file *f = file_of(file);
	struct bin_attribute *b = (struct bin_attribute *)f->bin;
	char *buf = kzalloc(PAGE_SIZE, GFP_KERNEL);
	ssize_t ret = -ENODEV;

	if (!buf)
		return -ENOMEM;
	if (get_active(f)) {
		count = bin_count(b, count, *ppos);
		ret = count ? b->read(file, f->kobj, b, buf, *ppos, count) : 0;
		put_active(f);
	}
	if (ret > (ssize_t)count)
		ret = count;
	if (ret > 0 && copy_to_user(user, buf, ret))
		ret = -EFAULT;
	if (ret > 0)
		*ppos += ret;
	kfree(buf);
	return ret;
}

static __noipa ssize_t sysfs_kf_bin_write(struct file *file, const char __user *buf, size_t count, loff_t *ppos)
{
	struct sysfs_file *f = file_of(file);
	struct bin_attribute *b = (struct bin_attribute *)f->bin;
	ssize_t ret = -ENODEV;
	char *text;

	if (b->size && (u64)*ppos >= b->size)
		return -EFBIG;
	count = bin_count(b, count, *ppos);
	text = take_text(buf, &count);
	if (IS_ERR(text))
		return PTR_ERR(text);
	if (get_active(f)) {
		ret = count ? b->write(file, f->kobj, b, text, *ppos, count) : 0;
		put_active(f);
	}
	if (ret > 0)
		*ppos += ret;
	kfree(text);
	return ret;
}

static const struct file_operations kernfs_bin_fops = {
	.open = bin_open,
	.read = sysfs_kf_bin_read,
	.write = sysfs_kf_bin_write,
	.llseek = generic_file_llseek,
};

static void sysfs_release_dentry(struct dentry *dentry)
{
	kfree(dentry->d_fsdata);
}

static const struct dentry_operations sysfs_file_dops = {
	.d_release = sysfs_release_dentry,
};

// warn_dup says that a directory has the name already.
static int warn_dup(struct dentry *dir, const char *name)
{
	char *buf = kmalloc(PAGE_SIZE, GFP_KERNEL);
	char *path = buf ? dentry_path_raw(dir, buf, PAGE_SIZE) : NULL;

	if (!IS_ERR_OR_NULL(path))
		printk(KERN_WARNING "sysfs: cannot create duplicate filename '%s/%s'\n", path, name);
	dump_stack();
	kfree(buf);
	return -EEXIST;
}

static int add_file(struct dentry *dir, struct kobject *kobj, const struct attribute *attr, const struct bin_attribute *bin, umode_t mode)
{
	struct sysfs_file *f = kzalloc(sizeof(*f), GFP_KERNEL);
	struct dentry *dentry;

	if (!f)
		return -ENOMEM;
	*f = (struct sysfs_file){ .kobj = kobj, .attr = attr, .bin = bin };
	refcount_set(&f->active, 1);
	init_completion(&f->drained);
	dentry = hostfs_make_file(dir, attr->name, S_IFREG | (mode & 0777), bin ? &kernfs_bin_fops : &kernfs_file_fops,
				  NULL, bin ? bin->size : PAGE_SIZE, f, &sysfs_file_dops);
	if (!IS_ERR(dentry))
		return 0;
	kfree(f);
	return PTR_ERR(dentry) == -EEXIST ? warn_dup(dir, attr->name) : PTR_ERR(dentry);
}

// child returns a reference to an entry of a directory, or NULL.
static struct dentry *child(struct dentry *dir, const char *name)
{
	struct qstr q = QSTR_INIT(name, strlen(name));
	struct dentry *d = dir ? d_hash_and_lookup(dir, &q) : NULL;

	if (d && d_is_negative(d)) {
		dput(d);
		d = NULL;
	}
	return d;
}

// close_file ends the calls of a file that is being removed.
static void close_file(struct dentry *dentry)
{
	struct sysfs_file *f = d_is_dir(dentry) || d_is_symlink(dentry) ? NULL : dentry->d_fsdata;

	hostfs_retract(dentry);
	if (!f)
		return;
	if (!refcount_dec_and_test(&f->active))
		wait_for_completion(&f->drained);
}

static void remove(struct dentry *dir, const char *name)
{
	struct dentry *d = child(dir, name);

	if (!d)
		return;
	simple_recursive_removal(d, close_file);
	dput(d);
}

noinline int sysfs_create_file_ns(struct kobject *kobj, const struct attribute *attr, const void *ns)
{
	if (WARN_ON(!kobj || !kobj->sd || !attr))
		return -EINVAL;
	return add_file(kobj->sd, kobj, attr, NULL, attr->mode);
}
EXPORT_SYMBOL_GPL(sysfs_create_file_ns);

void sysfs_remove_file_ns(struct kobject *kobj, const struct attribute *attr, const void *ns)
{
	remove(kobj->sd, attr->name);
}
EXPORT_SYMBOL_GPL(sysfs_remove_file_ns);

int sysfs_create_files(struct kobject *kobj, const struct attribute *const *ptr)
{
	int err = 0, i;

	for (i = 0; ptr[i] && !err; i++)
		err = sysfs_create_file_ns(kobj, ptr[i], NULL);
	if (err)
		while (--i >= 1)
			sysfs_remove_file_ns(kobj, ptr[i - 1], NULL);
	return err;
}
EXPORT_SYMBOL_GPL(sysfs_create_files);

void sysfs_remove_files(struct kobject *kobj, const struct attribute *const *ptr)
{
	int i;

	for (i = 0; ptr[i]; i++)
		sysfs_remove_file_ns(kobj, ptr[i], NULL);
}
EXPORT_SYMBOL_GPL(sysfs_remove_files);

int sysfs_create_bin_file(struct kobject *kobj, const struct bin_attribute *attr)
{
	if (WARN_ON(!kobj || !kobj->sd || !attr))
		return -EINVAL;
	return add_file(kobj->sd, kobj, &attr->attr, attr, attr->attr.mode);
}
EXPORT_SYMBOL_GPL(sysfs_create_bin_file);

void sysfs_remove_bin_file(struct kobject *kobj, const struct bin_attribute *attr)
{
	remove(kobj->sd, attr->attr.name);
}
EXPORT_SYMBOL_GPL(sysfs_remove_bin_file);

// group_mode returns the mode that a group gives to a file, without what Linux does not let
// others do.
static umode_t group_mode(const struct attribute *attr, umode_t mode)
{
	const umode_t may = 010664; // 010000 is SYSFS_PREALLOC

	WARN(mode & ~may, "Attribute %s: Invalid permissions 0%o\n", attr->name, mode);
	return mode & may;
}

// add_group makes the files of a group in dir.
static int add_group(struct dentry *dir, struct kobject *kobj, const struct attribute_group *grp)
{
	int i, err = 0;

	for (i = 0; grp->attrs && grp->attrs[i] && !err; i++) {
		umode_t mode = grp->is_visible ? grp->is_visible(kobj, grp->attrs[i], i) : grp->attrs[i]->mode;

		if (mode)
			err = add_file(dir, kobj, grp->attrs[i], NULL, group_mode(grp->attrs[i], mode));
	}
	for (i = 0; grp->bin_attrs && grp->bin_attrs[i] && !err; i++) {
		struct bin_attribute *b = grp->bin_attrs[i];
		umode_t mode = grp->is_bin_visible ? grp->is_bin_visible(kobj, b, i) : b->attr.mode;

		if (mode)
			err = add_file(dir, kobj, &b->attr, b, group_mode(&b->attr, mode));
	}
	return err;
}

int sysfs_create_group(struct kobject *kobj, const struct attribute_group *grp)
{
	struct dentry *dir;
	int err;

	if (WARN_ON(!kobj || !kobj->sd))
		return -EINVAL;
	if (!grp->attrs && !grp->bin_attrs)
		return -EINVAL;
	dir = grp->name ? hostfs_make_dir(kobj->sd, grp->name, 0755) : kobj->sd;
	if (IS_ERR(dir))
		return PTR_ERR(dir) == -EEXIST ? warn_dup(kobj->sd, grp->name) : PTR_ERR(dir);
	err = add_group(dir, kobj, grp);
	if (err)
		sysfs_remove_group(kobj, grp);
	return err;
}
EXPORT_SYMBOL_GPL(sysfs_create_group);

int sysfs_create_groups(struct kobject *kobj, const struct attribute_group **groups)
{
	int i, err = 0;

	for (i = 0; groups && groups[i] && !err; i++)
		err = sysfs_create_group(kobj, groups[i]);
	if (err)
		while (--i >= 1)
			sysfs_remove_group(kobj, groups[i - 1]);
	return err;
}
EXPORT_SYMBOL_GPL(sysfs_create_groups);

noinline void sysfs_remove_group(struct kobject *kobj, const struct attribute_group *grp)
{
	int i;

	if (grp->name) {
		remove(kobj->sd, grp->name);
		return;
	}
	for (i = 0; grp->attrs && grp->attrs[i]; i++)
		remove(kobj->sd, grp->attrs[i]->name);
	for (i = 0; grp->bin_attrs && grp->bin_attrs[i]; i++)
		remove(kobj->sd, grp->bin_attrs[i]->attr.name);
}
EXPORT_SYMBOL_GPL(sysfs_remove_group);

void sysfs_remove_groups(struct kobject *kobj, const struct attribute_group **groups)
{
	int i;

	for (i = 0; groups && groups[i]; i++)
		sysfs_remove_group(kobj, groups[i]);
}
EXPORT_SYMBOL_GPL(sysfs_remove_groups);

int sysfs_create_dir_ns(struct kobject *kobj, const void *ns)
{
	struct dentry *dir = kobj->parent ? kobj->parent->sd : sysfs_mnt->mnt_root, *d;

	if (!dir)
		return -ENOENT;
	d = hostfs_make_dir(dir, kobject_name(kobj), 0755);
	if (IS_ERR(d))
		return PTR_ERR(d) == -EEXIST ? warn_dup(dir, kobject_name(kobj)) : PTR_ERR(d);
	kobj->sd = d;
	return 0;
}

void sysfs_remove_dir(struct kobject *kobj)
{
	struct dentry *d = kobj->sd;

	kobj->sd = NULL;
	if (d)
		simple_recursive_removal(d, close_file);
}

static bool is_below(const struct dentry *dentry, const struct dentry *dir)
{
	while (!IS_ROOT(dentry) && dentry != dir)
		dentry = dentry->d_parent;
	return dentry == dir;
}

// sysfs_create_link makes a symbolic link with a relative target.
int sysfs_create_link(struct kobject *kobj, struct kobject *target, const char *name)
{
	struct dentry *dir = kobj ? kobj->sd : sysfs_mnt->mnt_root, *d;
	char *buf = kzalloc(PAGE_SIZE, GFP_KERNEL), *path, *text = buf;
	int err = -ENOMEM;

	if (!buf)
		return err;
	err = -ENOENT;
	path = dir && target->sd ? dentry_path_raw(target->sd, buf + PAGE_SIZE / 2, PAGE_SIZE / 2) : NULL;
	if (IS_ERR_OR_NULL(path))
		goto out;
	for (d = dir; !is_below(target->sd, d) && text - buf < (long)PAGE_SIZE / 2 - 4; d = d->d_parent)
		text += sprintf(text, "../");
	for (; !IS_ROOT(d); d = d->d_parent)
		path += 1 + d->d_name.len;
	memmove(text, path + 1, strlen(path));
	d = hostfs_make_link(dir, name, buf);
	err = PTR_ERR_OR_ZERO(d);
	if (err == -EEXIST)
		warn_dup(dir, name);
out:
	kfree(buf);
	return err;
}
EXPORT_SYMBOL_GPL(sysfs_create_link);

void sysfs_remove_link(struct kobject *kobj, const char *name)
{
	remove(kobj ? kobj->sd : sysfs_mnt->mnt_root, name);
}
EXPORT_SYMBOL_GPL(sysfs_remove_link);

void sysfs_notify(struct kobject *kobj, const char *dir, const char *attr)
{
	struct dentry *in = dir ? child(kobj->sd, dir) : dget(kobj->sd), *d = attr ? child(in, attr) : dget(in);

	if (d && !d_is_dir(d) && d->d_fsdata)
		atomic_inc(&((struct sysfs_file *)d->d_fsdata)->event);
	dput(d);
	dput(in);
	wake_up_interruptible_all(&notified);
}
EXPORT_SYMBOL_GPL(sysfs_notify);

int sysfs_emit(char *buf, const char *fmt, ...)
{
	va_list args;
	int n;

	if (WARN(!buf || offset_in_page(buf), "invalid sysfs_emit: buf:%p\n", buf))
		return 0;
	va_start(args, fmt);
	n = vscnprintf(buf, PAGE_SIZE, fmt, args);
	va_end(args);
	return n;
}
EXPORT_SYMBOL(sysfs_emit);

int sysfs_emit_at(char *buf, int at, const char *fmt, ...)
{
	va_list args;
	int n;

	if (WARN(!buf || offset_in_page(buf) || at < 0 || at >= (int)PAGE_SIZE, "invalid sysfs_emit_at: buf:%p at:%d\n", buf, at))
		return 0;
	va_start(args, fmt);
	n = vscnprintf(buf + at, PAGE_SIZE - at, fmt, args);
	va_end(args);
	return n;
}
EXPORT_SYMBOL_GPL(sysfs_emit_at);
