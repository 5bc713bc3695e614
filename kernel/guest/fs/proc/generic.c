// Files of proc: the kernel's own, and the read path of the host's files. An
// entry that is being removed waits for the calls that are in it, and releases the files
// that are still open; calls that come later fail with -EIO.
#include <linux/kernel.h>
#include <linux/hostfs.h>
#include <linux/proc_fs.h>
#include <linux/poll.h>
#include <linux/seq_file.h>
#include <linux/completion.h>
#include <linux/export.h>

struct proc_dir_entry {
	char *name;
	umode_t mode;
	kuid_t uid;
	kgid_t gid;
	loff_t size;
	const struct proc_ops *ops;
	const struct seq_operations *seq_ops;
	unsigned int state_size;
	int (*show)(struct seq_file *, void *);
	void *data;
	struct proc_dir_entry *parent;
	struct dentry *dentry;
	bool hidden;       // until something is in it
	refcount_t active; // 1, and one for each call
	refcount_t refs;   // of the entry itself and of its dentry
	struct completion drained;
	spinlock_t lock; // guards openers
	struct list_head openers;
};

// pde_opener is an open file whose release has not been called.
struct pde_opener {
	struct list_head lh;
	struct file *file;
	bool closing;
	struct completion *c; // of the one who waits for the release
};

// pde_of returns the entry of a file that proc_create made; the host's have none.
static struct proc_dir_entry *pde_of(const struct file *file)
{
	return file->f_path.dentry->d_fsdata;
}

static void pde_put(struct proc_dir_entry *de)
{
	if (!refcount_dec_and_test(&de->refs))
		return;
	if (S_ISLNK(de->mode))
		kfree(de->data);
	kfree(de->name);
	kfree(de);
}

static bool use_pde(struct proc_dir_entry *de)
{
	return refcount_inc_not_zero(&de->active);
}

static void unuse_pde(struct proc_dir_entry *de)
{
	if (refcount_dec_and_test(&de->active))
		complete_all(&de->drained);
}

static int open_recorded(struct proc_dir_entry *de, struct inode *inode, struct file *file)
{
	struct pde_opener *pdeo = NULL;
	int err;

	if (de->ops->proc_release) {
		pdeo = kzalloc(sizeof(*pdeo), GFP_KERNEL);
		if (!pdeo)
			return -ENOMEM;
		pdeo->file = file;
	}
	err = de->ops->proc_open ? de->ops->proc_open(inode, file) : 0;
	if (err || !pdeo) {
		kfree(pdeo);
		return err;
	}
	spin_lock(&de->lock);
	list_add(&pdeo->lh, &de->openers);
	spin_unlock(&de->lock);
	return 0;
}

static __noipa int proc_reg_open(struct inode *inode, struct file *file)
{
	struct proc_dir_entry *de = pde_of(file);
	int err;

	if (!de)
		return ((const struct file_operations *)inode->i_private)->open(inode, file);
	if (!use_pde(de))
		return -ENOENT;
	if (!de->ops->proc_lseek)
		file->f_mode &= ~FMODE_LSEEK;
	err = open_recorded(de, inode, file);
	unuse_pde(de);
	return err;
}

static __noipa ssize_t proc_reg_read_iter(struct kiocb *iocb, struct iov_iter *iter)
{
	struct proc_dir_entry *de = pde_of(iocb->ki_filp);
	ssize_t ret;

	if (!de)
		return seq_read_iter(iocb, iter);
	if (!use_pde(de))
		return -EIO;
	ret = de->ops->proc_read_iter(iocb, iter);
	unuse_pde(de);
	return ret;
}

static __noipa ssize_t proc_reg_read(struct file *file, char __user *buf, size_t count, loff_t *ppos)
{
	struct proc_dir_entry *de = pde_of(file);
	ssize_t ret = -EIO;

	if (!use_pde(de))
		return -EIO;
	if (de->ops->proc_read)
		ret = de->ops->proc_read(file, buf, count, ppos);
	unuse_pde(de);
	return ret;
}

