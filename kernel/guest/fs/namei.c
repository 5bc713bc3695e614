// Paths: from names to dentries.
//
// A walk begins in RCU mode: it takes no references, uses the dentry cache only, and
// validates dentries by d_seq. If that is not enough (a miss, a revalidation, a
// symbolic link, the end of the path), try_to_unlazy takes the references. If it
// fails, the walk is restarted without RCU mode.
#include <linux/host.h>
#include <linux/hostfs.h>
#include <linux/namei.h>
#include <linux/rcupdate.h>
#include <linux/syscalls.h>
#include <linux/uaccess.h>
#include <linux/export.h>

static struct kmem_cache *names_cachep;

#define WALK_MORE 2 // there are components after this one
#define WALK_NOFOLLOW 4

// getname_flags copies a path from user space. It returns -EFAULT, -ENAMETOOLONG, or
// -ENOENT if the path is empty and flags lacks LOOKUP_EMPTY.
noinline struct filename *getname_flags(const char __user *filename, int flags, int *empty)
{
	struct filename *name = kmem_cache_alloc(names_cachep, GFP_KERNEL);
	char *kname;
	long len;

	if (!name)
		return ERR_PTR(-ENOMEM);
	kname = (char *)name->iname;
	name->name = kname;
	len = strncpy_from_user(kname, filename, EMBEDDED_NAME_MAX);
	if (len == (long)EMBEDDED_NAME_MAX)
		len = -ENAMETOOLONG;
	if (!len) {
		if (empty)
			*empty = 1;
		if (!(flags & LOOKUP_EMPTY))
			len = -ENOENT;
	}
	if (len < 0) {
		kmem_cache_free(names_cachep, name);
		return ERR_PTR(len);
	}
	atomic_set(&name->refcnt, 1);
	name->uptr = filename;
	name->aname = NULL;
	return name;
}

noinline struct filename *getname(const char __user *filename)
{
	return getname_flags(filename, 0, NULL);
}

noinline struct filename *getname_kernel(const char *filename)
{
	struct filename *name;
	size_t len = strlen(filename) + 1;

	if (len > EMBEDDED_NAME_MAX)
		return ERR_PTR(-ENAMETOOLONG);
	name = kmem_cache_alloc(names_cachep, GFP_KERNEL);
	if (!name)
		return ERR_PTR(-ENOMEM);
	memcpy((char *)name->iname, filename, len);
	name->name = name->iname;
	name->uptr = NULL;
	name->aname = NULL;
	atomic_set(&name->refcnt, 1);
	return name;
}

noinline void putname(struct filename *name)
{
	if (!IS_ERR(name) && atomic_dec_and_test(&name->refcnt))
		kmem_cache_free(names_cachep, name);
}

noinline void path_get(const struct path *path)
{
	mntget(path->mnt);
	dget(path->dentry);
}
EXPORT_SYMBOL(path_get);

noinline void path_put(const struct path *path)
{
	dput(path->dentry);
	mntput(path->mnt);
}
EXPORT_SYMBOL(path_put);

// acl_permission_check checks the mode bits only.
static int acl_permission_check(struct inode *inode, int mask)
{
	unsigned int mode = inode->i_mode;

	mask &= MAY_READ | MAY_WRITE | MAY_EXEC;
	if (current_fsuid().val == inode->i_uid.val)
		mode >>= 6;
	else if (current_cred()->fsgid.val == inode->i_gid.val)
		mode >>= 3;
	return mask & ~mode ? -EACCES : 0;
}

#define CAP_DAC_OVERRIDE 1

int generic_permission(IDMAP_PARAM struct inode *inode, int mask)
{
	int ret = acl_permission_check(inode, mask);

	if (ret != -EACCES || !capable(CAP_DAC_OVERRIDE))
		return ret;
	// Root too may execute only files with an x bit.
	if (mask & MAY_EXEC && !S_ISDIR(inode->i_mode) && !(inode->i_mode & 0111))
		return -EACCES;
	return 0;
}

// inode_permission checks that the current task has the permissions in mask (MAY_*).
noinline int inode_permission(IDMAP_PARAM struct inode *inode, int mask)
{
	int ret;

	if (inode->i_op->permission)
		ret = inode->i_op->permission(IDMAP_ARG(idmap) inode, mask);
	else
		ret = generic_permission(IDMAP_ARG(idmap) inode, mask);
	return ret ? ret : security_inode_permission(inode, mask);
}

// __legitimize_path takes references to a path reached in RCU mode.
static __noipa bool __legitimize_path(struct path *path, unsigned int seq)
{
	struct dentry *d = path->dentry;
	bool alive;

	spin_lock(&d->d_lock);
	alive = d->d_lockref.count >= 0 && d->d_seq.sequence == seq;
	if (alive)
		d->d_lockref.count++;
	spin_unlock(&d->d_lock);
	if (alive)
		mntget(path->mnt);
	return alive;
}

// try_to_unlazy leaves RCU mode at the current position. It returns false if the walk
// must be restarted.
static __noipa bool try_to_unlazy(struct nameidata *nd)
{
	bool ok = __legitimize_path(&nd->path, nd->seq);

	nd->flags &= ~LOOKUP_RCU;
	if (!ok)
		nd->path = (struct path){ NULL, NULL };
	rcu_read_unlock();
	return ok;
}

static void drop_links(struct nameidata *nd)
{
	while (nd->depth) {
		struct saved *last = &nd->stack[--nd->depth];

		if (last->done.fn)
			last->done.fn(last->done.arg);
		kfree(last->name);
		path_put(&last->link);
	}
}

static __noipa void terminate_walk(struct nameidata *nd)
{
	drop_links(nd);
	if (nd->flags & LOOKUP_RCU) {
		nd->flags &= ~LOOKUP_RCU;
		rcu_read_unlock();
	} else {
		dput(nd->path.dentry);
		mntput(nd->path.mnt);
	}
	if (nd->stack != nd->internal)
		kfree(nd->stack);
	nd->stack = nd->internal;
	nd->path = (struct path){ NULL, NULL };
}

