// The dentry cache: a tree of names, hashed by parent and name.
//
// A dentry is looked up in the hash under RCU, and referenced under its own lock. The
// hash is changed under the bucket's lock, d_subdirs under the parent's d_lock.
// Unused dentries stay in the cache unless they are unhashed or their filesystem does
// not want it. Lock order: parent's d_lock, child's d_lock, bucket.
#include <linux/fs.h>
#include <linux/rcupdate.h>

#define D_HASHBITS 10

struct bucket {
	spinlock_t lock;
	struct hlist_bl_head head;
};

static struct bucket dentry_hashtable[1 << D_HASHBITS];
static struct kmem_cache *dentry_cache;

static struct bucket *d_hash(const struct dentry *parent, u32 hash)
{
	u64 mixed = (hash + ((unsigned long)parent >> 6)) * 0x9e3779b97f4a7c15ULL;

	return &dentry_hashtable[mixed >> (64 - D_HASHBITS)];
}

// full_name_hash hashes len bytes, so that equal names in different
// directories (salt) differ.
noinline unsigned int full_name_hash(const void *salt, const char *name, unsigned int len)
{
	u64 h = (unsigned long)salt ^ 0xcbf29ce484222325ULL;

	while (len--)
		h = (h ^ (u8)*name++) * 0x100000001b3ULL;
	return h ^ h >> 32;
}
EXPORT_SYMBOL(full_name_hash);

// hashlen_string returns the hash in the low word and the length in the high one.
noinline u64 hashlen_string(const void *salt, const char *name)
{
	unsigned int len = strlen(name);

	return (u64)len << 32 | full_name_hash(salt, name, len);
}
EXPORT_SYMBOL(hashlen_string);

noinline bool d_same_name(const struct dentry *dentry, const struct dentry *parent, const struct qstr *name)
{
	return dentry->d_name.len == name->len && !memcmp(dentry->d_name.name, name->name, name->len);
}

static void hash_add(struct dentry *entry, struct bucket *b)
{
	struct hlist_bl_node *n = &entry->d_hash;

	n->next = b->head.first;
	n->pprev = &b->head.first;
	if (n->next)
		n->next->pprev = &n->next;
	smp_store_release(&b->head.first, n);
}

void __d_rehash(struct dentry *entry)
{
	struct bucket *b = d_hash(entry->d_parent, entry->d_name.hash);

	spin_lock(&b->lock);
	hash_add(entry, b);
	spin_unlock(&b->lock);
}

void d_rehash(struct dentry *entry)
{
	spin_lock(&entry->d_lock);
	__d_rehash(entry);
	spin_unlock(&entry->d_lock);
}

// __d_drop removes a dentry, whose d_lock is held, from the hash. Its next pointer is
// kept for concurrent readers.
noinline void __d_drop(struct dentry *dentry)
{
	struct bucket *b;

	if (d_unhashed(dentry))
		return;
	b = d_hash(dentry->d_parent, dentry->d_name.hash);
	spin_lock(&b->lock);
	WRITE_ONCE(*dentry->d_hash.pprev, dentry->d_hash.next);
	if (dentry->d_hash.next)
		dentry->d_hash.next->pprev = dentry->d_hash.pprev;
	dentry->d_hash.pprev = NULL;
	spin_unlock(&b->lock);
	dentry->d_seq.sequence += 2;
}

void d_drop(struct dentry *dentry)
{
	spin_lock(&dentry->d_lock);
	__d_drop(dentry);
	spin_unlock(&dentry->d_lock);
}

// matches reports whether a hashed dentry has this parent and name.
static bool matches(struct dentry *d, const struct dentry *parent, const struct qstr *name)
{
	return d->d_name.hash == name->hash && READ_ONCE(d->d_parent) == parent;
}

#define for_each_hashed(d, b)									\
	for (struct hlist_bl_node *__n = READ_ONCE((b)->head.first);				\
	     __n && (d = container_of(__n, struct dentry, d_hash), true); __n = READ_ONCE(__n->next))

