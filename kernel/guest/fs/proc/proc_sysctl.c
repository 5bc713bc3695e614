// Files below /proc/sys: the host's, and those that modules register. A header is in use
// while a handler runs; unregistering waits for that.
#include <linux/completion.h>
#include <linux/err.h>
#include <linux/export.h>
#include <linux/hostfs.h>
#include <linux/host.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/namei.h>
#include <linux/poll.h>
#include <linux/printk.h>
#include <linux/refcount.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysctl.h>
#include <linux/uio.h>

// A sysctl_set is what one call has registered: files in one directory, or, of a table with
// children, the sets of all its directories.
struct sysctl_set {
	struct ctl_table_header header;
	refcount_t refs; // the caller's, and one for each file
	struct sysctl_dir *dir;
	struct dentry **files;
	struct list_head sets, link;
};

// A sysctl_dir is a directory that is there as long as something is registered in it.
struct sysctl_dir {
	struct dentry *dentry;
	struct sysctl_dir *parent; // NULL in a directory that is always there
	int nreg;
};

static DEFINE_SPINLOCK(sysctl_lock);
static DEFINE_MUTEX(sysctl_mutex); // for those who register
static int sysctl_users;

static void set_put(struct sysctl_set *set)
{
	if (!refcount_dec_and_test(&set->refs))
		return;
	kfree(set->files);
	kfree(set);
}

static void file_release(struct dentry *dentry)
{
	set_put(dentry->d_fsdata);
}

static void dir_release(struct dentry *dentry)
{
	kfree(dentry->d_fsdata);
}

static const struct dentry_operations sysctl_file_dops = {
	.d_release = file_release,
};
static const struct dentry_operations sysctl_dir_dops = {
	.d_release = dir_release,
};

// head_of returns the header of a file that a module has registered, and NULL for the host's.
static struct ctl_table_header *head_of(const struct file *file)
{
	const struct dentry *d = file->f_path.dentry;

	return d->d_op == &sysctl_file_dops ? &((struct sysctl_set *)d->d_fsdata)->header : NULL;
}

// A sysctl's header is in use while its handler runs.
static int grab_header(struct ctl_table_header *head)
{
	int err = 0;

	spin_lock(&sysctl_lock);
	if (!head)
		sysctl_users++;
	else if (head->unregistering)
		err = -ENOENT;
	else
		head->used++;
	spin_unlock(&sysctl_lock);
	return err;
}

static noinline void sysctl_head_finish(struct ctl_table_header *head)
{
	spin_lock(&sysctl_lock);
	if (!head)
		sysctl_users--;
	else if (!--head->used && head->unregistering)
		complete(head->unregistering);
	spin_unlock(&sysctl_lock);
}

static __noipa int sysctl_perm(const struct inode *inode, int op)
{
	return (inode->i_mode >> 6 & op) == op || capable(21) ? 0 : -EPERM;
}

static ssize_t call_own(struct kiocb *iocb, struct iov_iter *iter, int write)
{
	CTL_TABLE *table = iocb->ki_filp->f_inode->i_private;
	size_t count = iter->count;
	char *buf = kvmalloc(count + 1, GFP_KERNEL | __GFP_ZERO);
	ssize_t error = 0;

	if (!buf)
		return -ENOMEM;
	if (write && copy_from_iter(buf, count, iter) != count)
		error = -EFAULT;
	if (!error)
		error = table->proc_handler(table, write, buf, &count, &iocb->ki_pos);
	if (!error && !write && count && copy_to_iter(buf, count, iter) < count)
		error = -EFAULT;
	kvfree(buf);
	return error ? error : (ssize_t)count;
}

// proc_sys_call_handler has the module's handler or the host handle the value. It returns
// -ENOMEM for sizes for which Linux would not allocate a buffer.
static __noipa ssize_t proc_sys_call_handler(struct kiocb *iocb, struct iov_iter *iter, int write)
{
	struct ctl_table_header *head = head_of(iocb->ki_filp);
	ssize_t error = grab_header(head);

	if (error)
		return error;
	error = sysctl_perm(iocb->ki_filp->f_inode, write ? MAY_WRITE : MAY_READ);
	if (!error && iter->count >= KMALLOC_MAX_SIZE)
		error = -ENOMEM;
	if (!error && head)
		error = call_own(iocb, iter, write);
	else if (!error)
		error = write ? hostfs_write_iter(iocb, iter) : hostfs_read_iter(iocb, iter);
	sysctl_head_finish(head);
	return error;
}

