// tracefs: directories and files of the tracer.
#include <linux/hostfs.h>
#include <linux/security.h>

// Modes of directories, of readable files, and of writable files. In 5.10 other users
// may read.
#if GUEST_LINUX < 601
#define DIR_MODE 0755
#define READ_MODE 0444
#define WRITE_MODE 0644
#else
#define DIR_MODE 0750
#define READ_MODE 0440
#define WRITE_MODE 0640
#endif

static int tracefs_mount_count = 1; // the boot's mount

noinline struct inode *tracefs_get_inode(struct super_block *sb)
{
	return hostfs_get_inode(sb, S_IFREG);
}

bool tracefs_initialized(void)
{
	return tracefs_mount;
}

// start_creating returns a negative dentry in parent, which is locked, or -EEXIST.
static __noipa struct dentry *start_creating(const char *name, struct dentry *parent)
{
	struct dentry *dentry;
	int err = simple_pin_fs(&trace_fs_type, &tracefs_mount, &tracefs_mount_count);

	if (err)
		return ERR_PTR(err);
	dentry = start_creating_in(name, parent ? parent : tracefs_mount->mnt_root);
	if (IS_ERR(dentry))
		simple_release_fs(&tracefs_mount, &tracefs_mount_count);
	return dentry;
}

static __noipa struct dentry *__create_dir(const char *name, struct dentry *parent, const struct inode_operations *ops)
{
	struct dentry *dentry = start_creating(name, parent);
	struct inode *inode;

	if (IS_ERR(dentry))
		return NULL;
	inode = tracefs_get_inode(dentry->d_sb);
	if (!inode) {
		end_creating_in(dentry);
		dput(dentry);
		return NULL;
	}
	inode->i_mode = S_IFDIR | DIR_MODE;
	inode->i_op = dentry->d_parent->d_inode->i_op;
	inode->i_fop = &hostfs_dir_operations;
	inc_nlink(inode);
	d_instantiate(dentry, inode);
	inc_nlink(dentry->d_parent->d_inode);
	return end_creating_in(dentry);
}

// tracefs_create_dir returns the directory's dentry, or NULL when it cannot be made.
noinline __noclone struct dentry *tracefs_create_dir(const char *name, struct dentry *parent)
{
	if (security_locked_down(LOCKDOWN_TRACEFS))
		return NULL;
	return __create_dir(name, parent, NULL);
}

noinline __noclone struct dentry *tracefs_create_file(const char *name, umode_t mode, struct dentry *parent, void *data, const struct file_operations *fops)
{
	struct dentry *dentry;
	struct inode *inode;

	if (security_locked_down(LOCKDOWN_TRACEFS))
		return NULL;
	dentry = start_creating(name, parent);
	if (IS_ERR(dentry))
		return NULL;
	inode = tracefs_get_inode(dentry->d_sb);
	if (!inode) {
		end_creating_in(dentry);
		dput(dentry);
		return NULL;
	}
	inode->i_mode = (mode & S_IALLUGO) | S_IFREG;
	inode->i_fop = fops ? fops : &simple_dir_operations;
	inode->i_private = data;
	d_instantiate(dentry, inode);
	return end_creating_in(dentry);
}

static void remove_one(struct dentry *victim)
{
	simple_release_fs(&tracefs_mount, &tracefs_mount_count);
}

// tracefs_remove removes a file or directory made by tracefs_create_*, with
// everything below it.
noinline __noclone void tracefs_remove(struct dentry *dentry)
{
	if (IS_ERR_OR_NULL(dentry))
		return;
	simple_recursive_removal(dentry, remove_one);
}

#if GUEST_LINUX >= 612
// From 6.12 on the directories of events are no dentries until somebody looks them up,
// which the host does: the kernel has only these.
struct eventfs_inode {
	struct list_head list; // in the parent's children
	struct list_head children;
	const char *name;
};

static DEFINE_MUTEX(eventfs_mutex);
static struct eventfs_inode events = { .children = LIST_HEAD_INIT(events.children) };

void __init tracefs_init_events(void)
{
}

// add_child adds a directory to its parent's, or returns NULL.
static struct eventfs_inode *add_child(struct eventfs_inode *parent, const char *name)
{
	struct eventfs_inode *ei = kzalloc(sizeof(*ei), GFP_KERNEL);

	if (!ei)
		return NULL;
	ei->name = kstrdup(name, GFP_KERNEL);
	if (!ei->name) {
		kfree(ei);
		return NULL;
	}
	INIT_LIST_HEAD(&ei->children);
	mutex_lock(&eventfs_mutex);
	list_add_tail(&ei->list, &parent->children);
	mutex_unlock(&eventfs_mutex);
	return ei;
}

