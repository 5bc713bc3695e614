// Names of the kernel's own in the host's filesystems: files of modules. The host shows
// each, and makes the system calls of its programs on it here.
#include <linux/hostfs.h>
#include <linux/host.h>
#include <linux/namei.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/err.h>

// The layout is kernel/abi's.
struct host_entry {
	u64 op, path, path_len, link, link_len;
	u64 ino, mode, uid, gid, size;
};

// Longer paths are not shown.
#define ENTRY_PATH_MAX 1000

static const char *mounted_at(const struct super_block *sb)
{
	const char *type = sb->s_type->name;

	if (!strcmp(type, "debugfs"))
		return "/sys/kernel/debug";
	if (!strcmp(type, "sysfs"))
		return "/sys";
	if (!strcmp(type, "devtmpfs"))
		return "/dev";
	return strcmp(type, "proc") ? NULL : "/proc";
}

// hostfs_path writes the absolute path of a dentry to buf's end and returns its start, or
// NULL if it is too long or in no filesystem that the host shows.
char *hostfs_path(const struct dentry *dentry, char *buf, int size)
{
	const char *root = mounted_at(dentry->d_sb);
	char *at = root ? dentry_path_raw(dentry, buf, size) : NULL;
	size_t n;

	if (IS_ERR_OR_NULL(at))
		return NULL;
	n = strlen(root);
	if (at - buf < (long)n)
		return NULL;
	return memcpy(at - n, root, n);
}

static void tell(int op, const struct dentry *dentry, const char *link)
{
	struct inode *inode = dentry->d_inode;
	struct host_entry e = { .op = op, .link = (u64)link, .link_len = link ? strlen(link) : 0 };
	char *buf = kmalloc(ENTRY_PATH_MAX, GFP_KERNEL);
	char *path = buf ? hostfs_path(dentry, buf, ENTRY_PATH_MAX) : NULL;

	if (path && inode) {
		e.path = (u64)path;
		e.path_len = strlen(path);
		e.ino = inode->i_ino;
		e.mode = inode->i_mode;
		e.uid = inode->i_uid.val;
		e.gid = inode->i_gid.val;
		e.size = inode->i_size;
		hypercall1(HC_ENTRY, &e);
	}
	kfree(buf);
}

void hostfs_announce(struct dentry *dentry)
{
	tell(ENTRY_ADD, dentry, d_is_symlink(dentry) ? dentry->d_inode->i_link : NULL);
}

void hostfs_retract(struct dentry *dentry)
{
	tell(ENTRY_REMOVE, dentry, NULL);
}

void hostfs_moved(struct dentry *dentry, const char *old)
{
	tell(ENTRY_MOVE, dentry, old);
}

static struct dentry *make(struct dentry *dir, const char *name, struct inode *inode, void *fsdata, const struct dentry_operations *dops)
{
	struct dentry *dentry = inode ? start_creating_in(name, dir) : ERR_PTR(-ENOMEM);

	if (IS_ERR(dentry)) {
		iput(inode);
		return dentry;
	}
	dentry->d_fsdata = fsdata;
	dentry->d_flags &= ~DCACHE_OP_REVALIDATE;
	if (dops)
		d_set_d_op(dentry, dops);
	d_instantiate(dentry, inode);
	if (S_ISDIR(inode->i_mode))
		inc_nlink(dir->d_inode);
	hostfs_announce(dentry);
	return end_creating_in(dentry);
}

struct dentry *hostfs_make_file(struct dentry *dir, const char *name, umode_t mode, const struct file_operations *fops,
				void *private, loff_t size, void *fsdata, const struct dentry_operations *dops)
{
	struct inode *inode = hostfs_get_inode(dir->d_sb, mode);

	if (inode) {
		inode->i_fop = fops;
		inode->i_private = private;
		inode->i_size = size;
	}
	return make(dir, name, inode, fsdata, dops);
}

struct dentry *hostfs_make_dir(struct dentry *dir, const char *name, umode_t mode)
{
	return make(dir, name, hostfs_get_inode(dir->d_sb, S_IFDIR | mode), NULL, NULL);
}

static void link_release(struct dentry *dentry)
{
	kfree(dentry->d_fsdata);
}

static const struct dentry_operations link_dops = {
	.d_release = link_release,
};

struct dentry *hostfs_make_link(struct dentry *dir, const char *name, const char *target)
{
	struct inode *inode = hostfs_get_inode(dir->d_sb, S_IFLNK | S_IRWXUGO);
	char *text = kstrdup(target, GFP_KERNEL);
	struct dentry *dentry;

	if (!inode || !text) {
		iput(inode);
		kfree(text);
		return ERR_PTR(-ENOMEM);
	}
	inode->i_link = text;
	inode->i_op = &simple_symlink_inode_operations;
	dentry = make(dir, name, inode, text, &link_dops);
	if (IS_ERR(dentry))
		kfree(text);
	return dentry;
}
