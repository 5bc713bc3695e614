// Mounts. There is one mount namespace. Mounts are made at boot and never removed.
#include <linux/fs.h>
#include <linux/err.h>
#include <linux/host.h>
#include <linux/ns_common.h>
#include <linux/nsproxy.h>
#include <linux/rcupdate.h>
#include <linux/security.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/syscalls.h>

struct mount {
	struct hlist_node mnt_hash;
	struct mount *mnt_parent; // points to itself if not mounted
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
	atomic_t mnt_count, mnt_writers;
};

static struct hlist_head mount_hashtable[64];
static DEFINE_SPINLOCK(mount_lock);
#if GUEST_LINUX >= 612
struct mnt_idmap {
	struct user_namespace *owner;
	refcount_t count;
} nop_mnt_idmap = { .count = REFCOUNT_INIT(1) };
#endif

static struct mount *real_mount(struct vfsmount *mnt)
{
	return container_of(mnt, struct mount, mnt);
}

static struct hlist_head *m_hash(struct vfsmount *mnt, struct dentry *dentry)
{
	unsigned long h = (unsigned long)mnt / 64 + (unsigned long)dentry / 64;

	return &mount_hashtable[(h ^ h >> 6) % ARRAY_SIZE(mount_hashtable)];
}

// __lookup_mnt returns the mount on dentry of mnt, without a reference. The caller
// holds rcu_read_lock or mount_lock.
noinline struct vfsmount *__lookup_mnt(struct vfsmount *mnt, struct dentry *dentry)
{
	struct mount *m;

	hlist_for_each_entry_rcu(m, m_hash(mnt, dentry), mnt_hash) {
		if (&m->mnt_parent->mnt == mnt && m->mnt_mountpoint == dentry)
			return &m->mnt;
	}
	return NULL;
}

struct vfsmount *lookup_mnt(const struct path *path)
{
	struct vfsmount *m;

	rcu_read_lock();
	m = mntget(__lookup_mnt(path->mnt, path->dentry));
	rcu_read_unlock();
	return m;
}

// follow_up_mount goes from a mount to the directory that it is mounted on. It
// returns false at the root, and takes no references.
bool follow_up_mount(struct path *path)
{
	struct mount *m = real_mount(path->mnt);

	if (m->mnt_parent == m)
		return false;
	path->mnt = &m->mnt_parent->mnt;
	path->dentry = m->mnt_mountpoint;
	return true;
}

noinline struct vfsmount *mntget(struct vfsmount *mnt)
{
	if (mnt)
		atomic_inc(&real_mount(mnt)->mnt_count);
	return mnt;
}

// mntput_no_expire drops a reference. A mounted mount has a reference to itself, so
// only unmounted ones are freed.
static __noipa void mntput_no_expire(struct mount *mnt)
{
	rcu_read_lock();
	if (!atomic_dec_and_test(&mnt->mnt_count)) {
		rcu_read_unlock();
		return;
	}
	rcu_read_unlock();
	dput(mnt->mnt.mnt_root);
	kfree(mnt);
}

noinline void mntput(struct vfsmount *mnt)
{
	if (mnt)
		mntput_no_expire(real_mount(mnt));
}

// __mnt_want_write counts a writer. It returns -EROFS on a read-only mount.
noinline int __mnt_want_write(struct vfsmount *mnt)
{
	if (mnt->mnt_flags & 0x40)
		return -EROFS;
	atomic_inc(&real_mount(mnt)->mnt_writers);
	return 0;
}

noinline void __mnt_drop_write(struct vfsmount *mnt)
{
	atomic_dec(&real_mount(mnt)->mnt_writers);
}

int mnt_want_write(struct vfsmount *mnt)
{
	return __mnt_want_write(mnt);
}

void mnt_drop_write(struct vfsmount *mnt)
{
	__mnt_drop_write(mnt);
}

static struct mount *alloc_vfsmnt(struct super_block *sb)
{
	struct mount *m = kzalloc(sizeof(*m), GFP_KERNEL);

	if (!m)
		return NULL;
	m->mnt.mnt_sb = sb;
	m->mnt.mnt_root = dget(sb->s_root);
#if GUEST_LINUX >= 601
	m->mnt.mnt_idmap = init_idmap;
#endif
	m->mnt_parent = m;
	m->mnt_mountpoint = sb->s_root;
	atomic_set(&m->mnt_count, 1);
	return m;
}

// clone_mnt makes another mount of the same filesystem.
struct vfsmount *clone_mnt(struct vfsmount *mnt)
{
	struct mount *m = alloc_vfsmnt(mnt->mnt_sb);