static __noipa ssize_t proc_reg_write(struct file *file, const char __user *buf, size_t count, loff_t *ppos)
{
	struct proc_dir_entry *de = pde_of(file);
	ssize_t ret = -EIO;

	if (!de)
		return hostfs_write(file, buf, count, ppos);
	if (!use_pde(de))
		return -EIO;
	if (de->ops->proc_write)
		ret = de->ops->proc_write(file, buf, count, ppos);
	unuse_pde(de);
	return ret;
}

static __noipa unsigned int proc_reg_poll(struct file *file, struct poll_table_struct *pt)
{
	struct proc_dir_entry *de = pde_of(file);
	unsigned int mask = DEFAULT_POLLMASK;

	if (!de || !use_pde(de))
		return mask;
	if (de->ops->proc_poll)
		mask = de->ops->proc_poll(file, pt);
	unuse_pde(de);
	return mask;
}

static __noipa long proc_reg_unlocked_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct proc_dir_entry *de = pde_of(file);
	long ret = -ENOTTY;

	if (!de || !use_pde(de))
		return ret;
	if (de->ops->proc_ioctl)
		ret = de->ops->proc_ioctl(file, cmd, arg);
	unuse_pde(de);
	return ret;
}

static __noipa int proc_reg_flush(struct file *file, fl_owner_t id)
{
	return pde_of(file) ? 0 : hostfs_flush(file, id);
}

// close_pdeo releases an open file once: at its last close, or when its entry goes.
// Called with the entry's lock held, and drops it.
static void close_pdeo(struct proc_dir_entry *de, struct pde_opener *pdeo)
{
	struct completion *c;

	if (pdeo->closing) {
		DECLARE_COMPLETION_ONSTACK(released);

		pdeo->c = &released;
		spin_unlock(&de->lock);
		wait_for_completion(&released);
		return;
	}
	pdeo->closing = true;
	spin_unlock(&de->lock);
	de->ops->proc_release(pdeo->file->f_inode, pdeo->file);
	spin_lock(&de->lock);
	list_del(&pdeo->lh);
	c = pdeo->c;
	spin_unlock(&de->lock);
	if (c)
		complete(c);
	kfree(pdeo);
}

static __noipa int proc_reg_release(struct inode *inode, struct file *file)
{
	struct proc_dir_entry *de = pde_of(file);
	struct pde_opener *pdeo;

	if (!de)
		return ((const struct file_operations *)inode->i_private)->release(inode, file);
	spin_lock(&de->lock);
	list_for_each_entry(pdeo, &de->openers, lh) {
		if (pdeo->file == file) {
			close_pdeo(de, pdeo);
			return 0;
		}
	}
	spin_unlock(&de->lock);
	return 0;
}

static __noipa loff_t proc_reg_llseek(struct file *file, loff_t offset, int whence)
{
	struct proc_dir_entry *de = pde_of(file);
	loff_t ret;

	if (!de)
		return seq_lseek(file, offset, whence);
	if (!use_pde(de))
		return -EINVAL;
	ret = de->ops->proc_lseek(file, offset, whence);
	unuse_pde(de);
	return ret;
}

// The operations of the host's files, and of those that have read_iter.
const struct file_operations proc_reg_file_ops = {
	.open = proc_reg_open,
	.read_iter = proc_reg_read_iter,
	.write = proc_reg_write,
	.llseek = proc_reg_llseek,
	.flush = proc_reg_flush,
	.release = proc_reg_release,
	.poll = proc_reg_poll,
	.unlocked_ioctl = proc_reg_unlocked_ioctl,
};

static const struct file_operations proc_read_file_ops = {
	.open = proc_reg_open,
	.read = proc_reg_read,
	.write = proc_reg_write,
	.llseek = proc_reg_llseek,
	.release = proc_reg_release,
	.poll = proc_reg_poll,
	.unlocked_ioctl = proc_reg_unlocked_ioctl,
};

