// Directories, inodes and mounts of the host's files: debugfs, tracefs, proc and
// others, with superblocks as on Linux.
//
// The host resolves a path before it makes the call. A lookup during the call is
// answered from the call: the last component is a file of call->mode, all others are
// directories. The cache keeps the result; a dentry that does not agree with a call
// is dropped.
#include <linux/hostfs.h>
#include <linux/namei.h>
#include <linux/host.h>

struct vfsmount *debugfs_mount, *tracefs_mount, *proc_mnt, *sysfs_mnt, *devtmpfs_mnt;

// calling returns the system call that the host makes in this task. It returns NULL
// in other tasks, and in functions that the host calls; their lookups find only what
// is in the cache.
static struct host_call *calling(void)
{
	struct host_call *call = current_host_call();

	return call && call->nr < HOST_CALL_FUNC ? call : NULL;
}

// foreign reports whether the call is about a file that kprobefs does not serve. Its
// path is resolved by the host only, and not kept in the cache.
static bool foreign(const struct host_call *call)
{
	return call->fops == FOPS_OTHER;
}

static void hostfs_refresh_inode(struct inode *inode, umode_t mode, unsigned int fops)
{
	struct super_block *sb = inode->i_sb;

	inode->i_mode = mode;
	if (S_ISDIR(mode))
		return;
	inode->i_private = (void *)hostfs_fops(fops, sb);
	if (fops == FOPS_OTHER)
		inode->i_fop = inode->i_private;
	else if (sb->s_type == &debug_fs_type)
		inode->i_fop = &debugfs_full_proxy_file_operations;
	else if (sb->s_type == &proc_fs_type && fops == FOPS_SEQ)
		inode->i_fop = &proc_reg_file_ops;
	else
		inode->i_fop = inode->i_private;
}

static int hostfs_d_revalidate(struct dentry *dentry, unsigned int flags)
{
	struct host_call *call = calling();
	struct inode *inode = READ_ONCE(dentry->d_inode);

	if (!call || dentry->d_flags & DCACHE_MOUNTED)
		return 1;
	if (!inode)
		return 0;
	if (flags & LOOKUP_PARENT)
		return S_ISDIR(inode->i_mode);
	if (!call->mode)
		return 1;
	if ((flags & LOOKUP_CREATE && !foreign(call)) || call->mode == HOST_MODE_NONE || (inode->i_mode ^ call->mode) & S_IFMT)
		return 0;
	hostfs_refresh_inode(inode, call->mode, call->fops);
	return 1;
}

// hostfs_d_delete: dentries of files that kprobefs does not serve are freed with
// their last reference.
static int hostfs_d_delete(const struct dentry *dentry)
{
	return dentry->d_fsdata && !(dentry->d_flags & DCACHE_MOUNTED);
}

static const struct dentry_operations hostfs_dentry_operations = {
	.d_revalidate = hostfs_d_revalidate,
	.d_delete = hostfs_d_delete,
};

static struct dentry *hostfs_lookup(struct inode *dir, struct dentry *dentry, unsigned int flags)
{
	struct host_call *call = calling();
	umode_t mode = S_IFDIR | 0755;
	struct inode *inode;

	if (call && foreign(call))
		dentry->d_fsdata = dentry;
	// The cache has all names of the kernel's own, and what the file's code looks up is
	// not the call's path.
	if (!call || call->fops == FOPS_GUEST || (flags & LOOKUP_CREATE && !foreign(call)))
		return simple_lookup(dir, dentry, flags);
	if (!(flags & LOOKUP_PARENT) && call->mode)
		mode = call->mode;
	if (call->mode == HOST_MODE_NONE && !(flags & LOOKUP_PARENT))
		return simple_lookup(dir, dentry, flags);
	inode = hostfs_get_inode(dir->i_sb, mode);
	if (!inode)
		return ERR_PTR(-ENOMEM);
	hostfs_refresh_inode(inode, mode, call->fops);
	dentry->d_flags |= DCACHE_FOUND;
	return d_splice_alias(inode, dentry);
}