// __d_lookup finds a child in the cache and takes a reference. It returns NULL if
// there is none.
struct dentry *__d_lookup(const struct dentry *parent, const struct qstr *name)
{
	struct bucket *b = d_hash(parent, name->hash);
	struct dentry *d, *found = NULL;

	rcu_read_lock();
	for_each_hashed(d, b) {
		if (!matches(d, parent, name))
			continue;
		spin_lock(&d->d_lock);
		if (d->d_parent == parent && !d_unhashed(d) && d_same_name(d, parent, name)) {
			d->d_lockref.count++;
			found = d;
		}
		spin_unlock(&d->d_lock);
		if (found)
			break;
	}
	rcu_read_unlock();
	return found;
}

// __d_lookup_rcu finds a child without taking a reference. The caller holds
// rcu_read_lock, and must compare *seqp with d_seq to validate what it has read.
struct dentry *__d_lookup_rcu(const struct dentry *parent, const struct qstr *name, unsigned int *seqp)
{
	struct bucket *b = d_hash(parent, name->hash);
	struct dentry *d;
	unsigned int seq;

	for_each_hashed(d, b) {
		seq = read_seqcount_begin(&d->d_seq);
		if (!matches(d, parent, name) || d_unhashed(d) || !d_same_name(d, parent, name))
			continue;
		*seqp = seq;
		return d;
	}
	return NULL;
}

struct dentry *d_lookup(const struct dentry *parent, const struct qstr *name)
{
	return __d_lookup(parent, name);
}

struct dentry *d_hash_and_lookup(struct dentry *dir, struct qstr *name)
{
	name->hash = full_name_hash(dir, (const char *)name->name, name->len);
	return d_lookup(dir, name);
}

noinline void d_set_d_op(struct dentry *dentry, const struct dentry_operations *op)
{
	dentry->d_op = op;
	if (!op)
		return;
	if (op->d_revalidate)
		dentry->d_flags |= DCACHE_OP_REVALIDATE;
	if (op->d_delete)
		dentry->d_flags |= DCACHE_OP_DELETE;
}

// __d_alloc makes a dentry without a parent and without an inode; the name is
// copied. The caller has the one reference.
struct dentry *__d_alloc(struct super_block *sb, const struct qstr *name)
{
	static const struct qstr slash = QSTR_INIT("/", 1);
	struct dentry *d = kmem_cache_alloc_lru(dentry_cache, NULL, GFP_KERNEL);
	char *dname;

	if (!d)
		return NULL;
	memset(d, 0, sizeof(*d));
	if (!name)
		name = &slash;
	dname = (char *)d->d_iname;
	if (name->len >= DNAME_INLINE_LEN) {
		dname = kmalloc(name->len + 1, GFP_KERNEL);
		if (!dname) {
			kmem_cache_free(dentry_cache, d);
			return NULL;
		}
	}
	memcpy(dname, name->name, name->len);
	dname[name->len] = 0;
	d->d_name.name = (const unsigned char *)dname;
	d->d_name.hash_len = name->hash_len;
	d->d_lockref.count = 1;
	spin_lock_init(&d->d_lock);
	d->d_sb = sb;
	d->d_parent = d;
	INIT_LIST_HEAD(&d->d_lru);
	INIT_LIST_HEAD(&d->d_child);
	INIT_LIST_HEAD(&d->d_subdirs);
	INIT_HLIST_NODE(&d->d_u.d_alias);
	if (sb)
		d_set_d_op(d, sb->s_d_op);
	return d;
}

// d_alloc makes a child of parent, which it keeps alive.
noinline struct dentry *d_alloc(struct dentry *parent, const struct qstr *name)
{
	struct dentry *d = __d_alloc(parent->d_sb, name);

	if (!d)
		return NULL;
	spin_lock(&parent->d_lock);
	parent->d_lockref.count++;
	d->d_parent = parent;
	list_add(&d->d_child, &parent->d_subdirs);
	spin_unlock(&parent->d_lock);
	return d;
}

struct dentry *d_alloc_name(struct dentry *parent, const char *name)
{
	struct qstr q = { .name = (const unsigned char *)name };

	q.hash_len = hashlen_string(parent, name);
	return d_alloc(parent, &q);
}

