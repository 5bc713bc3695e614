// Files of proc: those of the kernel itself, by seq_file, and the read path of the
// host's files.
#include <linux/hostfs.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/export.h>

// pde_of returns the entry of a file that proc_create made; the host's have none.
static struct proc_dir_entry *pde_of(const struct file *file)
{
	return file->f_path.dentry->d_fsdata;
}

static __noipa int proc_reg_open(struct inode *inode, struct file *file)
{
	struct proc_dir_entry *pde = pde_of(file);
	const struct file_operations *real = inode->i_private;

	if (pde)
		return pde->show ? single_open(file, pde->show, pde->data) : pde->ops->proc_open(inode, file);
	return real->open(inode, file);
}

static __noipa ssize_t proc_reg_read_iter(struct kiocb *iocb, struct iov_iter *iter)
{
	struct proc_dir_entry *pde = pde_of(iocb->ki_filp);

	return pde && pde->ops ? pde->ops->proc_read_iter(iocb, iter) : seq_read_iter(iocb, iter);
}

static __noipa ssize_t proc_reg_write(struct file *file, const char __user *buf, size_t count, loff_t *ppos)
{
	struct proc_dir_entry *pde = pde_of(file);

	if (pde)
		return pde->ops && pde->ops->proc_write ? pde->ops->proc_write(file, buf, count, ppos) : -EIO;
	return hostfs_write(file, buf, count, ppos);
}

static __noipa int proc_reg_flush(struct file *file, fl_owner_t id)
{
	return pde_of(file) ? 0 : hostfs_flush(file, id);
}

static __noipa int proc_reg_release(struct inode *inode, struct file *file)
{
	struct proc_dir_entry *pde = pde_of(file);

	if (!pde)
		return ((const struct file_operations *)inode->i_private)->release(inode, file);
	if (pde->show)
		return single_release(inode, file);
	return pde->ops->proc_release ? pde->ops->proc_release(inode, file) : 0;
}

static __noipa loff_t proc_reg_llseek(struct file *file, loff_t offset, int whence)
{
	return seq_lseek(file, offset, whence);
}

const struct file_operations proc_reg_file_ops = {
	.open = proc_reg_open,
	.read_iter = proc_reg_read_iter,
	.write = proc_reg_write,
	.llseek = proc_reg_llseek,
	.flush = proc_reg_flush,
	.release = proc_reg_release,
};

noinline __noclone struct inode *proc_get_inode(struct super_block *sb, struct proc_dir_entry *de)
{
	struct inode *inode = hostfs_get_inode(sb, de->mode);

	if (inode && !S_ISDIR(de->mode)) {
		inode->i_private = de;
		inode->i_fop = &proc_reg_file_ops;
	}
	return inode;
}

// proc_register adds the entry's name to its parent.
noinline __noclone struct proc_dir_entry *proc_register(struct proc_dir_entry *dir, struct proc_dir_entry *de)
{
	struct dentry *dentry = start_creating_in(de->name, dir ? dir->dentry : proc_mnt->mnt_root);
	struct inode *inode;

	if (IS_ERR(dentry)) {
		kfree(de);
		return NULL;
	}
	inode = proc_get_inode(dentry->d_sb, de);
	if (!inode) {
		end_creating_in(dentry);
		dput(dentry);
		kfree(de);
		return NULL;
	}
	dentry->d_fsdata = de;
	dentry->d_flags &= ~DCACHE_OP_REVALIDATE;
	de->dentry = dentry;
	d_instantiate(dentry, inode);
	end_creating_in(dentry);
	return de;
}

static struct proc_dir_entry *__proc_create(const char *name, umode_t mode)
{
	struct proc_dir_entry *de = kzalloc(sizeof(*de), GFP_KERNEL);

	if (!de)
		return NULL;
	de->name = name;
	de->mode = mode;
	return de;
}

struct proc_dir_entry *proc_create_data(const char *name, umode_t mode, struct proc_dir_entry *parent, const struct proc_ops *proc_ops, void *data)
{
	struct proc_dir_entry *de = __proc_create(name, (mode & S_IALLUGO ? mode : 0444) | S_IFREG);

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

struct proc_dir_entry *proc_create_single_data(const char *name, umode_t mode, struct proc_dir_entry *parent, int (*show)(struct seq_file *, void *), void *data)
{
	struct proc_dir_entry *de = __proc_create(name, (mode & S_IALLUGO ? mode : 0444) | S_IFREG);

	if (!de)
		return NULL;
	de->show = show;
	de->data = data;
	return proc_register(parent, de);
}
EXPORT_SYMBOL(proc_create_single_data);

struct proc_dir_entry *proc_mkdir(const char *name, struct proc_dir_entry *parent)
{
	struct proc_dir_entry *de = __proc_create(name, S_IFDIR | 0555);

	return de ? proc_register(parent, de) : NULL;
}
EXPORT_SYMBOL(proc_mkdir);

// proc_remove removes an entry and everything below it.
void proc_remove(struct proc_dir_entry *de)
{
	struct dentry *dentry;

	if (!de)
		return;
	dentry = de->dentry;
	simple_recursive_removal(dentry, NULL);
	kfree(de);
}
EXPORT_SYMBOL(proc_remove);
