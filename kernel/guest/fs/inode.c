// Inodes: what a file is apart from its names.
#include <linux/fs.h>
#include <linux/rcupdate.h>
#include <linux/percpu.h>

static struct kmem_cache *inode_cachep;
static const struct inode_operations empty_iops;
static const struct file_operations no_open_fops;

// inode_init_once initializes the fields that an inode keeps when it is reused.
noinline void inode_init_once(struct inode *inode)
{
	memset(inode, 0, sizeof(*inode));
	INIT_LIST_HEAD(&inode->i_devices);
	INIT_LIST_HEAD(&inode->i_io_list);
	INIT_LIST_HEAD(&inode->i_wb_list);
	INIT_LIST_HEAD(&inode->i_lru);
	INIT_LIST_HEAD(&inode->i_sb_list);
}

static void init_once(void *foo)
{
	inode_init_once(foo);
}

// inode_init_always initializes the other fields for each use.
int inode_init_always(struct super_block *sb, struct inode *inode)
{
	inode->i_sb = sb;
	inode->i_blkbits = sb->s_blocksize_bits;
	inode->i_flags = 0;
	atomic64_set(&inode->i_sequence, 0);
	atomic_set(&inode->i_count, 1);
	inode->i_op = &empty_iops;
	inode->i_fop = &no_open_fops;
	inode->i_ino = 0;
	inode->__i_nlink = 1;
	inode->i_opflags = 0;
	inode->i_uid = (kuid_t){ 0 };
	inode->i_gid = (kgid_t){ 0 };
	atomic_set(&inode->i_writecount, 0);
	inode->i_size = 0;
	inode->i_blocks = 0;
	inode->i_bytes = 0;
	inode->i_generation = 0;
	inode->i_pipe = NULL;
	inode->i_rdev = 0;
	inode->i_state = 0;
	inode->i_private = NULL;
	spin_lock_init(&inode->i_lock);
	init_rwsem(&inode->i_rwsem);
	INIT_HLIST_HEAD(&inode->i_dentry);
	inode->i_mapping = &inode->i_data;
	memset(&inode->i_data, 0, sizeof(inode->i_data));
	inode->i_data.host = inode;
	return security_inode_alloc(inode);
}

struct inode *alloc_inode(struct super_block *sb)
{
	struct inode *inode;

	if (sb->s_op->alloc_inode)
		inode = sb->s_op->alloc_inode(sb);
	else
		inode = kmem_cache_alloc_lru(inode_cachep, NULL, GFP_KERNEL);
	if (!inode)
		return NULL;
	if (inode_init_always(sb, inode)) {
		kmem_cache_free(inode_cachep, inode);
		return NULL;
	}
	return inode;
}

static void i_callback(struct callback_head *head)
{
	struct inode *inode = container_of(head, struct inode, i_rcu);

	if (inode->i_sb->s_op->free_inode)
		inode->i_sb->s_op->free_inode(inode);
	else
		kmem_cache_free(inode_cachep, inode);
}

static noinline void destroy_inode(struct inode *inode)
{
	security_inode_free(inode);
	if (inode->i_sb->s_op->destroy_inode)
		inode->i_sb->s_op->destroy_inode(inode);
	call_rcu(&inode->i_rcu, i_callback);
}

// new_inode_pseudo makes an inode that stands on no list.
struct inode *new_inode_pseudo(struct super_block *sb)
{
	struct inode *inode = alloc_inode(sb);

	if (inode)
		INIT_LIST_HEAD(&inode->i_sb_list);
	return inode;
}

struct inode *new_inode(struct super_block *sb)
{
	struct inode *inode = new_inode_pseudo(sb);

	if (inode) {
		spin_lock(&sb->s_inode_list_lock);
		list_add(&inode->i_sb_list, &sb->s_inodes);
		spin_unlock(&sb->s_inode_list_lock);
	}
	return inode;
}

void ihold(struct inode *inode)
{
	WARN_ON(atomic_inc_return(&inode->i_count) < 2);
}
EXPORT_SYMBOL(ihold);

noinline void clear_inode(struct inode *inode)
{
	inode->i_state = I_FREEING | I_CLEAR;
}