// complete_walk leaves RCU mode at the end of the walk.
static __noipa int complete_walk(struct nameidata *nd)
{
	struct dentry *d = nd->path.dentry;

	if (nd->flags & LOOKUP_RCU && !try_to_unlazy(nd))
		return -ECHILD;
	if (d->d_flags & DCACHE_OP_REVALIDATE && d->d_op->d_weak_revalidate) {
		int ok = d->d_op->d_weak_revalidate(d, nd->flags);

		if (ok <= 0)
			return ok ? ok : -ESTALE;
	}
	return 0;
}

static __noipa int set_root(struct nameidata *nd)
{
	struct fs_struct *fs = current->fs;
	unsigned int seq;

	do {
		seq = read_seqcount_begin(&fs->seq);
		nd->root = fs->root;
		nd->root_seq = read_seqcount_begin(&nd->root.dentry->d_seq);
	} while (read_seqcount_retry(&fs->seq, seq));
	return 0;
}

// go_to sets the walk's position to path. In RCU mode no reference is needed.
static void go_to(struct nameidata *nd, const struct path *path)
{
	nd->path = *path;
	nd->inode = path->dentry->d_inode;
	if (nd->flags & LOOKUP_RCU)
		nd->seq = read_seqcount_begin(&path->dentry->d_seq);
	else
		path_get(path);
}

static __noipa int nd_jump_root(struct nameidata *nd)
{
	struct path old = nd->path;

	if (!nd->root.mnt)
		set_root(nd);
	go_to(nd, &nd->root);
	if (!(nd->flags & LOOKUP_RCU) && old.dentry)
		path_put(&old);
	return 0;
}

// told_name returns the last name of the program that a descriptor refers to, of which the
// host has told. It stands after the end of the empty name that the call has.
static const char *told_name(struct filename *name)
{
	char *at = (char *)name->iname + 1;

	if (strncpy_from_user(at, (const char __user *)current_host_call()->args[5], EMBEDDED_NAME_MAX - 1) <= 0)
		strcpy(at, "fd");
	return at;
}

// path_init sets the directory in which the walk begins and returns the name.
static __noipa const char *path_init(struct nameidata *nd, unsigned int flags)
{
	const char *s = nd->name->name;
	struct fd f;

	if (!*s)
		flags &= ~LOOKUP_RCU;
	nd->flags = flags;
	nd->state = 0;
	nd->depth = 0;
	nd->total_link_count = 0;
	nd->stack = nd->internal;
	nd->path = nd->root = (struct path){ NULL, NULL };
	if (flags & LOOKUP_RCU)
		rcu_read_lock();
	if (*s == '/') {
		nd_jump_root(nd);
		return s;
	}
	if (nd->dfd == AT_FDCWD || host_walks_from(nd->dfd)) {
		struct path pwd;
		unsigned int seq;

		do {
			seq = read_seqcount_begin(&current->fs->seq);
			pwd = current->fs->pwd;
		} while (read_seqcount_retry(&current->fs->seq, seq));
		go_to(nd, &pwd);
		return *s ? s : told_name(nd->name);
	}
	f = fdget_raw(nd->dfd);
	if (!f.file)
		return ERR_PTR(-EBADF);
	if (*s && !d_is_dir(f.file->f_path.dentry)) {
		fdput(f);
		return ERR_PTR(-ENOTDIR);
	}
	// The descriptor may be closed after fdput: take references now.
	if (nd->flags & LOOKUP_RCU) {
		nd->flags &= ~LOOKUP_RCU;
		rcu_read_unlock();
	}
	go_to(nd, &f.file->f_path);
	fdput(f);
	return s;
}

static int d_revalidate(struct dentry *dentry, unsigned int flags)
{
	if (likely(!(dentry->d_flags & DCACHE_OP_REVALIDATE)) || !dentry->d_op->d_revalidate)
		return 1;
	return dentry->d_op->d_revalidate(dentry, flags);
}

// lookup_fast looks the name up in the cache. It returns the dentry (with a reference
// unless in RCU mode), NULL, or -ECHILD.
static __noipa struct dentry *lookup_fast(struct nameidata *nd)
{
	struct dentry *d, *parent = nd->path.dentry;
	int ok;

	if (nd->flags & LOOKUP_RCU) {
		d = __d_lookup_rcu(parent, &nd->last, &nd->next_seq);
		if (!d)
			return try_to_unlazy(nd) ? NULL : ERR_PTR(-ECHILD);
		if (read_seqcount_retry(&parent->d_seq, nd->seq))
			return ERR_PTR(-ECHILD);
		ok = d_revalidate(d, nd->flags);
		if (likely(ok > 0))
			return d;
		if (!try_to_unlazy(nd))
			return ERR_PTR(-ECHILD);
	}
	d = __d_lookup(parent, &nd->last);
	if (!d)
		return NULL;
	ok = d_revalidate(d, nd->flags);
	if (ok > 0)
		return d;
	if (!ok)
		d_drop(d);
	dput(d);
	return ERR_PTR(ok);
}

// __lookup_slow asks the filesystem; the directory is locked.
static __noipa struct dentry *__lookup_slow(const struct qstr *name, struct dentry *dir, unsigned int flags)
{
	DECLARE_WAIT_QUEUE_HEAD(wq);
	struct inode *inode = dir->d_inode;
	struct dentry *d = d_alloc_parallel(dir, name, &wq), *old;

	if (IS_ERR(d) || !d_unhashed(d))
		return d;
	old = inode->i_op->lookup ? inode->i_op->lookup(inode, d, flags) : ERR_PTR(-ENOTDIR);
	__d_lookup_unhash(d);
	if (old) {
		dput(d);
		d = old;
	}
	return d;
}

static struct dentry *lookup_slow(const struct qstr *name, struct dentry *dir, unsigned int flags)
{
	struct dentry *d;

	down_read(&dir->d_inode->i_rwsem);
	d = __lookup_slow(name, dir, flags);
	up_read(&dir->d_inode->i_rwsem);
	return d;
}