static __noipa ssize_t proc_sys_read(struct kiocb *iocb, struct iov_iter *iter)
{
	return proc_sys_call_handler(iocb, iter, 0);
}

static __noipa ssize_t proc_sys_write(struct kiocb *iocb, struct iov_iter *iter)
{
	return proc_sys_call_handler(iocb, iter, 1);
}

static __noipa int proc_sys_open(struct inode *inode, struct file *filp)
{
	struct ctl_table_header *head = head_of(filp);
	struct ctl_table *table = inode->i_private;
	int error;

	if (!head)
		return hostfs_open(inode, filp);
	error = grab_header(head);
	if (error)
		return error;
	if (table->poll)
		filp->private_data = (void *)(unsigned long)atomic_read(&table->poll->event);
	sysctl_head_finish(head);
	return 0;
}

static __noipa unsigned int proc_sys_poll(struct file *filp, struct poll_table_struct *wait)
{
	struct ctl_table_header *head = head_of(filp);
	struct ctl_table *table = filp->f_inode->i_private;
	unsigned int mask = DEFAULT_POLLMASK;
	void *event;

	if (!head || grab_header(head))
		return head ? EPOLLERR | EPOLLHUP : mask;
	if (table->poll) {
		poll_wait(filp, &table->poll->wait, wait);
		event = (void *)(unsigned long)atomic_read(&table->poll->event);
		if (filp->private_data != event) {
			filp->private_data = event;
			mask = EPOLLIN | EPOLLRDNORM | EPOLLERR | EPOLLPRI;
		}
	}
	sysctl_head_finish(head);
	return mask;
}

static int proc_sys_flush(struct file *file, fl_owner_t id)
{
	return head_of(file) ? 0 : hostfs_flush(file, id);
}

static int proc_sys_release(struct inode *inode, struct file *file)
{
	return head_of(file) ? 0 : hostfs_release(inode, file);
}

const struct file_operations proc_sys_file_operations = {
	.open = proc_sys_open,
	.poll = proc_sys_poll,
	.read_iter = proc_sys_read,
	.write_iter = proc_sys_write,
	.llseek = default_llseek,
	.flush = proc_sys_flush,
	.release = proc_sys_release,
};

// child_of returns what a directory of the kernel has under a name, or NULL.
static struct dentry *child_of(struct dentry *dir, const char *name, unsigned int len)
{
	struct qstr q = QSTR_INIT(name, len);
	struct dentry *d = d_hash_and_lookup(dir, &q);

	if (IS_ERR_OR_NULL(d))
		return NULL;
	if (d_is_positive(d) && !(d->d_flags & DCACHE_FOUND))
		return d;
	dput(d);
	return NULL;
}

// make_subdir makes a directory that is there until nothing is registered in it any more.
static struct dentry *make_subdir(struct dentry *at, const char *name, unsigned int len, struct sysctl_dir *dir)
{
	char *text = kstrndup(name, len, GFP_KERNEL);
	struct dentry *d = text ? hostfs_make_dir(at, text, 0555) : ERR_PTR(-ENOMEM);

	kfree(text);
	if (IS_ERR(d))
		return d;
	d_set_d_op(d, &sysctl_dir_dops);
	d->d_fsdata = dir;
	dir->dentry = d;
	return d;
}

static struct sysctl_dir *dir_of(const struct dentry *d)
{
	return d->d_op == &sysctl_dir_dops ? d->d_fsdata : NULL;
}

static void retract(struct dentry *d)
{
	hostfs_retract(d);
}

// drop_dir gives back a use of a directory, and removes those that nobody uses.
static void drop_dir(struct sysctl_dir *dir)
{
	while (dir && !--dir->nreg) {
		struct sysctl_dir *parent = dir->parent;

		simple_recursive_removal(dir->dentry, retract);
		dir = parent;
	}
}

