// dcache.h: dentries, the cache of file names. Layouts are 6.1's.
#ifndef _LINUX_DCACHE_H
#define _LINUX_DCACHE_H

#include <linux/types.h>
#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/lockref.h>
#include <linux/wait.h>

struct inode;
struct super_block;
struct vfsmount;
struct path;
struct dentry;

struct hlist_bl_node {
	struct hlist_bl_node *next, **pprev;
};

struct hlist_bl_head {
	struct hlist_bl_node *first;
};

struct qstr {
	union {
		struct {
			u32 hash, len;
		};
		u64 hash_len;
	};
	const unsigned char *name;
};

#define QSTR_INIT(n, l) { { { .len = l } }, .name = (const unsigned char *)(n) }
#define DNAME_INLINE_LEN 32

struct dentry_operations {
	int (*d_revalidate)(struct dentry *, unsigned int);
	int (*d_weak_revalidate)(struct dentry *, unsigned int);
	int (*d_hash)(const struct dentry *, struct qstr *);
	int (*d_compare)(const struct dentry *, unsigned int, const char *, const struct qstr *);
	int (*d_delete)(const struct dentry *);
	int (*d_init)(struct dentry *);
	void (*d_release)(struct dentry *);
	void (*d_prune)(struct dentry *);
	void (*d_iput)(struct dentry *, struct inode *);
	char *(*d_dname)(struct dentry *, char *, int);
	struct vfsmount *(*d_automount)(struct path *);
	int (*d_manage)(const struct path *, bool);
	struct dentry *(*d_real)(struct dentry *, const struct inode *);
} __aligned(64);

struct dentry {
	unsigned int d_flags;
	seqcount_spinlock_t d_seq;
	struct hlist_bl_node d_hash;
	struct dentry *d_parent;
	struct qstr d_name;
	struct inode *d_inode; // NULL if the file does not exist
	unsigned char d_iname[DNAME_INLINE_LEN];
	struct lockref d_lockref;
	const struct dentry_operations *d_op;
	struct super_block *d_sb;
	unsigned long d_time;
	void *d_fsdata;
	union {
		struct list_head d_lru;
		wait_queue_head_t *d_wait;
	};
	struct list_head d_child;
	struct list_head d_subdirs;
	union {
		struct hlist_node d_alias;
		struct hlist_bl_node d_in_lookup_hash;
		struct callback_head d_rcu;
	} d_u;
};

static_assert(sizeof(struct dentry) == 192, "struct dentry");
static_assert(offsetof(struct dentry, d_parent) == 24, "d_parent");
static_assert(offsetof(struct dentry, d_name) == 32, "d_name");
static_assert(offsetof(struct dentry, d_inode) == 48, "d_inode");
static_assert(offsetof(struct dentry, d_iname) == 56, "d_iname");
static_assert(offsetof(struct dentry, d_lockref) == 88, "d_lockref");
static_assert(offsetof(struct dentry, d_fsdata) == 120, "d_fsdata");
static_assert(offsetof(struct dentry, d_child) == 144, "d_child");
static_assert(offsetof(struct dentry, d_u) == 176, "d_u");

// d_flags: what kind of file a dentry names, so that the inode need not be read.
#define DCACHE_ENTRY_TYPE 0x00700000
#define DCACHE_MISS_TYPE 0x00000000
#define DCACHE_DIRECTORY_TYPE 0x00200000
#define DCACHE_REGULAR_TYPE 0x00400000
#define DCACHE_SPECIAL_TYPE 0x00500000
#define DCACHE_SYMLINK_TYPE 0x00600000
#define DCACHE_MOUNTED 0x00010000
#define DCACHE_FOUND 0x10000000 // the host has it; the cache holds no reference
#define DCACHE_OP_REVALIDATE 0x00000004
#define DCACHE_OP_DELETE 0x00000008

#define d_lock d_lockref.lock
#define d_is_dir(d) (((d)->d_flags & DCACHE_ENTRY_TYPE) == DCACHE_DIRECTORY_TYPE)
#define d_is_symlink(d) (((d)->d_flags & DCACHE_ENTRY_TYPE) == DCACHE_SYMLINK_TYPE)
#define d_is_negative(d) (((d)->d_flags & DCACHE_ENTRY_TYPE) == DCACHE_MISS_TYPE)
#define d_is_positive(d) (!d_is_negative(d))
#define d_inode(d) ((d)->d_inode)
#define d_unhashed(d) (!(d)->d_hash.pprev)
#define IS_ROOT(d) ((d)->d_parent == (d))

struct dentry *__d_alloc(struct super_block *sb, const struct qstr *name);
struct dentry *d_alloc(struct dentry *parent, const struct qstr *name);
struct dentry *d_alloc_name(struct dentry *parent, const char *name);
struct dentry *d_alloc_parallel(struct dentry *parent, const struct qstr *name, wait_queue_head_t *wq);
struct dentry *d_make_root(struct inode *root_inode);
struct dentry *__d_lookup(const struct dentry *parent, const struct qstr *name);
struct dentry *__d_lookup_rcu(const struct dentry *parent, const struct qstr *name, unsigned int *seqp);
struct dentry *d_lookup(const struct dentry *parent, const struct qstr *name);
struct dentry *d_hash_and_lookup(struct dentry *dir, struct qstr *name);
bool d_same_name(const struct dentry *dentry, const struct dentry *parent, const struct qstr *name);
void __d_rehash(struct dentry *entry);
void d_rehash(struct dentry *entry);
void __d_drop(struct dentry *dentry);
void d_drop(struct dentry *dentry);
void d_delete(struct dentry *dentry);
void d_instantiate(struct dentry *entry, struct inode *inode);
void __d_instantiate(struct dentry *dentry, struct inode *inode);
void d_add(struct dentry *entry, struct inode *inode);
struct dentry *d_splice_alias(struct inode *inode, struct dentry *dentry);
void d_set_d_op(struct dentry *dentry, const struct dentry_operations *op);
int d_rename_to(struct dentry *dentry, struct dentry *dir, const char *name);
void dput(struct dentry *dentry);
struct dentry *dget_parent(struct dentry *dentry);
unsigned int full_name_hash(const void *salt, const char *name, unsigned int len);
u64 hashlen_string(const void *salt, const char *name);
struct file;
char *file_path(struct file *filp, char *buf, int blen);
char *dentry_path_raw(const struct dentry *dentry, char *buf, int buflen);
char *d_path(const struct path *path, char *buf, int buflen);
wait_queue_head_t *__d_lookup_unhash(struct dentry *dentry);
void dcache_init(void);

static inline struct dentry *dget(struct dentry *dentry)
{
	if (dentry) {
		spin_lock(&dentry->d_lock);
		dentry->d_lockref.count++;
		spin_unlock(&dentry->d_lock);
	}
	return dentry;
}

#endif