// hostfs_create is called for a name that does not exist on the host yet. The host's
// open creates it.
static int hostfs_create(IDMAP_PARAM struct inode *dir, struct dentry *dentry, umode_t mode, bool excl)
{
	struct host_call *call = calling();
	struct inode *inode = call ? hostfs_get_inode(dir->i_sb, mode) : NULL;

	if (!inode)
		return call ? -ENOMEM : -EACCES;
	hostfs_refresh_inode(inode, mode, call->fops);
	dentry->d_flags |= DCACHE_FOUND;
	d_instantiate(dentry, inode);
	return 0;
}

// Files that the host's processes create and remove elsewhere. Their names are the
// host's; nothing is stored here.
static int hostfs_make(struct inode *dir, struct dentry *dentry, umode_t mode)
{
	struct host_call *call = calling();
	struct inode *inode;

	if (!call || !foreign(call))
		return -EPERM;
	inode = hostfs_get_inode(dir->i_sb, mode);
	if (!inode)
		return -ENOMEM;
	d_instantiate(dentry, inode);
	return 0;
}

static int hostfs_mkdir(IDMAP_PARAM struct inode *dir, struct dentry *dentry, umode_t mode)
{
	return hostfs_make(dir, dentry, mode | S_IFDIR);
}

static int hostfs_symlink(IDMAP_PARAM struct inode *dir, struct dentry *dentry, const char *symname)
{
	return hostfs_make(dir, dentry, S_IFLNK | S_IRWXUGO);
}

static int hostfs_unlink(struct inode *dir, struct dentry *dentry)
{
	struct host_call *call = calling();

	if (!call || !foreign(call))
		return -EPERM;
	drop_nlink(dentry->d_inode);
	return 0;
}

static int hostfs_getattr(IDMAP_PARAM const struct path *path, struct kstat *stat, u32 request_mask, unsigned int query_flags)
{
	struct host_call *call = calling();
	ssize_t ret = call && !foreign(call) ? host_file_op(call, FILE_OP_STAT, 0, 0) : 0;

	if (ret < 0)
		return ret;
	generic_fillattr(IDMAP_ARG(idmap) REQUEST_ARG(request_mask) path->dentry->d_inode, stat);
	return host_result(0);
}

static const struct inode_operations hostfs_dir_inode_operations = {
	.lookup = hostfs_lookup,
	.create = hostfs_create,
	.mkdir = hostfs_mkdir,
	.symlink = hostfs_symlink,
	.unlink = hostfs_unlink,
	.rmdir = hostfs_unlink,
	.getattr = hostfs_getattr,
};

static const struct inode_operations hostfs_file_inode_operations = {
	.getattr = hostfs_getattr,
};

static int proc_sys_permission(IDMAP_PARAM struct inode *inode, int mask);

static const struct inode_operations proc_dir_inode_operations = {
	.lookup = hostfs_lookup,
	.create = hostfs_create,
	.getattr = hostfs_getattr,
	.permission = proc_sys_permission,
};

static const struct inode_operations proc_file_inode_operations = {
	.getattr = hostfs_getattr,
	.permission = proc_sys_permission,
};

// proc_sys_permission: a sysctl has its own modes, which the host has checked.
// /proc/self/exe is an executable file of the host.
static __noipa int proc_sys_permission(IDMAP_PARAM struct inode *inode, int mask)
{
	struct host_call *call = calling();

	if (call && foreign(call))
		return generic_permission(IDMAP_ARG(idmap) inode, mask);
	return mask & MAY_EXEC && S_ISREG(inode->i_mode) ? -EACCES : 0;
}

// hostfs_get_inode makes an inode of one of the filesystems here.
struct inode *hostfs_get_inode(struct super_block *sb, umode_t mode)
{
	struct inode *inode = new_inode(sb);
	bool proc = sb->s_type == &proc_fs_type;

	if (!inode)
		return NULL;
	inode->i_ino = get_next_ino();
	inode->i_mode = mode;
	inode->i_atime = inode->i_mtime = inode->i_ctime = current_time(inode);
	if (S_ISDIR(mode)) {
		inode->i_op = proc ? &proc_dir_inode_operations : &hostfs_dir_inode_operations;
		inode->i_fop = &hostfs_dir_operations;
		inc_nlink(inode);
	} else {
		inode->i_op = proc ? &proc_file_inode_operations : &hostfs_file_inode_operations;
	}
	return inode;
}