// __traverse_mounts continues to the root of the mount on path, whose references it
// holds.
static __noipa int __traverse_mounts(struct path *path)
{
	while (path->dentry->d_flags & DCACHE_MOUNTED) {
		struct vfsmount *mounted = lookup_mnt(path);

		if (!mounted)
			break;
		dput(path->dentry);
		mntput(path->mnt);
		path->mnt = mounted;
		path->dentry = dget(mounted->mnt_root);
	}
	return 0;
}

static bool grow_stack(struct nameidata *nd)
{
	struct saved *p;

	if (nd->stack != nd->internal || nd->depth < EMBEDDED_LEVELS)
		return true;
	p = kmalloc(MAXSYMLINKS * sizeof(*p), GFP_KERNEL);
	if (!p)
		return false;
	memcpy(p, nd->internal, sizeof(nd->internal));
	nd->stack = p;
	return true;
}

// pick_link takes over references to the symbolic link at *link and returns its
// target. The link is on the stack until the walk ends.
static __noipa const char *pick_link(struct nameidata *nd, struct path *link, struct inode *inode)
{
	struct saved *last;
	const char *text;
	int err = 0;

	if (nd->total_link_count++ >= MAXSYMLINKS)
		err = -ELOOP;
	else if (!grow_stack(nd))
		err = -ENOMEM;
	if (err) {
		path_put(link);
		return ERR_PTR(err);
	}
	last = &nd->stack[nd->depth++];
	*last = (struct saved){ .link = *link };
	touch_atime(link);
	err = security_inode_follow_link(link->dentry, inode, false);
	if (err)
		return ERR_PTR(err);
	text = inode->i_link;
	if (!text && inode->i_op->get_link)
		text = inode->i_op->get_link(link->dentry, inode, &last->done);
	if (!text)
		return ERR_PTR(-EINVAL);
	if (!IS_ERR(text) && *text == '/')
		nd_jump_root(nd);
	return text;
}

struct vfsmount *__lookup_mnt(struct vfsmount *mnt, struct dentry *dentry);

// step_rcu is step_into in RCU mode. It returns 0 if RCU mode must be left first.
static int step_rcu(struct nameidata *nd, int flags, struct dentry *dentry)
{
	struct path p = { nd->path.mnt, dentry };
	struct inode *inode;

	while (unlikely(p.dentry->d_flags & DCACHE_MOUNTED)) {
		struct vfsmount *m = __lookup_mnt(p.mnt, p.dentry);

		if (!m)
			break;
		p = (struct path){ m, m->mnt_root };
		nd->next_seq = read_seqcount_begin(&p.dentry->d_seq);
	}
	inode = READ_ONCE(p.dentry->d_inode);
	if (!inode || d_is_negative(p.dentry) || d_is_symlink(p.dentry))
		return 0;
	nd->path = p;
	nd->inode = inode;
	nd->seq = nd->next_seq;
	return 1;
}

// step_into moves the walk to dentry, whose reference it takes over, and to mounts on
// it. It returns the target of a symbolic link that is to be walked first, NULL, or
// an error.
static __noipa const char *step_into(struct nameidata *nd, int flags, struct dentry *dentry)
{
	struct path path = { nd->path.mnt, dentry };
	struct inode *inode;

	if (nd->flags & LOOKUP_RCU) {
		if (step_rcu(nd, flags, dentry))
			return NULL;
		if (!try_to_unlazy(nd))
			return ERR_PTR(-ECHILD);
		// Use what is in the cache now.
		dentry = __d_lookup(nd->path.dentry, &nd->last);
		if (!dentry)
			return ERR_PTR(-ECHILD);
		path.dentry = dentry;
	}
	mntget(path.mnt);
	__traverse_mounts(&path);
	inode = path.dentry->d_inode;
	if (!inode || d_is_negative(path.dentry)) {
		path_put(&path);
		return ERR_PTR(-ENOENT);
	}
	if (d_is_symlink(path.dentry) && !(flags & WALK_NOFOLLOW) &&
	    (flags & WALK_MORE || nd->flags & LOOKUP_FOLLOW))
		return pick_link(nd, &path, inode);
	path_put(&nd->path);
	nd->path = path;
	nd->inode = inode;
	return NULL;
}

// handle_dots handles . and .., which are not looked up.
static __noipa const char *handle_dots(struct nameidata *nd, int type)
{
	struct path up;

	if (type != LAST_DOTDOT)
		return NULL;
	if (nd->flags & LOOKUP_RCU && !try_to_unlazy(nd))
		return ERR_PTR(-ECHILD);
	if (!nd->root.mnt)
		set_root(nd);
	up = nd->path;
	for (;;) {
		if (up.dentry == nd->root.dentry && up.mnt == nd->root.mnt)
			return NULL;
		if (up.dentry != up.mnt->mnt_root)
			break;
		if (!follow_up_mount(&up))
			return NULL;
	}
	up.dentry = dget_parent(up.dentry);
	mntget(up.mnt);
	__traverse_mounts(&up);
	path_put(&nd->path);
	nd->path = up;
	nd->inode = up.dentry->d_inode;
	return NULL;
}

// walk_component walks one component, nd->last.
static __noipa const char *walk_component(struct nameidata *nd, int flags)
{
	struct dentry *d;

	if (unlikely(nd->last_type != LAST_NORM))
		return handle_dots(nd, nd->last_type);
	d = lookup_fast(nd);
	if (IS_ERR(d))
		return ERR_CAST(d);
	if (unlikely(!d)) {
		d = lookup_slow(&nd->last, nd->path.dentry, nd->flags);
		if (IS_ERR(d))
			return ERR_CAST(d);
	}
	return step_into(nd, flags, d);
}

// next_component reads the name up to the next slash into nd->last.
static const char *next_component(struct nameidata *nd, const char *name)
{
	unsigned int len = strchrnul(name, '/') - name;

	nd->last.name = (const unsigned char *)name;
	nd->last.len = len;
	nd->last.hash = full_name_hash(nd->path.dentry, name, len);
	nd->last_type = LAST_NORM;
	if (name[0] == '.' && len == 1)
		nd->last_type = LAST_DOT;
	else if (name[0] == '.' && len == 2 && name[1] == '.')
		nd->last_type = LAST_DOTDOT;
	return name + len;
}

