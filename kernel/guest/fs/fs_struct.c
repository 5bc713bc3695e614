// Root and working directory of tasks.
#include <linux/fs.h>

struct fs_struct init_fs = {
	.users = 1,
	.lock = __SPIN_LOCK_UNLOCKED(init_fs.lock),
	.umask = 0022,
};

// replace sets *at to path with new references.
static void replace(struct fs_struct *fs, struct path *at, const struct path *path)
{
	struct path old;

	path_get(path);
	spin_lock(&fs->lock);
	write_seqcount_begin(&fs->seq);
	old = *at;
	*at = *path;
	write_seqcount_end(&fs->seq);
	spin_unlock(&fs->lock);
	if (old.dentry)
		path_put(&old);
}

void set_fs_root(struct fs_struct *fs, const struct path *path)
{
	replace(fs, &fs->root, path);
}

void set_fs_pwd(struct fs_struct *fs, const struct path *path)
{
	replace(fs, &fs->pwd, path);
}

void free_fs_struct(struct fs_struct *fs)
{
	path_put(&fs->root);
	path_put(&fs->pwd);
	kfree(fs);
}

struct fs_struct *copy_fs_struct(struct fs_struct *old)
{
	struct fs_struct *fs = kzalloc(sizeof(*fs), GFP_KERNEL);

	if (!fs)
		return NULL;
	fs->users = 1;
	fs->umask = old->umask;
	spin_lock_init(&fs->lock);
	spin_lock(&old->lock);
	fs->root = old->root;
	fs->pwd = old->pwd;
	path_get(&fs->root);
	path_get(&fs->pwd);
	spin_unlock(&old->lock);
	return fs;
}

void exit_fs(struct task_struct *tsk)
{
	struct fs_struct *fs = tsk->fs;
	bool last;

	if (!fs)
		return;
	task_lock(tsk);
	spin_lock(&fs->lock);
	tsk->fs = NULL;
	last = !--fs->users;
	spin_unlock(&fs->lock);
	task_unlock(tsk);
	if (last)
		free_fs_struct(fs);
}

int current_umask(void)
{
	return current->fs->umask;
}
EXPORT_SYMBOL(current_umask);