// next_dir goes from one directory to the one of the next name, which it makes if necessary.
// *dir is the one that *at is in, and becomes the result's.
static int next_dir(struct dentry **at, struct sysctl_dir **dir, const char *name, unsigned int len)
{
	struct dentry *d = child_of(*at, name, len);
	struct sysctl_dir *new;

	if (d) {
		*at = d;
		dput(d); // a directory that is found stays, for sysctl_mutex is held
		if (!d_is_dir(d))
			return -ENOTDIR;
		new = dir_of(d);
		if (new) {
			new->nreg++;
			drop_dir(*dir);
			*dir = new;
		}
		return 0;
	}
	new = kzalloc(sizeof(*new), GFP_KERNEL);
	if (!new)
		return -ENOMEM;
	d = make_subdir(*at, name, len, new);
	if (IS_ERR(d)) {
		kfree(new);
		return PTR_ERR(d);
	}
	new->parent = *dir; // whose use this one takes over
	new->nreg = 1;
	*at = d;
	*dir = new;
	return 0;
}

// get_dir returns the directory of a path below /proc/sys, with a use of it in *dir.
static struct dentry *get_dir(const char *path, struct sysctl_dir **dir)
{
	struct dentry *at = child_of(proc_mnt->mnt_root, "sys", 3);
	int err = at ? 0 : -ENOENT;

	dput(at);
	*dir = NULL;
	while (!err && *path) {
		const char *end = strchrnul(path, '/');

		if (end != path)
			err = next_dir(&at, dir, path, end - path);
		path = *end ? end + 1 : end;
	}
	if (!err)
		return at;
	drop_dir(*dir);
	return ERR_PTR(err);
}

// check_table says what is wrong with a table.
static int check_table(const char *path, const struct ctl_table *table, size_t n)
{
	const struct ctl_table *t;
	int err = 0;

#define BAD(...) (err = -EINVAL, pr_err("sysctl table check failed: %s/%s " __VA_ARGS__))
	for (t = table; t < table + n && t->procname; t++) {
		if (sysctl_has_data(t)) {
			if (!t->data)
				BAD("No data\n", path, t->procname);
			if (!t->maxlen)
				BAD("No maxlen\n", path, t->procname);
			else if (sysctl_check_array(t))
				BAD("array not allowed\n", path, t->procname);
		}
		if (!t->proc_handler)
			BAD("No proc_handler\n", path, t->procname);
		if ((t->mode & 0666) != t->mode)
			BAD("bogus .mode 0%o\n", path, t->procname, t->mode);
	}
#undef BAD
	return err;
}

static void remove_files(struct sysctl_set *set)
{
	int i;

	for (i = 0; i < set->header.count; i++)
		simple_recursive_removal(set->files[i], retract);
}

static int make_files(struct sysctl_set *set, struct dentry *at, const char *path)
{
	struct ctl_table_header *head = &set->header;
	size_t n = head->nreg;
	struct ctl_table *t;
	struct dentry *d;

	for (t = head->ctl_table; t < head->ctl_table + n && t->procname; t++) {
		refcount_inc(&set->refs);
		d = hostfs_make_file(at, t->procname, S_IFREG | t->mode, &proc_sys_file_operations, t, 0, set, &sysctl_file_dops);
		if (IS_ERR(d)) {
			set_put(set);
			if (d == ERR_PTR(-EEXIST))
				pr_err("sysctl duplicate entry: /%s/%s\n", path, t->procname);
			return PTR_ERR(d);
		}
		set->files[head->count++] = d;
	}
	return 0;
}

static struct sysctl_set *new_set(struct ctl_table *table, size_t n)
{
	struct sysctl_set *set = kzalloc(sizeof(*set), GFP_KERNEL);

	if (!set)
		return NULL;
	set->files = kcalloc(n ? n : 1, sizeof(*set->files), GFP_KERNEL);
	if (!set->files) {
		kfree(set);
		return NULL;
	}
	set->header.ctl_table = set->header.ctl_table_arg = table;
	set->header.nreg = n;
	refcount_set(&set->refs, 1);
	INIT_LIST_HEAD(&set->sets);
	return set;
}

// add_files makes the files of a set in the directory of a path.
static int add_files(struct sysctl_set *set, const char *path)
{
	struct dentry *at;
	int err;

	mutex_lock(&sysctl_mutex);
	at = get_dir(path, &set->dir);
	if (IS_ERR(at)) {
		err = PTR_ERR(at);
		pr_err("sysctl could not get directory: %s %d\n", path, err);
	} else {
		err = make_files(set, at, path);
		if (err) {
			remove_files(set);
			drop_dir(set->dir);
		}
	}
	mutex_unlock(&sysctl_mutex);
	return err;
}