// d_alloc_parallel makes a child, or returns the one that another task has just made.
// Both come with a reference; a new one is unhashed and negative.
struct dentry *d_alloc_parallel(struct dentry *parent, const struct qstr *name, wait_queue_head_t *wq)
{
	struct dentry *new = d_alloc(parent, name);
	struct dentry *d;
	unsigned int seq;

	if (!new)
		return ERR_PTR(-ENOMEM);
	new->d_wait = wq;
	rcu_read_lock();
	d = __d_lookup_rcu(parent, name, &seq);
	rcu_read_unlock();
	if (d && (d = d_lookup(parent, name))) {
		INIT_LIST_HEAD(&new->d_lru);
		dput(new);
		return d;
	}
	return new;
}

static void d_free(struct callback_head *head)
{
	struct dentry *d = container_of(head, struct dentry, d_u.d_rcu);

	if (d->d_name.name != d->d_iname)
		kfree(d->d_name.name);
	kmem_cache_free(dentry_cache, d);
}

static __noipa unsigned int d_flags_for_inode(struct inode *inode)
{
	if (!inode)
		return DCACHE_MISS_TYPE;
	if (S_ISDIR(inode->i_mode))
		return DCACHE_DIRECTORY_TYPE;
	if (S_ISLNK(inode->i_mode))
		return DCACHE_SYMLINK_TYPE;
	return S_ISREG(inode->i_mode) ? DCACHE_REGULAR_TYPE : DCACHE_SPECIAL_TYPE;
}

// __d_instantiate returns a dentry, whose d_lock is held, its inode.
noinline void __d_instantiate(struct dentry *dentry, struct inode *inode)
{
	unsigned int type = d_flags_for_inode(inode);

	spin_lock(&inode->i_lock);
	hlist_add_head(&dentry->d_u.d_alias, &inode->i_dentry);
	spin_unlock(&inode->i_lock);
	dentry->d_inode = inode;
	dentry->d_flags = (dentry->d_flags & ~DCACHE_ENTRY_TYPE) | type;
}

// d_instantiate takes over the caller's reference of inode; NULL leaves the
// dentry negative.
noinline void d_instantiate(struct dentry *entry, struct inode *inode)
{
	if (!inode)
		return;
	security_d_instantiate(entry, inode);
	spin_lock(&entry->d_lock);
	__d_instantiate(entry, inode);
	spin_unlock(&entry->d_lock);
}

// __d_lookup_unhash marks a parallel lookup as finished.
wait_queue_head_t *__d_lookup_unhash(struct dentry *dentry)
{
	wait_queue_head_t *wq = list_empty(&dentry->d_lru) ? NULL : dentry->d_wait;

	INIT_LIST_HEAD(&dentry->d_lru);
	return wq;
}

// d_add puts a dentry into the hash, with its inode or negative.
void d_add(struct dentry *entry, struct inode *inode)
{
	wait_queue_head_t *wq;

	if (inode)
		security_d_instantiate(entry, inode);
	spin_lock(&entry->d_lock);
	wq = __d_lookup_unhash(entry);
	if (inode)
		__d_instantiate(entry, inode);
	__d_rehash(entry);
	if (wq)
		wake_up_all(wq);
	spin_unlock(&entry->d_lock);
}

// d_splice_alias is d_add for a lookup. If another task has added the name first, it
// returns that dentry with a reference and drops inode.
struct dentry *d_splice_alias(struct inode *inode, struct dentry *dentry)
{
	struct dentry *other;

	if (IS_ERR(inode))
		return ERR_CAST(inode);
	spin_lock(&dentry->d_parent->d_lock);
	other = d_lookup(dentry->d_parent, &dentry->d_name);
	if (!other) {
		d_add(dentry, inode);
		spin_unlock(&dentry->d_parent->d_lock);
		return NULL;
	}
	spin_unlock(&dentry->d_parent->d_lock);
	__d_lookup_unhash(dentry);
	iput(inode);
	return other;
}

struct dentry *d_make_root(struct inode *root_inode)
{
	struct dentry *d;