static int may_lookup(struct nameidata *nd)
{
	return inode_permission(IDMAP_OF(nd->path.mnt) nd->inode, MAY_EXEC);
}

// continue_with makes the name to walk after a symbolic link in the middle of a path:
// its target and the rest of the path.
static const char *continue_with(struct nameidata *nd, const char *text, const char *rest)
{
	struct saved *last = &nd->stack[nd->depth - 1];
	size_t n = strlen(text), left = strlen(rest);
	char *name = kmalloc(n + left + 2, GFP_KERNEL);

	if (!name)
		return ERR_PTR(-ENOMEM);
	memcpy(name, text, n);
	name[n] = '/';
	memcpy(name + n + 1, rest, left + 1);
	last->name = name;
	return name;
}

// link_path_walk walks all components of name except the last one, which it stores in
// nd->last.
static __noipa int link_path_walk(const char *name, struct nameidata *nd)
{
	nd->last_type = LAST_ROOT;
	nd->flags |= LOOKUP_PARENT;
	if (IS_ERR(name))
		return PTR_ERR(name);
	while (*name == '/')
		name++;
	while (*name) {
		const char *link;
		int err = may_lookup(nd);

		if (err)
			return err;
		name = next_component(nd, name);
		if (nd->last.len > NAME_MAX)
			return -ENAMETOOLONG;
		if (!*name)
			break;
		while (*name == '/')
			name++;
		if (!*name) {
			nd->flags |= LOOKUP_DIRECTORY;
			break;
		}
		link = walk_component(nd, WALK_MORE);
		if (!IS_ERR_OR_NULL(link))
			link = name = continue_with(nd, link, name);
		if (IS_ERR(link))
			return PTR_ERR(link);
		while (link && *name == '/')
			name++;
		if (!link && !d_is_dir(nd->path.dentry))
			return -ENOTDIR;
	}
	nd->dir_uid = nd->inode->i_uid;
	nd->dir_mode = nd->inode->i_mode;
	return 0;
}

// lookup_last walks the last component. It returns the target of a symbolic link that
// is to be walked.
static const char *lookup_last(struct nameidata *nd)
{
	nd->flags &= ~LOOKUP_PARENT;
	if (nd->last_type == LAST_ROOT)
		return NULL;
	return walk_component(nd, nd->flags & LOOKUP_DIRECTORY ? WALK_MORE : 0);
}

// path_lookupat looks up nd->name and returns references in *path.
static __noipa int path_lookupat(struct nameidata *nd, unsigned int flags, struct path *path)
{
	const char *s = path_init(nd, flags);
	int err;

	while (!(err = link_path_walk(s, nd)) && (s = lookup_last(nd)))
		;
	if (!err)
		err = complete_walk(nd);
	if (!err && nd->flags & LOOKUP_DIRECTORY && !d_is_dir(nd->path.dentry))
		err = -ENOTDIR;
	if (!err) {
		*path = nd->path;
		nd->path = (struct path){ NULL, NULL };
	}
	terminate_walk(nd);
	return err;
}

static void set_nameidata(struct nameidata *nd, int dfd, struct filename *name)
{
	memset(nd, 0, sizeof(*nd));
	nd->stack = nd->internal;
	nd->dfd = dfd;
	nd->name = name;
}

noinline int filename_lookup(int dfd, struct filename *name, unsigned int flags, struct path *path, struct path *root)
{
	struct nameidata nd;
	int err;

	if (IS_ERR(name))
		return PTR_ERR(name);
	set_nameidata(&nd, dfd, name);
	err = path_lookupat(&nd, flags | LOOKUP_RCU, path);
	if (err == -ECHILD)
		err = path_lookupat(&nd, flags, path);
	return err;
}

noinline int kern_path(const char *name, unsigned int flags, struct path *path)
{
	struct filename *filename = getname_kernel(name);
	int err = filename_lookup(AT_FDCWD, filename, flags, path, NULL);

	putname(filename);
	return err;
}
EXPORT_SYMBOL(kern_path);

int user_path_at_empty(int dfd, const char __user *name, unsigned int flags, struct path *path, int *empty)
{
	struct filename *filename = getname_flags(name, flags, empty);
	int err = filename_lookup(dfd, filename, flags, path, NULL);

	putname(filename);
	return err;
}

// may_open checks that path may be opened with these flags.
static __noipa int may_open(IDMAP_PARAM const struct path *path, int acc_mode, int flag)
{
	struct inode *inode = path->dentry->d_inode;

	switch (inode->i_mode & S_IFMT) {
	case S_IFLNK:
		return -ELOOP;
	case S_IFDIR:
		if (acc_mode & MAY_WRITE)
			return -EISDIR;
		break;
	case S_IFBLK:
	case S_IFCHR:
		if (acc_mode & MAY_EXEC)
			return -EACCES;
		break;
	case S_IFIFO:
	case S_IFSOCK:
		if (acc_mode & MAY_EXEC)
			return -EACCES;
		if (flag & O_PATH)
			break;
		return -ENXIO;
	}
	return inode_permission(IDMAP_ARG(idmap) inode, MAY_OPEN | acc_mode);
}

// lookup_dcache is the part of a lookup that only uses the cache.
static __noipa struct dentry *lookup_dcache(const struct qstr *name, struct dentry *dir, unsigned int flags)
{
	struct dentry *d = d_lookup(dir, name);

	if (d && !d_revalidate(d, flags)) {
		d_drop(d);
		dput(d);
		d = NULL;
	}
	return d;
}