static noinline struct ctl_table_header *__register_sysctl_table(const char *path, struct ctl_table *table, size_t n)
{
	struct sysctl_set *set = new_set(table, n);

	if (!set)
		return NULL;
	if (check_table(path, table, n) || add_files(set, path)) {
		set_put(set);
		dump_stack();
		return NULL;
	}
	return &set->header;
}

// start_unregistering waits for the handlers that run, and has later calls fail.
static void start_unregistering(struct ctl_table_header *head)
{
	DECLARE_COMPLETION_ONSTACK(idle);
	bool busy;

	spin_lock(&sysctl_lock);
	busy = head->used;
	head->unregistering = busy ? &idle : ERR_PTR(-EINVAL);
	spin_unlock(&sysctl_lock);
	if (!busy)
		return;
	wait_for_completion(&idle);
	spin_lock(&sysctl_lock);
	head->unregistering = ERR_PTR(-EINVAL);
	spin_unlock(&sysctl_lock);
}

void unregister_sysctl_table(struct ctl_table_header *header)
{
	struct sysctl_set *set = container_of(header, struct sysctl_set, header), *sub;

	if (!header)
		return;
	while (!list_empty(&set->sets)) {
		sub = list_last_entry(&set->sets, struct sysctl_set, link);
		list_del(&sub->link);
		unregister_sysctl_table(&sub->header);
	}
	start_unregistering(header);
	mutex_lock(&sysctl_mutex);
	remove_files(set);
	drop_dir(set->dir);
	mutex_unlock(&sysctl_mutex);
	set_put(set);
}
EXPORT_SYMBOL(unregister_sysctl_table);

static size_t rows_of(const struct ctl_table *table)
{
	size_t n = 0;

	while (table[n].procname)
		n++;
	return n;
}

#if GUEST_LINUX >= 612
struct ctl_table_header *register_sysctl_sz(const char *path, struct ctl_table *table, size_t table_size)
{
	return __register_sysctl_table(path, table, table_size);
}
EXPORT_SYMBOL(register_sysctl_sz);
#else
struct ctl_table_header *register_sysctl(const char *path, struct ctl_table *table)
{
	return __register_sysctl_table(path, table, rows_of(table));
}
EXPORT_SYMBOL(register_sysctl);

// register_tree registers the files of each directory of a table, and adds their sets to top.
static int register_tree(struct sysctl_set *top, const char *path, struct ctl_table *table)
{
	size_t n = rows_of(table), i;
	int err = 0;

	for (i = 0; !err && i < n; i++) {
		struct ctl_table *t = &table[i];
		struct ctl_table_header *head;
		char *below;

		if (!t->child) {
			head = __register_sysctl_table(path, t, 1);
			if (!head)
				return -EINVAL;
			list_add_tail(&container_of(head, struct sysctl_set, header)->link, &top->sets);
			continue;
		}
		below = kasprintf(GFP_KERNEL, "%s%s%s", path, *path ? "/" : "", t->procname);
		err = below ? register_tree(top, below, t->child) : -ENOMEM;
		kfree(below);
	}
	return err;
}

struct ctl_table_header *register_sysctl_paths(const struct ctl_path *path, struct ctl_table *table)
{
	struct sysctl_set *top = new_set(table, 0);
	char *at = top ? kstrdup("", GFP_KERNEL) : NULL, *next;

	for (; at && path->procname; path++) {
		next = kasprintf(GFP_KERNEL, "%s%s%s", at, *at ? "/" : "", path->procname);
		kfree(at);
		at = next;
	}
	if (!at || register_tree(top, at, table)) {
		kfree(at);
		if (top)
			unregister_sysctl_table(&top->header);
		return NULL;
	}
	kfree(at);
	return &top->header;
}
EXPORT_SYMBOL(register_sysctl_paths);

struct ctl_table_header *register_sysctl_table(struct ctl_table *table)
{
	static const struct ctl_path root[1];

	return register_sysctl_paths(root, table);
}
EXPORT_SYMBOL(register_sysctl_table);
#endif
