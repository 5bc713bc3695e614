// Open files. A file is released after its last reference is dropped: by task work
// when the task leaves the kernel, or by a worker.
#include <linux/fs.h>
#include <linux/cdev.h>
#include <linux/task_work.h>
#include <linux/workqueue.h>
#include <linux/llist.h>
#include <linux/interrupt.h>
#include <linux/host.h>

static struct kmem_cache *filp_cachep;
static atomic_long_t nr_files;
static LLIST_HEAD(delayed_fput_list);

#define MAX_FILES 65536

static void file_free_rcu(struct callback_head *head)
{
	kmem_cache_free(filp_cachep, container_of(head, struct file, f_rcuhead));
}

static void file_free(struct file *f)
{
	security_file_free(f);
	put_cred(f->f_cred);
	atomic_long_dec(&nr_files);
	call_rcu(&f->f_rcuhead, file_free_rcu);
}

// __alloc_file makes a file without a path: -ENOMEM or the file.
noinline struct file *__alloc_file(int flags, const struct cred *cred)
{
	struct file *f = kmem_cache_zalloc(filp_cachep, GFP_KERNEL);
	int err;

	if (!f)
		return ERR_PTR(-ENOMEM);
	f->f_cred = get_cred(cred);
	err = security_file_alloc(f);
	if (err) {
		put_cred(cred);
		kmem_cache_free(filp_cachep, f);
		return ERR_PTR(err);
	}
	atomic_long_set(&f->f_count, 1);
	rwlock_init(&f->f_owner.lock);
	spin_lock_init(&f->f_lock);
	mutex_init(&f->f_pos_lock);
	f->f_flags = flags;
	f->f_mode = (flags + 1) & O_ACCMODE; // O_RDONLY 0: read 1, O_WRONLY 1: write 2, O_RDWR 2: 3
	return f;
}

// alloc_empty_file is __alloc_file with the limit: it returns -ENFILE above it.
noinline struct file *alloc_empty_file(int flags, const struct cred *cred)
{
	struct file *f;

	if (atomic_long_read(&nr_files) >= MAX_FILES && !capable(21))
		return ERR_PTR(-ENFILE);
	f = __alloc_file(flags, cred);
	if (!IS_ERR(f))
		atomic_long_inc(&nr_files);
	return f;
}

// alloc_file_pseudo opens an inode without a name (a pipe or socket). It takes over
// the inode's reference unless it fails.
struct file *alloc_file_pseudo(struct inode *inode, struct vfsmount *mnt, const char *name, int flags, const struct file_operations *fops)
{
	struct qstr q = QSTR_INIT(name, strlen(name));
	struct path path = { .mnt = mnt };
	struct file *f;

	path.dentry = __d_alloc(mnt->mnt_sb, &q);
	if (!path.dentry)
		return ERR_PTR(-ENOMEM);
	f = alloc_empty_file(flags, current_cred());
	if (IS_ERR(f)) {
		dput(path.dentry);
		return f;
	}
	d_instantiate(path.dentry, inode);
	mntget(mnt);
	f->f_path = path;
	f->f_inode = inode;
	f->f_mapping = inode->i_mapping;
	f->f_op = fops;
	f->f_mode |= FMODE_OPENED;
	if (f->f_mode & FMODE_WRITE) {
		__mnt_want_write(mnt);
		atomic_inc(&inode->i_writecount);
	}
	if (f->f_mode & FMODE_READ && (fops->read || fops->read_iter))
		f->f_mode |= FMODE_CAN_READ;
	if (f->f_mode & FMODE_WRITE && (fops->write || fops->write_iter))
		f->f_mode |= FMODE_CAN_WRITE;
	return f;
}

// __fput releases a file without references.
static void __fput(struct file *file)
{
	struct dentry *dentry = file->f_path.dentry;
	struct vfsmount *mnt = file->f_path.mnt;
	struct inode *inode = file->f_inode;

	if (!(file->f_mode & FMODE_OPENED))
		goto out;
	if (file->f_op->release)
		file->f_op->release(inode, file);
	if (S_ISCHR(inode->i_mode) && inode->i_cdev && !(file->f_mode & FMODE_PATH))
		cdev_put(inode->i_cdev);
	fops_put(file->f_op);
	if (file->f_mode & FMODE_WRITE) {
		atomic_dec(&inode->i_writecount);
		__mnt_drop_write(mnt);
	}
	dput(dentry);
	mntput(mnt);
out:
	file_free(file);
}

void ____fput(struct callback_head *work)
{
	__fput(container_of(work, struct file, f_rcuhead));
}

static void delayed_fput(struct work_struct *unused)
{
	struct llist_node *node = llist_del_all(&delayed_fput_list), *next;

	for (; node; node = next) {
		next = node->next;
		__fput(container_of(node, struct file, f_llist));
	}
}

static DECLARE_DELAYED_WORK(delayed_fput_work, delayed_fput);

void flush_delayed_fput(void)
{
	delayed_fput(NULL);
	flush_delayed_work(&delayed_fput_work);
}

// runs_task_work reports whether the current task calls task_work_run: user tasks do,
// and tasks that make the host's calls, since releases must be done within the call.
static bool runs_task_work(void)
{
	return !in_interrupt() && (!(current->flags & PF_KTHREAD) || current_host_call());
}

noinline void fput(struct file *file)
{
	if (!atomic_long_dec_and_test(&file->f_count))
		return;
	if (runs_task_work()) {
		file->f_rcuhead.func = ____fput;
		if (!task_work_add(current, &file->f_rcuhead, TWA_RESUME))
			return;
	}
	if (llist_add(&file->f_llist, &delayed_fput_list))
		schedule_delayed_work(&delayed_fput_work, 1);
}
EXPORT_SYMBOL(fput);

// __fput_sync is for kernel threads that cannot wait for the worker.
void __fput_sync(struct file *file)
{
	if (atomic_long_dec_and_test(&file->f_count))
		__fput(file);
}

static noinline void __init files_init(void)
{
	filp_cachep = kmem_cache_create("filp", sizeof(struct file), 8, SLAB_HWCACHE_ALIGN | SLAB_PANIC, NULL);
}

// vfs_caches_init is called once before any file is opened.
void __init vfs_caches_init(void)
{
	dcache_init();
	inode_init();
	files_init();
	names_init();
	mnt_init();
}