static void proc_release_dentry(struct dentry *dentry)
{
	if (dentry->d_fsdata)
		pde_put(dentry->d_fsdata);
}

static const struct dentry_operations proc_own_dentry_operations = {
	.d_release = proc_release_dentry,
};

noinline __noclone struct inode *proc_get_inode(struct super_block *sb, struct proc_dir_entry *de)
{
	struct inode *inode = hostfs_get_inode(sb, de->mode);

	if (!inode)
		return NULL;
	inode->i_uid = de->uid;
	inode->i_gid = de->gid;
	inode->i_size = de->size;
	if (S_ISREG(de->mode)) {
		inode->i_private = de->data;
		inode->i_fop = de->ops->proc_read_iter ? &proc_reg_file_ops : &proc_read_file_ops;
	} else if (S_ISLNK(de->mode)) {
		inode->i_link = de->data;
		inode->i_op = &simple_symlink_inode_operations;
		inode->i_size = strlen(de->data);
	}
	return inode;
}

static struct dentry *dir_of(const struct proc_dir_entry *dir)
{
	return dir ? dir->dentry : proc_mnt->mnt_root;
}

// proc_register adds the entry's name to its parent, or frees the entry.
noinline __noclone struct proc_dir_entry *proc_register(struct proc_dir_entry *dir, struct proc_dir_entry *de)
{
	struct dentry *dentry = start_creating_in(de->name, dir_of(dir));
	struct inode *inode;

	if (dentry == ERR_PTR(-EEXIST))
		WARN(1, "proc_dir_entry '%s/%s' already registered\n", dir ? dir->name : "/proc", de->name);
	inode = IS_ERR(dentry) ? NULL : proc_get_inode(dentry->d_sb, de);
	if (!inode) {
		if (!IS_ERR(dentry)) {
			end_creating_in(dentry);
			dput(dentry);
		}
		pde_put(de);
		return NULL;
	}
	refcount_inc(&de->refs);
	dentry->d_fsdata = de;
	dentry->d_flags &= ~DCACHE_OP_REVALIDATE;
	d_set_d_op(dentry, &proc_own_dentry_operations);
	de->dentry = dentry;
	de->parent = dir;
	d_instantiate(dentry, inode);
	if (dir && dir->hidden) {
		dir->hidden = false;
		hostfs_announce(dir->dentry);
	}
	if (!de->hidden)
		hostfs_announce(dentry);
	end_creating_in(dentry);
	return de;
}

// find_entry returns the entry of a name, or NULL.
static struct proc_dir_entry *find_entry(struct proc_dir_entry *dir, const char *name, unsigned int len)
{
	struct qstr q = QSTR_INIT(name, len);
	struct dentry *d = d_hash_and_lookup(dir_of(dir), &q);
	struct proc_dir_entry *de = d && !d_is_negative(d) ? d->d_fsdata : NULL;

	dput(d);
	return de;
}

// find_parent resolves the directories in *name below *dir, and leaves the last part.
static int find_parent(const char **name, struct proc_dir_entry **dir)
{
	const char *slash;

	for (; (slash = strchr(*name, '/')); *name = slash + 1) {
		*dir = find_entry(*dir, *name, slash - *name);
		if (!*dir) {
			WARN(1, "name '%s'\n", *name);
			return -ENOENT;
		}
	}
	return 0;
}

// __proc_create allocates an entry. The directories in its name must exist.
static struct proc_dir_entry *__proc_create(struct proc_dir_entry **parent, const char *name, umode_t mode)
{
	struct proc_dir_entry *de;