static const struct super_operations hostfs_super_operations;

static int hostfs_fill_super(struct super_block *sb)
{
	sb->s_op = &hostfs_super_operations;
	sb->s_d_op = &hostfs_dentry_operations;
	sb->s_root = d_make_root(hostfs_get_inode(sb, S_IFDIR | 0755));
	return sb->s_root ? 0 : -ENOMEM;
}

static int debug_fill_super(struct super_block *sb)
{
	sb->s_magic = 0x64626720;
	return hostfs_fill_super(sb);
}

static int trace_fill_super(struct super_block *sb)
{
	sb->s_magic = 0x74726163;
	return hostfs_fill_super(sb);
}

static int proc_fill_super(struct super_block *sb)
{
	sb->s_magic = 0x9fa0;
	return hostfs_fill_super(sb);
}

static int sysfs_fill_super(struct super_block *sb)
{
	sb->s_magic = 0x62656572;
	return hostfs_fill_super(sb);
}

static struct file_system_type rootfs_fs_type = { .name = "rootfs", .fill_super = hostfs_fill_super };
static struct file_system_type sysfs_fs_type = { .name = "sysfs", .fill_super = sysfs_fill_super };
static struct file_system_type dev_fs_type = { .name = "devtmpfs", .fill_super = hostfs_fill_super };
struct file_system_type debug_fs_type = { .name = "debugfs", .fill_super = debug_fill_super };
struct file_system_type trace_fs_type = { .name = "tracefs", .fill_super = trace_fill_super };
struct file_system_type proc_fs_type = { .name = "proc", .fill_super = proc_fill_super };

struct vfsmount *clone_mnt(struct vfsmount *mnt);

// make_dir makes a mount point.
static void __init make_dir(const char *name)
{
	struct path path;
	struct dentry *d = kern_path_create(AT_FDCWD, name, &path, LOOKUP_DIRECTORY);

	if (IS_ERR(d))
		return;
	d_instantiate(d, hostfs_get_inode(d->d_sb, S_IFDIR | 0755));
	dget(d);
	done_path_create(&path, d);
}

static struct vfsmount *__init mount_new(struct file_system_type *type, const char *at)
{
	struct vfsmount *mnt = vfs_kern_mount(type);
	int err;

	if (IS_ERR(mnt))
		panic("cannot mount %s", type->name);
	make_dir(at);
	err = mount_at(mnt, at);
	if (err)
		panic("cannot mount %s: error %d", at, err);
	return mnt;
}

// hostfs_init_root makes the root filesystem.
struct vfsmount *__init hostfs_init_root(void)
{
	static struct file_system_type *const types[] = {
		&rootfs_fs_type, &sysfs_fs_type, &dev_fs_type, &debug_fs_type, &trace_fs_type, &proc_fs_type,
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(types); i++)
		register_filesystem(types[i]);
	return vfs_kern_mount(&rootfs_fs_type);
}

extern struct file_system_type ramfs_fs_type;
void tracefs_init_events(void);
void sysfs_init(void);

// hostfs_init_mounts mounts the other filesystems, tracefs at both its mount points.
void __init hostfs_init_mounts(void)
{
	register_filesystem(&ramfs_fs_type);
	proc_mnt = mount_new(&proc_fs_type, "/proc");
	make_dir("/proc/sys");
	make_dir("/proc/sys/debug");
	make_dir("/proc/sys/kernel");
	sysfs_mnt = mount_new(&sysfs_fs_type, "/sys");
	make_dir("/sys/kernel");
	sysfs_init();
	debugfs_mount = mount_new(&debug_fs_type, "/sys/kernel/debug");
	tracefs_mount = mount_new(&trace_fs_type, "/sys/kernel/tracing");
	make_dir("/sys/kernel/debug/tracing");
	mount_at(clone_mnt(tracefs_mount), "/sys/kernel/debug/tracing");
	tracefs_init_events();
	devtmpfs_mnt = mount_new(&dev_fs_type, "/dev");
	mount_new(&ramfs_fs_type, "/ram"); // /tmp is the host's
}