// lookup_open looks up the last component with the directory locked, and creates the
// file if required.
static __noipa struct dentry *lookup_open(struct nameidata *nd, struct file *file, const struct open_flags *op)
{
	struct dentry *dir = nd->path.dentry, *d;
	struct inode *dir_inode = dir->d_inode;
	int err;

	d = lookup_dcache(&nd->last, dir, nd->flags);
	if (!d)
		d = __lookup_slow(&nd->last, dir, nd->flags);
	if (IS_ERR(d) || d->d_inode || !(op->open_flag & O_CREAT))
		return d;
	err = -EACCES;
	if (dir_inode->i_op->create)
		err = vfs_create(IDMAP_OF(nd->path.mnt) dir_inode, d, op->mode & ~current_umask(), op->open_flag & O_EXCL);
	if (err) {
		dput(d);
		return ERR_PTR(err);
	}
	file->f_mode |= FMODE_CREATED;
	return d;
}

// open_last_lookups walks the last component of a path that is opened.
static __noipa const char *open_last_lookups(struct nameidata *nd, struct file *file, const struct open_flags *op)
{
	bool create = op->open_flag & O_CREAT;
	struct dentry *d = NULL;

	nd->flags = (nd->flags & ~LOOKUP_PARENT) | op->intent;
	if (nd->last_type != LAST_NORM)
		return create ? ERR_PTR(-EISDIR) : handle_dots(nd, nd->last_type);
	if (!create) {
		d = lookup_fast(nd);
		if (IS_ERR(d))
			return ERR_CAST(d);
	} else if (nd->flags & LOOKUP_RCU && !try_to_unlazy(nd)) {
		return ERR_PTR(-ECHILD);
	}
	if (!d) {
		struct inode *dir = nd->path.dentry->d_inode;

		if (create)
			down_write(&dir->i_rwsem);
		else
			down_read(&dir->i_rwsem);
		d = lookup_open(nd, file, op);
		if (create)
			up_write(&dir->i_rwsem);
		else
			up_read(&dir->i_rwsem);
		if (IS_ERR(d))
			return ERR_CAST(d);
	}
	if (create && op->open_flag & O_EXCL && d->d_inode && !(file->f_mode & FMODE_CREATED)) {
		dput(d);
		return ERR_PTR(-EEXIST);
	}
	return step_into(nd, 0, d);
}

// do_open opens the file at the end of the walk.
static __noipa int do_open(struct nameidata *nd, struct file *file, const struct open_flags *op)
{
	int acc_mode = file->f_mode & FMODE_CREATED ? 0 : op->acc_mode;
	int err = complete_walk(nd);

	if (err)
		return err;
	if (op->open_flag & O_CREAT && d_is_dir(nd->path.dentry))
		return -EISDIR;
	if (nd->flags & LOOKUP_DIRECTORY && !d_is_dir(nd->path.dentry))
		return -ENOTDIR;
	err = may_open(IDMAP_OF(nd->path.mnt) &nd->path, acc_mode, op->open_flag);
	return err ? err : vfs_open(&nd->path, file);
}

// path_openat opens nd->name. It returns -ECHILD if the walk must be restarted
// without RCU mode.
static __noipa struct file *path_openat(struct nameidata *nd, const struct open_flags *op, unsigned int flags)
{
	struct file *file = alloc_empty_file(op->open_flag, current_cred());
	const char *s;
	int err;

	if (IS_ERR(file))
		return file;
	s = path_init(nd, flags);
	while (!(err = link_path_walk(s, nd)) && (s = open_last_lookups(nd, file, op)))
		;
	if (!err)
		err = do_open(nd, file, op);
	terminate_walk(nd);
	if (!err)
		return file;
	fput(file);
	return ERR_PTR(err);
}

struct file *do_filp_open(int dfd, struct filename *pathname, const struct open_flags *op)
{
	struct nameidata nd;
	struct file *file;

	set_nameidata(&nd, dfd, pathname);
	file = path_openat(&nd, op, op->lookup_flags | LOOKUP_RCU);
	if (file == ERR_PTR(-ECHILD))
		file = path_openat(&nd, op, op->lookup_flags);
	return file;
}