// evict frees an inode without users and names.
static noinline void evict(struct inode *inode)
{
	if (!list_empty(&inode->i_sb_list)) {
		spin_lock(&inode->i_sb->s_inode_list_lock);
		list_del_init(&inode->i_sb_list);
		spin_unlock(&inode->i_sb->s_inode_list_lock);
	}
	if (inode->i_sb->s_op->evict_inode)
		inode->i_sb->s_op->evict_inode(inode);
	clear_inode(inode);
	destroy_inode(inode);
}

static void iput_final(struct inode *inode)
{
	spin_lock(&inode->i_lock);
	inode->i_state |= I_FREEING;
	spin_unlock(&inode->i_lock);
	evict(inode);
}

// iput drops a reference. All filesystems here are in memory, and dentries hold
// references to their inodes, so an inode is freed with its last reference.
noinline void iput(struct inode *inode)
{
	if (inode && atomic_dec_and_test(&inode->i_count))
		iput_final(inode);
}
EXPORT_SYMBOL(iput);

int generic_delete_inode(struct inode *inode)
{
	return 1;
}

noinline void drop_nlink(struct inode *inode)
{
	WARN_ON(inode->i_nlink == 0);
	inode->__i_nlink--;
}

void clear_nlink(struct inode *inode)
{
	inode->__i_nlink = 0;
}

noinline void set_nlink(struct inode *inode, unsigned int nlink)
{
	if (nlink)
		inode->__i_nlink = nlink;
	else
		clear_nlink(inode);
}

noinline void inc_nlink(struct inode *inode)
{
	inode->__i_nlink++;
}

#define LAST_INO_BATCH 1024
static DEFINE_PER_CPU(unsigned int, last_ino);
static atomic_t shared_last_ino;

// get_next_ino returns a number that is not 0. Each CPU takes a batch at a time.
unsigned int get_next_ino(void)
{
	unsigned int *p = &get_cpu_var(last_ino);
	unsigned int n = *p;

	if (n % LAST_INO_BATCH == 0)
		n = atomic_add_return(LAST_INO_BATCH, &shared_last_ino) - LAST_INO_BATCH;
	if (!++n)
		n++;
	*p = n;
	put_cpu_var(last_ino);
	return n;
}

noinline __noclone umode_t mode_strip_sgid(IDMAP_PARAM const struct inode *dir, umode_t mode)
{
	if ((mode & 02010) != 02010 || S_ISDIR(mode) || !dir || !(dir->i_mode & 02000))
		return mode;
	return current_cred()->fsgid.val == dir->i_gid.val || capable(4) ? mode : mode & ~02000;
}

// inode_init_owner sets owner and mode of a new inode in dir; a directory with
// the set-group-id bit gives its group on.
void inode_init_owner(IDMAP_PARAM struct inode *inode, const struct inode *dir, umode_t mode)
{
	inode->i_uid = current_cred()->fsuid;
	if (dir && dir->i_mode & 02000) {
		inode->i_gid = dir->i_gid;
		if (S_ISDIR(mode))
			mode |= 02000;
	} else {
		inode->i_gid = current_cred()->fsgid;
	}
	inode->i_mode = mode_strip_sgid(IDMAP_ARG(idmap) dir, mode);
}

noinline struct timespec64 current_time(struct inode *inode)
{
	struct timespec64 now;

	ktime_get_coarse_real_ts64(&now);
	return now;
}

static bool older(const struct timespec64 *a, const struct timespec64 *b)
{
	return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

#define DAY (24 * 60 * 60)

// atime_needs_update is relatime: once a day, or when the file has changed
// since it was read last.
noinline bool atime_needs_update(const struct path *path, struct inode *inode)
{
	struct timespec64 now = current_time(inode);

	return !older(&inode->i_mtime, &inode->i_atime) || !older(&inode->i_ctime, &inode->i_atime) ||
	       now.tv_sec - inode->i_atime.tv_sec >= DAY;
}

noinline void touch_atime(const struct path *path)
{
	struct inode *inode = path->dentry->d_inode;

	if (!atime_needs_update(path, inode) || __mnt_want_write(path->mnt))
		return;
	inode->i_atime = current_time(inode);
	__mnt_drop_write(path->mnt);
}

void __init inode_init(void)
{
	inode_cachep = kmem_cache_create("inode_cache", sizeof(struct inode), 8,
					 SLAB_RECLAIM_ACCOUNT | SLAB_PANIC, init_once);
}