	if (find_parent(&name, parent))
		return NULL;
	if (!*name || strlen(name) > NAME_MAX || !strcmp(name, ".") || !strcmp(name, "..")) {
		WARN(1, "name '%s'\n", name);
		return NULL;
	}
	de = kzalloc(sizeof(*de), GFP_KERNEL);
	if (!de)
		return NULL;
	de->name = kstrdup(name, GFP_KERNEL);
	if (!de->name) {
		kfree(de);
		return NULL;
	}
	de->mode = mode;
	refcount_set(&de->active, 1);
	refcount_set(&de->refs, 1);
	init_completion(&de->drained);
	spin_lock_init(&de->lock);
	INIT_LIST_HEAD(&de->openers);
	return de;
}

static umode_t file_mode(umode_t mode)
{
	return (mode & S_IALLUGO ? mode & S_IALLUGO : 0444) | S_IFREG;
}

struct proc_dir_entry *proc_create_data(const char *name, umode_t mode, struct proc_dir_entry *parent, const struct proc_ops *proc_ops, void *data)
{
	struct proc_dir_entry *de = __proc_create(&parent, name, file_mode(mode));

	if (!de)
		return NULL;
	de->ops = proc_ops;
	de->data = data;
	return proc_register(parent, de);
}
EXPORT_SYMBOL(proc_create_data);

struct proc_dir_entry *proc_create(const char *name, umode_t mode, struct proc_dir_entry *parent, const struct proc_ops *proc_ops)
{
	return proc_create_data(name, mode, parent, proc_ops, NULL);
}
EXPORT_SYMBOL(proc_create);

static int proc_single_open(struct inode *inode, struct file *file)
{
	struct proc_dir_entry *de = pde_of(file);

	return single_open(file, de->show, de->data);
}

static const struct proc_ops proc_single_ops = {
	.proc_open = proc_single_open,
	.proc_read_iter = seq_read_iter,
	.proc_lseek = seq_lseek,
	.proc_release = single_release,
};

struct proc_dir_entry *proc_create_single_data(const char *name, umode_t mode, struct proc_dir_entry *parent, int (*show)(struct seq_file *, void *), void *data)
{
	struct proc_dir_entry *de = __proc_create(&parent, name, file_mode(mode));

	if (!de)
		return NULL;
	de->ops = &proc_single_ops;
	de->show = show;
	de->data = data;
	return proc_register(parent, de);
}
EXPORT_SYMBOL(proc_create_single_data);

static int proc_seq_open(struct inode *inode, struct file *file)
{
	struct proc_dir_entry *de = pde_of(file);

	if (de->state_size)
		return seq_open_private(file, de->seq_ops, de->state_size);
	return seq_open(file, de->seq_ops);
}

static int proc_seq_release(struct inode *inode, struct file *file)
{
	return pde_of(file)->state_size ? seq_release_private(inode, file) : seq_release(inode, file);
}

static const struct proc_ops proc_seq_ops = {
	.proc_open = proc_seq_open,
	.proc_read_iter = seq_read_iter,
	.proc_lseek = seq_lseek,
	.proc_release = proc_seq_release,
};

struct proc_dir_entry *proc_create_seq_private(const char *name, umode_t mode, struct proc_dir_entry *parent, const struct seq_operations *ops, unsigned int state_size, void *data)
{
	struct proc_dir_entry *de = __proc_create(&parent, name, file_mode(mode));

	if (!de)
		return NULL;
	de->ops = &proc_seq_ops;
	de->seq_ops = ops;
	de->state_size = state_size;
	de->data = data;
	return proc_register(parent, de);
}
EXPORT_SYMBOL(proc_create_seq_private);

struct proc_dir_entry *proc_mkdir_data(const char *name, umode_t mode, struct proc_dir_entry *parent, void *data)
{
	struct proc_dir_entry *de = __proc_create(&parent, name, S_IFDIR | (mode ? mode : 0555));

	if (!de)
		return NULL;
	de->data = data;
	return proc_register(parent, de);
}
EXPORT_SYMBOL_GPL(proc_mkdir_data);