// eventfs_create_dir returns a new directory below parent, or an error. Its files are the
// host's, so that entries, size and data are not used.
noinline __noclone struct eventfs_inode *eventfs_create_dir(const char *name, struct eventfs_inode *parent, const void *entries, int size, void *data)
{
	struct eventfs_inode *ei;

	if (!parent)
		return ERR_PTR(-EINVAL);
	ei = add_child(parent, name);
	return ei ? ei : ERR_PTR(-ENOMEM);
}

// eventfs_remove_rec frees a directory and all below it. The caller holds eventfs_mutex.
static noinline void eventfs_remove_rec(struct eventfs_inode *ei, int level)
{
	struct eventfs_inode *child, *next;

	if (level > 3)
		return;
	list_for_each_entry_safe(child, next, &ei->children, list)
		eventfs_remove_rec(child, level + 1);
	list_del(&ei->list);
	kfree(ei->name);
	kfree(ei);
}

// eventfs_remove_dir removes a directory with all below it.
noinline __noclone void eventfs_remove_dir(struct eventfs_inode *ei)
{
	if (!ei)
		return;
	mutex_lock(&eventfs_mutex);
	eventfs_remove_rec(ei, 0);
	mutex_unlock(&eventfs_mutex);
}

// child returns a directory's child with this name, or NULL.
static struct eventfs_inode *child(struct eventfs_inode *dir, const char *name)
{
	struct eventfs_inode *ei, *next, *found = NULL;

	mutex_lock(&eventfs_mutex);
	list_for_each_entry_safe(ei, next, &dir->children, list)
		if (!strcmp(ei->name, name))
			found = ei;
	mutex_unlock(&eventfs_mutex);
	return found;
}

// host_make_system makes the directory of a subsystem of events.
u64 host_make_system(const char *system)
{
	eventfs_create_dir(system, &events, NULL, 0, NULL);
	return 0;
}

// host_make_event makes an event's directory. The subsystem's may so far be known to the
// host only.
u64 host_make_event(const char *system, const char *name)
{
	struct eventfs_inode *dir = child(&events, system);

	if (!dir)
		dir = add_child(&events, system);
	if (!dir)
		return -ENOMEM;
	eventfs_create_dir(name, dir, NULL, 0, NULL);
	return 0;
}

u64 host_remove_system(const char *system)
{
	eventfs_remove_dir(child(&events, system));
	return 0;
}

u64 host_remove_event(const char *system, const char *name)
{
	struct eventfs_inode *dir = child(&events, system);

	eventfs_remove_dir(dir ? child(dir, name) : NULL);
	return 0;
}
#else
// The directory events. The host, which has the events, calls the functions below to
// create and remove their directories, so that this happens as on Linux.
static struct dentry *events;

void __init tracefs_init_events(void)
{
	events = tracefs_create_dir("events", NULL);
}

// child returns a child in the cache, or adds a directory that so far only the host
// knew. It takes no reference.
static struct dentry *child(struct dentry *dir, const char *name, bool make)
{
	struct qstr q = QSTR_INIT(name, strlen(name));
	struct dentry *d = d_hash_and_lookup(dir, &q);
	struct inode *inode;

	if (d || !make)
		return d;
	d = d_alloc(dir, &q);
	inode = d ? hostfs_get_inode(dir->d_sb, S_IFDIR | DIR_MODE) : NULL;
	if (inode) {
		d->d_flags |= DCACHE_FOUND;
		d_add(d, inode);
	}
	return d;
}

static void make_files(struct dentry *dir, const char *const *names, int n)
{
	while (dir && n-- > 0)
		tracefs_create_file(*names, !strcmp(*names, "id") || !strcmp(*names, "hist") || !strcmp(*names, "format") ? READ_MODE : WRITE_MODE, dir, NULL, NULL), names++;
}

// host_make_system makes the directory of a subsystem of events.
u64 host_make_system(const char *system)
{
	static const char *const names[] = { "filter", "enable" };

	make_files(tracefs_create_dir(system, events), names, ARRAY_SIZE(names));
	return 0;
}

// host_make_event makes an event's directory, with its files.
u64 host_make_event(const char *system, const char *name)
{
	static const char *const names[] = {
		"enable", "id", "filter", "trigger",
#if GUEST_LINUX >= 601 // Debian's is built without CONFIG_HIST_TRIGGERS
		"hist",
#endif
		"format",
	};
	struct dentry *dir = child(events, system, true);

	if (!dir)
		return -ENOMEM;
	make_files(tracefs_create_dir(name, dir), names, ARRAY_SIZE(names));
	dput(dir);
	return 0;
}

// take_away removes a directory that tracefs_create_dir or a lookup has added.
static u64 take_away(struct dentry *d)
{
	if (d) {
		tracefs_remove(d);
		dput(d);
	}
	return 0;
}

u64 host_remove_system(const char *system)
{
	return take_away(child(events, system, false));
}

u64 host_remove_event(const char *system, const char *name)
{
	struct dentry *dir = child(events, system, false);
	u64 ret = dir ? take_away(child(dir, name, false)) : 0;

	dput(dir);
	return ret;
}
#endif