// lookup_one_common checks and hashes a single name.
static __noipa int lookup_one_common(IDMAP_PARAM const char *name, struct dentry *base, int len, struct qstr *this)
{
	this->name = (const unsigned char *)name;
	this->len = len;
	this->hash = full_name_hash(base, name, len);
	if (!len || strnchr(name, len, '/') || (name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.'))))
		return -EACCES;
	return inode_permission(IDMAP_ARG(idmap) base->d_inode, MAY_EXEC);
}

// lookup_one_len finds a name in base, whose inode is locked: a dentry, which
// may be negative.
struct dentry *lookup_one_len(const char *name, struct dentry *base, int len)
{
	struct qstr this;
	struct dentry *d;
	int err = lookup_one_common(IDMAP_ARG(init_idmap) name, base, len, &this);

	if (err)
		return ERR_PTR(err);
	d = lookup_dcache(&this, base, 0);
	return d ? d : __lookup_slow(&this, base, 0);
}

// path_parentat finds the directory of a path; its last component is in nd->last.
static int path_parentat(struct nameidata *nd, struct path *parent)
{
	int err = link_path_walk(path_init(nd, LOOKUP_PARENT), nd);

	if (!err)
		err = complete_walk(nd);
	if (!err) {
		*parent = nd->path;
		nd->path = (struct path){ NULL, NULL };
	}
	terminate_walk(nd);
	return err;
}

// filename_create prepares a new file: it returns a negative dentry, and the locked
// directory in *path, or -EEXIST if the file exists.
static struct dentry *filename_create(int dfd, struct filename *name, struct path *path, unsigned int lookup_flags)
{
	struct nameidata nd;
	struct dentry *d;
	int err;

	if (IS_ERR(name))
		return ERR_CAST(name);
	set_nameidata(&nd, dfd, name);
	err = path_parentat(&nd, path);
	if (err)
		return ERR_PTR(err);
	err = nd.last_type == LAST_NORM ? mnt_want_write(path->mnt) : -EEXIST;
	if (err) {
		path_put(path);
		return ERR_PTR(err);
	}
	inode_lock(path->dentry->d_inode);
	d = lookup_dcache(&nd.last, path->dentry, LOOKUP_CREATE);
	if (!d)
		d = __lookup_slow(&nd.last, path->dentry, LOOKUP_CREATE | LOOKUP_EXCL);
	if (!IS_ERR(d) && d->d_inode) {
		dput(d);
		d = ERR_PTR(-EEXIST);
	}
	if (IS_ERR(d)) {
		inode_unlock(path->dentry->d_inode);
		mnt_drop_write(path->mnt);
		path_put(path);
	}
	return d;
}

struct dentry *kern_path_create(int dfd, const char *pathname, struct path *path, unsigned int lookup_flags)
{
	struct filename *name = getname_kernel(pathname);
	struct dentry *d = filename_create(dfd, name, path, lookup_flags);

	putname(name);
	return d;
}

void done_path_create(struct path *path, struct dentry *dentry)
{
	dput(dentry);
	inode_unlock(path->dentry->d_inode);
	mnt_drop_write(path->mnt);
	path_put(path);
}

static __noipa int may_create(IDMAP_PARAM struct inode *dir, struct dentry *child)
{
	if (child->d_inode)
		return -EEXIST;
	return inode_permission(IDMAP_ARG(idmap) dir, MAY_WRITE | MAY_EXEC);
}

// may_delete checks that victim, which exists, may be removed from dir.
static __noipa int may_delete(IDMAP_PARAM struct inode *dir, struct dentry *victim, bool isdir)
{
	struct inode *inode = victim->d_inode;
	int err;

	if (d_is_negative(victim) || !inode)
		return -ENOENT;
	err = inode_permission(IDMAP_ARG(idmap) dir, MAY_WRITE | MAY_EXEC);
	if (err)
		return err;
	if (dir->i_mode & S_ISVTX && inode->i_uid.val != current_fsuid().val &&
	    dir->i_uid.val != current_fsuid().val && !capable(3))
		return -EPERM;
	if (isdir && !d_is_dir(victim))
		return -ENOTDIR;
	if (isdir && IS_ROOT(victim))
		return -EBUSY;
	return !isdir && d_is_dir(victim) ? -EISDIR : 0;
}

noinline int vfs_create(IDMAP_PARAM struct inode *dir, struct dentry *dentry, umode_t mode, bool want_excl)
{
	int err = may_create(IDMAP_ARG(idmap) dir, dentry);

	if (err)
		return err;
	if (!dir->i_op->create)
		return -EACCES;
	err = security_inode_create(dir, dentry, mode);
	return err ? err : dir->i_op->create(IDMAP_ARG(idmap) dir, dentry, (mode & S_IALLUGO) | S_IFREG, want_excl);
}

int vfs_mkdir(IDMAP_PARAM struct inode *dir, struct dentry *dentry, umode_t mode)
{
	int err = may_create(IDMAP_ARG(idmap) dir, dentry);

	if (err)
		return err;
	if (!dir->i_op->mkdir)
		return -EPERM;
	mode &= (S_IRWXUGO | S_ISVTX) & ~current_umask();
	err = security_inode_mkdir(dir, dentry, mode);
	if (err)
		return err;
	return host_mirrors() ? host_made() : dir->i_op->mkdir(IDMAP_ARG(idmap) dir, dentry, mode);
}

int vfs_symlink(IDMAP_PARAM struct inode *dir, struct dentry *dentry, const char *oldname)
{
	int err = may_create(IDMAP_ARG(idmap) dir, dentry);

	if (err)
		return err;
	if (!dir->i_op->symlink)
		return -EPERM;
	err = security_inode_symlink(dir, dentry, oldname);
	if (err)
		return err;
	return host_mirrors() ? host_made() : dir->i_op->symlink(IDMAP_ARG(idmap) dir, dentry, oldname);
}

int vfs_link(struct dentry *old, IDMAP_PARAM struct inode *dir, struct dentry *new, struct inode **delegated)
{
	struct inode *inode = old->d_inode;
	int err;

	if (host_mirrors())
		return host_made();
	err = inode ? may_create(IDMAP_ARG(idmap) dir, new) : -ENOENT;
	if (err)
		return err;
	if (dir->i_sb != inode->i_sb)
		return -EXDEV;
	if (!dir->i_op->link || S_ISDIR(inode->i_mode))
		return -EPERM;
	inode_lock(inode);
	err = inode->i_nlink ? dir->i_op->link(old, dir, new) : -ENOENT;
	inode_unlock(inode);
	return err;
}

int vfs_unlink(IDMAP_PARAM struct inode *dir, struct dentry *dentry, struct inode **delegated_inode)
{
	struct inode *target = dentry->d_inode;
	int err = may_delete(IDMAP_ARG(idmap) dir, dentry, false);

	if (err)
		return err;
	if (!dir->i_op->unlink)
		return -EPERM;
	inode_lock(target);
	if (dentry->d_flags & DCACHE_MOUNTED)
		err = -EBUSY;
	else
		err = security_inode_unlink(dir, dentry);
	if (!err)
		err = host_mirrors() ? host_made() : dir->i_op->unlink(dir, dentry);
	inode_unlock(target);
	if (!err) {
		ihold(target);
		d_delete(dentry);
		iput(target);
	}
	return err;
}

// remove_dir calls vfs_rmdir. In 5.10 it is inlined into do_rmdir.
static __always_inline int remove_dir(IDMAP_PARAM struct inode *dir, struct dentry *dentry)
{
	int err = may_delete(IDMAP_ARG(idmap) dir, dentry, true);

	if (err)
		return err;
	if (!dir->i_op->rmdir)
		return -EPERM;
	inode_lock(dentry->d_inode);
	if (dentry->d_flags & DCACHE_MOUNTED)
		err = -EBUSY;
	else
		err = security_inode_rmdir(dir, dentry);
	if (!err)
		err = host_mirrors() ? host_made() : dir->i_op->rmdir(dir, dentry);
	inode_unlock(dentry->d_inode);
	if (!err)
		d_delete(dentry);
	return err;
}

noinline int vfs_rmdir(IDMAP_PARAM struct inode *dir, struct dentry *dentry)
{
	return remove_dir(IDMAP_ARG(idmap) dir, dentry);
}

// Calls of vfs_rmdir and vfs_unlink by do_rmdir and the kernel's own functions.
#if GUEST_LINUX < 601
#define PATH_RET long
#define do_vfs_rmdir remove_dir
#else
#define PATH_RET int
#define do_vfs_rmdir vfs_rmdir
#endif

noinline __noclone PATH_RET do_mkdirat(int dfd, path_arg_t pathname, umode_t mode)
{
	struct filename *name = path_getname(pathname);
	struct path path;
	struct dentry *d = filename_create(dfd, name, &path, LOOKUP_DIRECTORY);
	int err = IS_ERR(d) ? PTR_ERR(d) : 0;

	if (!err) {
		err = vfs_mkdir(IDMAP_OF(path.mnt) path.dentry->d_inode, d, mode);
		done_path_create(&path, d);
	}
	putname(name);
	return host_result(err);
}

noinline __noclone PATH_RET do_symlinkat(path_arg_t oldname, int newdfd, path_arg_t newname)
{
	struct filename *from = path_getname(oldname), *to = path_getname(newname);
	struct path path;
	struct dentry *d = IS_ERR(from) ? ERR_CAST(from) : filename_create(newdfd, to, &path, 0);
	int err = IS_ERR(d) ? PTR_ERR(d) : 0;

	if (!err) {
		err = vfs_symlink(IDMAP_OF(path.mnt) path.dentry->d_inode, d, from->name);
		done_path_create(&path, d);
	}
	putname(to);
	putname(from);
	return host_result(err);
}

// find_last looks up the last name of a path in its directory, which is locked.
static __always_inline struct dentry *find_last(const struct qstr *last, struct dentry *dir)
{
	struct dentry *d = lookup_dcache(last, dir, 0);

	return d ?: __lookup_slow(last, dir, 0);
}

// do_remove removes a directory or another file. It is inlined into its callers, so
// that these call vfs_rmdir and vfs_unlink directly.
static __always_inline int do_remove(int dfd, struct filename *name, bool isdir)
{
	struct nameidata nd;
	struct path path;
	struct dentry *d;
	int err = IS_ERR(name) ? PTR_ERR(name) : 0;

	if (!err) {
		set_nameidata(&nd, dfd, name);
		err = path_parentat(&nd, &path);
	}
	if (err)
		goto out;
	if (nd.last_type != LAST_NORM) {
		err = isdir ? -EINVAL : -EISDIR;
		goto put;
	}
	err = mnt_want_write(path.mnt);
	if (err)
		goto put;
	inode_lock(path.dentry->d_inode);
	d = find_last(&nd.last, path.dentry);
	if (IS_ERR(d)) {
		err = PTR_ERR(d);
	} else if (d_is_negative(d)) {
		err = -ENOENT;
		dput(d);
	} else {
		err = isdir ? do_vfs_rmdir(IDMAP_OF(path.mnt) path.dentry->d_inode, d) :
			      vfs_unlink(IDMAP_OF(path.mnt) path.dentry->d_inode, d, NULL);
		dput(d);
	}
	inode_unlock(path.dentry->d_inode);
	mnt_drop_write(path.mnt);
put:
	path_put(&path);
out:
	putname(name);
	return host_result(err);
}

noinline __noclone PATH_RET do_unlinkat(int dfd, struct filename *name)
{
	return do_remove(dfd, name, false);
}

noinline __noclone PATH_RET do_rmdir(int dfd, struct filename *name)
{
	return do_remove(dfd, name, true);
}

SYSCALL_DEFINE3(mkdirat, int, dfd, const char __user *, pathname, umode_t, mode)
{
	return do_mkdirat(dfd, PATH_ARG(pathname), mode);
}

SYSCALL_DEFINE2(mkdir, const char __user *, pathname, umode_t, mode)
{
	return do_mkdirat(AT_FDCWD, PATH_ARG(pathname), mode);
}

SYSCALL_DEFINE1(rmdir, const char __user *, pathname)
{
	return do_rmdir(AT_FDCWD, getname(pathname));
}

SYSCALL_DEFINE1(unlink, const char __user *, pathname)
{
	return do_unlinkat(AT_FDCWD, getname(pathname));
}

SYSCALL_DEFINE3(unlinkat, int, dfd, const char __user *, pathname, int, flag)
{
	if (flag & ~AT_REMOVEDIR)
		return -EINVAL;
	return flag & AT_REMOVEDIR ? do_rmdir(dfd, getname(pathname)) : do_unlinkat(dfd, getname(pathname));
}

SYSCALL_DEFINE2(symlink, const char __user *, oldname, const char __user *, newname)
{
	return do_symlinkat(PATH_ARG(oldname), AT_FDCWD, PATH_ARG(newname));
}

SYSCALL_DEFINE3(symlinkat, const char __user *, oldname, int, newdfd, const char __user *, newname)
{
	return do_symlinkat(PATH_ARG(oldname), newdfd, PATH_ARG(newname));
}

// readlink_copy returns the number of bytes copied; the text is not terminated.
int readlink_copy(char __user *buffer, int buflen, const char *link)
{
	int len = strlen(link);

	if (len > buflen)
		len = buflen;
	return copy_to_user(buffer, link, len) ? -EFAULT : len;
}

void __init names_init(void)
{
	names_cachep = kmem_cache_create("names_cache", PATH_MAX, 8, SLAB_HWCACHE_ALIGN | SLAB_PANIC, NULL);
}

// What follows is made by the host's kernel.

noinline __noclone int vfs_mknod(IDMAP_PARAM struct inode *dir, struct dentry *dentry, umode_t mode, dev_t dev)
{
	return host_made();
}

static __noipa PATH_RET do_mknodat(int dfd, path_arg_t pathname, umode_t mode, unsigned int dev)
{
	struct filename *name = path_getname(pathname);
	struct path path;
	struct dentry *d = filename_create(dfd, name, &path, 0);
	int err = IS_ERR(d) ? PTR_ERR(d) : 0;

	if (!err) {
		err = vfs_mknod(IDMAP_OF(path.mnt) path.dentry->d_inode, d, mode, dev);
		done_path_create(&path, d);
	}
	putname(name);
	return host_only();
}

SYSCALL_DEFINE4(mknodat, int, dfd, const char __user *, filename, umode_t, mode, unsigned int, dev)
{
	return host_mirrors() ? do_mknodat(dfd, PATH_ARG(filename), mode, dev) : -ENOSYS;
}

SYSCALL_DEFINE3(mknod, const char __user *, filename, umode_t, mode, unsigned int, dev)
{
	return host_mirrors() ? do_mknodat(AT_FDCWD, PATH_ARG(filename), mode, dev) : -ENOSYS;
}

// host_names_other is called before the second name of a call is looked up: the host has told
// of the file that the first one names.
static inline void host_names_other(void)
{
	if (host_mirrors())
		WRITE_ONCE(current_host_call()->mode, HOST_MODE_NONE);
}

noinline __noclone int do_linkat(int olddfd, path_arg_t oldname, int newdfd, path_arg_t newname, int flags)
{
	struct filename *old = path_getname(oldname), *new = path_getname(newname);
	struct path old_path, new_path;
	struct dentry *d;
	int err;

	err = IS_ERR(old) ? PTR_ERR(old) : filename_lookup(olddfd, old, flags & 0x400 /* AT_SYMLINK_FOLLOW */ ? LOOKUP_FOLLOW : 0, &old_path, NULL);
	if (!err) {
		host_names_other();
		d = filename_create(newdfd, new, &new_path, 0);
		if (!IS_ERR(d)) {
			vfs_link(old_path.dentry, IDMAP_OF(new_path.mnt) new_path.dentry->d_inode, d, NULL);
			done_path_create(&new_path, d);
		}
		path_put(&old_path);
	}
	putname(new);
	putname(old);
	return host_only();
}

SYSCALL_DEFINE5(linkat, int, olddfd, const char __user *, oldname, int, newdfd, const char __user *, newname, int, flags)
{
	return host_mirrors() ? do_linkat(olddfd, PATH_ARG(oldname), newdfd, PATH_ARG(newname), flags) : -ENOSYS;
}

SYSCALL_DEFINE2(link, const char __user *, oldname, const char __user *, newname)
{
	return host_mirrors() ? do_linkat(AT_FDCWD, PATH_ARG(oldname), AT_FDCWD, PATH_ARG(newname), 0) : -ENOSYS;
}

#if GUEST_LINUX < 601
noinline __noclone int vfs_rename(struct inode *old_dir, struct dentry *old_dentry, struct inode *new_dir, struct dentry *new_dentry,
				  struct inode **delegated_inode, unsigned int flags)
#else
noinline __noclone int vfs_rename(struct renamedata *rd)
#endif
{
#if GUEST_LINUX >= 601
	struct inode *old_dir = rd->old_dir, *new_dir = rd->new_dir;
	struct dentry *old_dentry = rd->old_dentry, *new_dentry = rd->new_dentry;
	unsigned int flags = rd->flags;
#endif
	int err = security_inode_rename(old_dir, old_dentry, new_dir, new_dentry, flags);

	return err ?: host_made();
}

// parent_of returns the directory of a name, and the name's dentry in it.
static __always_inline int parent_of(int dfd, struct filename *name, struct path *path, struct dentry **dentry)
{
	struct nameidata nd;
	int err;

	if (IS_ERR(name))
		return PTR_ERR(name);
	set_nameidata(&nd, dfd, name);
	err = path_parentat(&nd, path);
	if (err)
		return err;
	inode_lock(path->dentry->d_inode);
	*dentry = nd.last_type == LAST_NORM ? find_last(&nd.last, path->dentry) : ERR_PTR(-EBUSY);
	inode_unlock(path->dentry->d_inode);
	if (!IS_ERR(*dentry))
		return 0;
	path_put(path);
	return PTR_ERR(*dentry);
}

noinline __noclone int do_renameat2(int olddfd, struct filename *from, int newdfd, struct filename *to, unsigned int flags)
{
	struct path old, new;
	struct renamedata rd = { .flags = flags };

	if (parent_of(olddfd, from, &old, &rd.old_dentry))
		goto put_names;
	host_names_other();
	if (parent_of(newdfd, to, &new, &rd.new_dentry))
		goto put_old;
	if (d_is_negative(rd.old_dentry))
		goto put_new;
	rd.old_dir = old.dentry->d_inode;
	rd.new_dir = new.dentry->d_inode;
	if (mnt_want_write(old.mnt))
		goto put_new;
#if GUEST_LINUX < 601
	vfs_rename(rd.old_dir, rd.old_dentry, rd.new_dir, rd.new_dentry, NULL, flags);
#else
	vfs_rename(&rd);
#endif
	mnt_drop_write(old.mnt);
put_new:
	dput(rd.new_dentry);
	path_put(&new);
put_old:
	dput(rd.old_dentry);
	path_put(&old);
put_names:
	putname(from);
	putname(to);
	return host_only();
}

SYSCALL_DEFINE5(renameat2, int, olddfd, const char __user *, oldname, int, newdfd, const char __user *, newname, unsigned int, flags)
{
	return host_mirrors() ? do_renameat2(olddfd, getname(oldname), newdfd, getname(newname), flags) : -ENOSYS;
}

SYSCALL_DEFINE4(renameat, int, olddfd, const char __user *, oldname, int, newdfd, const char __user *, newname)
{
	return host_mirrors() ? do_renameat2(olddfd, getname(oldname), newdfd, getname(newname), 0) : -ENOSYS;
}

SYSCALL_DEFINE2(rename, const char __user *, oldname, const char __user *, newname)
{
	return host_mirrors() ? do_renameat2(AT_FDCWD, getname(oldname), AT_FDCWD, getname(newname), 0) : -ENOSYS;
}