// proc_mkdir_empty makes a directory that is not shown before something is in it.
struct proc_dir_entry *proc_mkdir_empty(const char *name)
{
	struct proc_dir_entry *parent = NULL, *de = __proc_create(&parent, name, S_IFDIR | 0555);

	if (!de)
		return NULL;
	de->hidden = true;
	return proc_register(parent, de);
}

struct proc_dir_entry *proc_mkdir_mode(const char *name, umode_t mode, struct proc_dir_entry *parent)
{
	return proc_mkdir_data(name, mode, parent, NULL);
}
EXPORT_SYMBOL(proc_mkdir_mode);

struct proc_dir_entry *proc_mkdir(const char *name, struct proc_dir_entry *parent)
{
	return proc_mkdir_data(name, 0, parent, NULL);
}
EXPORT_SYMBOL(proc_mkdir);

struct proc_dir_entry *proc_symlink(const char *name, struct proc_dir_entry *parent, const char *dest)
{
	struct proc_dir_entry *de = __proc_create(&parent, name, S_IFLNK | S_IRWXUGO);
	char *text;

	if (!de)
		return NULL;
	text = kstrdup(dest, GFP_KERNEL);
	if (!text) {
		pde_put(de);
		return NULL;
	}
	de->data = text;
	return proc_register(parent, de);
}
EXPORT_SYMBOL(proc_symlink);

void proc_set_size(struct proc_dir_entry *de, loff_t size)
{
	de->size = size;
	de->dentry->d_inode->i_size = size;
	hostfs_announce(de->dentry);
}
EXPORT_SYMBOL(proc_set_size);

void proc_set_user(struct proc_dir_entry *de, kuid_t uid, kgid_t gid)
{
	de->dentry->d_inode->i_uid = de->uid = uid;
	de->dentry->d_inode->i_gid = de->gid = gid;
	hostfs_announce(de->dentry);
}
EXPORT_SYMBOL(proc_set_user);

void *proc_get_parent_data(const struct inode *inode)
{
	struct dentry *dentry = hlist_entry(inode->i_dentry.first, struct dentry, d_u.d_alias);
	struct proc_dir_entry *de = dentry->d_fsdata;

	return de && de->parent ? de->parent->data : NULL;
}
EXPORT_SYMBOL_GPL(proc_get_parent_data);

// end_entry waits for the calls that are in an entry and releases its open files.
static void end_entry(struct dentry *dentry)
{
	struct proc_dir_entry *de = dentry->d_fsdata;

	hostfs_retract(dentry);
	d_drop(dentry);
	if (!refcount_dec_and_test(&de->active))
		wait_for_completion(&de->drained);
	spin_lock(&de->lock);
	while (!list_empty(&de->openers)) {
		close_pdeo(de, list_first_entry(&de->openers, struct pde_opener, lh));
		spin_lock(&de->lock);
	}
	spin_unlock(&de->lock);
	pde_put(de);
}

// proc_remove removes an entry and everything below it.
void proc_remove(struct proc_dir_entry *de)
{
	if (de)
		simple_recursive_removal(de->dentry, end_entry);
}
EXPORT_SYMBOL(proc_remove);

void remove_proc_entry(const char *name, struct proc_dir_entry *parent)
{
	struct proc_dir_entry *de;

	if (find_parent(&name, &parent))
		return;
	de = find_entry(parent, name, strlen(name));
	if (!de) {
		WARN(1, "name '%s'\n", name);
		return;
	}
	proc_remove(de);
}
EXPORT_SYMBOL(remove_proc_entry);

int remove_proc_subtree(const char *name, struct proc_dir_entry *parent)
{
	struct proc_dir_entry *de;

	if (find_parent(&name, &parent))
		return -ENOENT;
	de = find_entry(parent, name, strlen(name));
	if (!de)
		return -ENOENT;
	proc_remove(de);
	return 0;
}
EXPORT_SYMBOL(remove_proc_subtree);