	if (!root_inode)
		return NULL;
	d = __d_alloc(root_inode->i_sb, NULL);
	if (d)
		d_instantiate(d, root_inode);
	else
		iput(root_inode);
	return d;
}

// dentry_unlink_inode makes a dentry, whose d_lock is held, negative. It drops
// that lock.
static void dentry_unlink_inode(struct dentry *dentry)
{
	struct inode *inode = dentry->d_inode;

	write_seqcount_begin(&dentry->d_seq);
	dentry->d_flags &= ~DCACHE_ENTRY_TYPE;
	dentry->d_inode = NULL;
	write_seqcount_end(&dentry->d_seq);
	spin_lock(&inode->i_lock);
	hlist_del_init(&dentry->d_u.d_alias);
	spin_unlock(&inode->i_lock);
	spin_unlock(&dentry->d_lock);
	if (dentry->d_op && dentry->d_op->d_iput)
		dentry->d_op->d_iput(dentry, inode);
	else
		iput(inode);
}

// __dentry_kill frees an unused dentry. Its d_lock and its parent's are held, and
// dropped.
static noinline void __dentry_kill(struct dentry *dentry)
{
	struct dentry *parent = dentry->d_parent;

	dentry->d_lockref.count = -128;
	__d_drop(dentry);
	if (!list_empty(&dentry->d_child))
		list_del_init(&dentry->d_child);
	if (parent != dentry)
		spin_unlock(&parent->d_lock);
	if (dentry->d_inode)
		dentry_unlink_inode(dentry);
	else
		spin_unlock(&dentry->d_lock);
	if (dentry->d_op && dentry->d_op->d_release)
		dentry->d_op->d_release(dentry);
	call_rcu(&dentry->d_u.d_rcu, d_free);
}

// retain_dentry reports whether an unused dentry stays in the cache.
static bool retain_dentry(struct dentry *dentry)
{
	if (d_unhashed(dentry))
		return false;
	return !(dentry->d_flags & DCACHE_OP_DELETE) || !dentry->d_op->d_delete(dentry);
}

// lock_for_kill also takes the parent's d_lock, in the right order. It returns false
// if another task has taken a reference meanwhile.
static noinline bool lock_for_kill(struct dentry *dentry)
{
	struct dentry *parent = dentry->d_parent;

	if (parent == dentry || spin_trylock(&parent->d_lock))
		return true;
	spin_unlock(&dentry->d_lock);
	spin_lock(&parent->d_lock);
	spin_lock(&dentry->d_lock);
	if (dentry->d_lockref.count == 0)
		return true;
	spin_unlock(&parent->d_lock);
	return false;
}

// dput drops a reference. If it was the last one, the dentry may be freed, which
// drops its reference to its parent, and so on.
noinline void dput(struct dentry *dentry)
{
	while (dentry) {
		struct dentry *parent;

		cond_resched();
		rcu_read_lock();
		spin_lock(&dentry->d_lock);
		if (--dentry->d_lockref.count > 0 || retain_dentry(dentry) || !lock_for_kill(dentry)) {
			spin_unlock(&dentry->d_lock);
			rcu_read_unlock();
			return;
		}
		rcu_read_unlock();
		parent = dentry->d_parent;
		__dentry_kill(dentry);
		dentry = parent == dentry ? NULL : parent;
	}
}
EXPORT_SYMBOL(dput);

struct dentry *dget_parent(struct dentry *dentry)
{
	struct dentry *parent;

	rcu_read_lock();
	parent = dget(READ_ONCE(dentry->d_parent));
	rcu_read_unlock();
	return parent;
}
EXPORT_SYMBOL(dget_parent);

// d_delete is called after a name was removed. An otherwise unused dentry becomes
// negative, one in use is unhashed.
void d_delete(struct dentry *dentry)
{
	spin_lock(&dentry->d_lock);
	if (dentry->d_lockref.count == 1) {
		dentry_unlink_inode(dentry);
		return;
	}
	__d_drop(dentry);
	spin_unlock(&dentry->d_lock);
}