	return m ? &m->mnt : NULL;
}

// vfs_kern_mount makes a new superblock of a type and a mount of it.
struct vfsmount *vfs_kern_mount(struct file_system_type *type)
{
	struct super_block *sb = alloc_super(type);
	struct mount *m;
	int err;

	if (!sb)
		return ERR_PTR(-ENOMEM);
	err = type->fill_super(sb);
	if (err)
		return ERR_PTR(err);
	m = alloc_vfsmnt(sb);
	return m ? &m->mnt : ERR_PTR(-ENOMEM);
}

struct vfsmount *kern_mount(struct file_system_type *type)
{
	return vfs_kern_mount(type);
}

// mount_at mounts mnt on a directory.
int mount_at(struct vfsmount *mnt, const char *name)
{
	struct mount *m = real_mount(mnt);
	struct path path;
	int err = kern_path(name, LOOKUP_FOLLOW | LOOKUP_DIRECTORY, &path);

	if (err)
		return err;
	spin_lock(&mount_lock);
	m->mnt_parent = real_mount(path.mnt);
	m->mnt_mountpoint = path.dentry;
	hlist_add_head_rcu(&m->mnt_hash, m_hash(path.mnt, path.dentry));
	path.dentry->d_flags |= DCACHE_MOUNTED;
	spin_unlock(&mount_lock);
	return 0;
}

struct vfsmount *hostfs_init_root(void);
void hostfs_init_mounts(void);

// The one namespace of mounts, which programs read through nsproxy.
struct mnt_namespace {
	struct ns_common ns;
	struct vfsmount *root;
};
static struct mnt_namespace root_mnt_ns = { .ns = { .inum = MNT_INIT_INO, .count = REFCOUNT_INIT(1) } };

// mnt_init mounts the root filesystem and all others.
void __init mnt_init(void)
{
	struct vfsmount *mnt = hostfs_init_root();
	struct path root;

	if (IS_ERR(mnt))
		panic("no root filesystem");
	root = (struct path){ .mnt = mnt, .dentry = mnt->mnt_root };
	set_fs_pwd(current->fs, &root);
	set_fs_root(current->fs, &root);
	root_mnt_ns.root = mnt;
	current->nsproxy->mnt_ns = &root_mnt_ns;
	hostfs_init_mounts();
}

static char *copy_mount_string(const void __user *data)
{
	return data ? strndup_user(data, PATH_MAX) : NULL;
}

// Before 5.9 one function looked the directory up and mounted.
#if defined(KERNEL_2_6) || defined(KERNEL_4_15)
#define PATH_MOUNT static __always_inline
#define DO_MOUNT noinline __noclone
long do_mount(const char *dev_name, const char __user *dir_name, const char *type_page, unsigned long flags, void *data_page);
#else
#define PATH_MOUNT noinline __noclone
#define DO_MOUNT static __always_inline
int path_mount(const char *dev_name, struct path *path, const char *type_page, unsigned long flags, void *data_page);
#endif

// path_mount is mount(2) with its names looked up. The host's kernel mounts.
PATH_MOUNT int path_mount(const char *dev_name, struct path *path, const char *type_page, unsigned long flags, void *data_page)
{
	int err = security_sb_mount(dev_name, path, type_page, flags, data_page);

	return host_result(err);
}

DO_MOUNT long do_mount(const char *dev_name, const char __user *dir_name, const char *type_page, unsigned long flags, void *data_page)
{
	struct path path;
	int err = user_path_at_empty(AT_FDCWD, dir_name, LOOKUP_FOLLOW, &path, NULL);

	if (err)
		return host_result(err);
	err = path_mount(dev_name, &path, type_page, flags, data_page);
	path_put(&path);
	return err;
}

SYSCALL_DEFINE5(mount, char __user *, dev_name, char __user *, dir_name, char __user *, type, unsigned long, flags, void __user *, data)
{
	char *kernel_type, *kernel_dev;
	long ret;

	if (!host_mirrors())
		return host_only();
	kernel_type = copy_mount_string(type);
	if (IS_ERR(kernel_type))
		return host_made();
	kernel_dev = copy_mount_string(dev_name);
	if (IS_ERR(kernel_dev))
		ret = host_made();
	else
		ret = do_mount(kernel_dev, dir_name, kernel_type, flags, data);
	if (!IS_ERR(kernel_dev))
		kfree(kernel_dev);
	kfree(kernel_type);
	return ret;
}