// set_name gives a dentry, which is not hashed, a name. It returns the memory of the old
// one, or an error.
static void *set_name(struct dentry *dentry, const char *name, unsigned int len)
{
	void *old = dentry->d_name.name == dentry->d_iname ? NULL : (void *)dentry->d_name.name;
	unsigned char *text = dentry->d_iname;

	if (len >= DNAME_INLINE_LEN)
		text = kmalloc(len + 1, GFP_KERNEL);
	if (!text)
		return ERR_PTR(-ENOMEM);
	memcpy(text, name, len);
	text[len] = 0;
	dentry->d_name.len = len;
	WRITE_ONCE(dentry->d_name.name, text);
	return old;
}

// d_rename_to moves a dentry to another directory and name, which must be free. It returns
// 0 or -ENOMEM.
int d_rename_to(struct dentry *dentry, struct dentry *dir, const char *name)
{
	struct dentry *from = dentry->d_parent;
	unsigned int len = strlen(name);
	void *old;

	d_drop(dentry);
	old = set_name(dentry, name, len);
	if (IS_ERR(old)) {
		d_rehash(dentry);
		return PTR_ERR(old);
	}
	if (from != dir) {
		dget(dir);
		spin_lock(&from->d_lock);
		list_del(&dentry->d_child);
		spin_unlock(&from->d_lock);
		spin_lock(&dir->d_lock);
		list_add(&dentry->d_child, &dir->d_subdirs);
		WRITE_ONCE(dentry->d_parent, dir);
		spin_unlock(&dir->d_lock);
		dput(from);
	}
	dentry->d_name.hash = full_name_hash(dir, (const char *)dentry->d_name.name, len);
	d_rehash(dentry);
	if (old) {
		synchronize_rcu();
		kfree(old);
	}
	return 0;
}

// prepend writes text before *at. It returns false if it does not fit.
static noinline bool prepend(char **at, char *start, const char *text, int len)
{
	if (*at - start < len)
		return false;
	*at -= len;
	memcpy(*at, text, len);
	return true;
}

// dentry_path_raw writes the path within the filesystem to buf's end.
char *dentry_path_raw(const struct dentry *dentry, char *buf, int buflen)
{
	char *at = buf + buflen;

	if (!prepend(&at, buf, "", 1))
		return ERR_PTR(-ENAMETOOLONG);
	if (IS_ROOT(dentry) && !prepend(&at, buf, "/", 1))
		return ERR_PTR(-ENAMETOOLONG);
	for (; !IS_ROOT(dentry); dentry = dentry->d_parent) {
		if (!prepend(&at, buf, (const char *)dentry->d_name.name, dentry->d_name.len) ||
		    !prepend(&at, buf, "/", 1))
			return ERR_PTR(-ENAMETOOLONG);
	}
	return at;
}

// d_path writes the path from the global root to buf's end and returns its start.
char *d_path(const struct path *path, char *buf, int buflen)
{
	struct path p = *path;
	char *at = buf + buflen;

	if (!prepend(&at, buf, "", 1))
		return ERR_PTR(-ENAMETOOLONG);
	for (;;) {
		if (p.dentry == p.mnt->mnt_root || IS_ROOT(p.dentry)) {
			if (follow_up_mount(&p))
				continue;
			break;
		}
		if (!prepend(&at, buf, (const char *)p.dentry->d_name.name, p.dentry->d_name.len) ||
		    !prepend(&at, buf, "/", 1))
			return ERR_PTR(-ENAMETOOLONG);
		p.dentry = p.dentry->d_parent;
	}
	if (!*at && !prepend(&at, buf, "/", 1))
		return ERR_PTR(-ENAMETOOLONG);
	return at;
}
EXPORT_SYMBOL(d_path);
EXPORT_SYMBOL(dentry_path_raw);

char *file_path(struct file *filp, char *buf, int blen)
{
	return d_path(&filp->f_path, buf, blen);
}
EXPORT_SYMBOL(file_path);

void __init dcache_init(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(dentry_hashtable); i++)
		spin_lock_init(&dentry_hashtable[i].lock);
	dentry_cache = kmem_cache_create("dentry", sizeof(struct dentry), 8, SLAB_RECLAIM_ACCOUNT | SLAB_PANIC, NULL);
}
