// fs.h: files, inodes, superblocks and their operations. Layouts are 6.1's.
#ifndef _LINUX_FS_H
#define _LINUX_FS_H

#include <linux/limits.h>
#include <linux/types.h>
#include <linux/kernel.h>
#include <linux/sched.h>
#include <linux/list.h>
#include <linux/llist.h>
#include <linux/mutex.h>
#include <linux/rwsem.h>
#include <linux/ktime.h>
#include <linux/cred.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/fdtable.h>
#include <linux/fs_struct.h>
#include <linux/dcache.h>
#include <linux/uuid.h>
#include <linux/module.h>

struct file;
struct inode;
struct kiocb;
struct iov_iter;
struct dir_context;
struct kstat;
struct iattr;
struct seq_file;
struct pipe_inode_info;
struct user_namespace;
struct mnt_idmap;
struct nameidata;
struct delayed_call;
struct module;
struct vm_area_struct;
struct address_space;
struct poll_table_struct;

#define O_ACCMODE 00000003
#define O_RDONLY 00000000
#define O_WRONLY 00000001
#define O_RDWR 00000002
#define O_CREAT 00000100
#define O_EXCL 00000200
#define O_NOCTTY 00000400
#define O_TRUNC 00001000
#define O_APPEND 00002000
#define O_NONBLOCK 00004000
#define O_DIRECT 00040000
#define O_LARGEFILE 00100000
#define O_DIRECTORY 00200000
#define O_NOFOLLOW 00400000
#define O_CLOEXEC 02000000
#define O_PATH 010000000

#define AT_FDCWD -100
#define AT_SYMLINK_NOFOLLOW 0x100
#define AT_REMOVEDIR 0x200
#define AT_EACCESS 0x200
#define AT_EMPTY_PATH 0x1000

#define S_IFMT 00170000
#define S_IFSOCK 0140000
#define S_IFLNK 0120000
#define S_IFREG 0100000
#define S_IFBLK 0060000
#define S_IFDIR 0040000
#define S_IFCHR 0020000
#define S_IFIFO 0010000
#define S_ISVTX 0001000
#define S_IALLUGO 07777
#define S_IRWXUGO 0777
#define S_ISLNK(m) (((m) & S_IFMT) == S_IFLNK)
#define S_ISREG(m) (((m) & S_IFMT) == S_IFREG)
#define S_ISDIR(m) (((m) & S_IFMT) == S_IFDIR)
#define S_ISCHR(m) (((m) & S_IFMT) == S_IFCHR)
#define S_ISBLK(m) (((m) & S_IFMT) == S_IFBLK)
#define S_ISFIFO(m) (((m) & S_IFMT) == S_IFIFO)
#define S_ISSOCK(m) (((m) & S_IFMT) == S_IFSOCK)

#define FMODE_READ 0x1
#define FMODE_WRITE 0x2
#define FMODE_LSEEK 0x4
#define FMODE_PREAD 0x8
#define FMODE_PWRITE 0x10
#define FMODE_EXEC 0x20
#define FMODE_PATH 0x4000
#define FMODE_ATOMIC_POS 0x8000
#define FMODE_CAN_READ 0x20000
#define FMODE_CAN_WRITE 0x40000
#define FMODE_OPENED 0x80000
#define FMODE_CREATED 0x100000
#define FMODE_STREAM 0x200000

#define MAY_EXEC 0x01
#define MAY_WRITE 0x02
#define MAY_READ 0x04
#define MAY_APPEND 0x08
#define MAY_ACCESS 0x10
#define MAY_OPEN 0x20
#define MAY_CHDIR 0x40
#define MAY_NOT_BLOCK 0x80

#define SEEK_SET 0
#define SEEK_CUR 1
#define SEEK_END 2

#define MAX_RW_COUNT (0x7fffffff & ~4095)
#define MAX_LFS_FILESIZE ((loff_t)0x7fffffffffffffff)
#define RLIMIT_NOFILE_MAX 65536

// The mapping of uids. There is only one, so the argument is just passed on. 5.10 has
// no such argument, in 6.1 it is a user namespace, in 6.12 a mnt_idmap.
#if GUEST_LINUX < 601
#define IDMAP_TYPE
#define IDMAP_PARAM
#define IDMAP_ARG(idmap)
#else
#if GUEST_LINUX >= 612
typedef struct mnt_idmap idmap_t;
extern struct mnt_idmap nop_mnt_idmap;
#define init_idmap (&nop_mnt_idmap)
#else
typedef struct user_namespace idmap_t;
extern struct user_namespace init_user_ns;
#define init_idmap (&init_user_ns)
#endif
#define IDMAP_TYPE idmap_t *,
#define IDMAP_PARAM idmap_t *idmap,
#define IDMAP_ARG(idmap) idmap,
#endif
#define IDMAP_OF(mnt) IDMAP_ARG((mnt)->mnt_idmap)

// In 6.12 generic_fillattr has the requested attributes as an argument.
#if GUEST_LINUX >= 612
#define REQUEST_PARAM u32 request_mask,
#define REQUEST_ARG(request_mask) request_mask,
#else
#define REQUEST_PARAM
#define REQUEST_ARG(request_mask)
#endif

// Functions of paths that in 5.10 copy the name themselves.
#if GUEST_LINUX < 601
typedef const char __user *path_arg_t;
#define path_getname(path) getname(path)
#define PATH_ARG(pathname) (pathname)
#else
typedef struct filename *path_arg_t;
#define path_getname(path) (path)
#define PATH_ARG(pathname) getname(pathname)
#endif

typedef void *fl_owner_t;

struct fown_struct {
	rwlock_t lock;
	struct pid *pid;
	u32 pid_type; // enum pid_type
	kuid_t uid, euid;
	int signum;
};

// fasync_struct is an entry of a list of files whose owners get signals.
struct fasync_struct {
	rwlock_t fa_lock;
	int magic;
	int fa_fd;
	struct fasync_struct *fa_next;
	struct file *fa_file;
	struct callback_head fa_rcu;
};
static_assert(sizeof(struct fasync_struct) == 48, "struct fasync_struct");
int fasync_helper(int fd, struct file *filp, int on, struct fasync_struct **fapp);
void kill_fasync(struct fasync_struct **fp, int sig, int band);

struct file_ra_state {
	unsigned long start;
	unsigned int size, async_size, ra_pages, mmap_miss;
	loff_t prev_pos;
};

struct file {
	union {
		struct llist_node f_llist;
		struct callback_head f_rcuhead;
		unsigned int f_iocb_flags;
	};
	struct path f_path;
	struct inode *f_inode;
	const struct file_operations *f_op;
	spinlock_t f_lock;
	atomic_long_t f_count;
	unsigned int f_flags; // O_*
	fmode_t f_mode;       // FMODE_*
	struct mutex f_pos_lock;
	loff_t f_pos;
	struct fown_struct f_owner;
	const struct cred *f_cred;
	struct file_ra_state f_ra;
	u64 f_version;
	void *f_security;
	void *private_data;
	struct hlist_head *f_ep;
	struct address_space *f_mapping;
	errseq_t f_wb_err, f_sb_err;
};

#define __FILE(f, off) static_assert(offsetof(struct file, f) == (off), "file." #f)
__FILE(f_path, 16);
__FILE(f_inode, 32);
__FILE(f_op, 40);
__FILE(f_count, 56);
__FILE(f_flags, 64);
__FILE(f_mode, 68);
__FILE(f_pos_lock, 72);
__FILE(f_pos, 104);
__FILE(f_owner, 112);
__FILE(f_cred, 144);
__FILE(f_security, 192);
__FILE(private_data, 200);
static_assert(sizeof(struct file) == 232, "struct file");

typedef bool (*filldir_t)(struct dir_context *, const char *, int, loff_t, u64, unsigned int);

// A dir_context takes the names of a directory, from pos on; pos moves on.
struct dir_context {
	filldir_t actor;
	loff_t pos;
};

struct file_operations {
	struct module *owner;
	loff_t (*llseek)(struct file *, loff_t, int);
	ssize_t (*read)(struct file *, char __user *, size_t, loff_t *);
	ssize_t (*write)(struct file *, const char __user *, size_t, loff_t *);
	ssize_t (*read_iter)(struct kiocb *, struct iov_iter *);
	ssize_t (*write_iter)(struct kiocb *, struct iov_iter *);
	int (*iopoll)(struct kiocb *, void *, unsigned int);
	int (*iterate)(struct file *, struct dir_context *);
	int (*iterate_shared)(struct file *, struct dir_context *);
	unsigned int (*poll)(struct file *, struct poll_table_struct *);
	long (*unlocked_ioctl)(struct file *, unsigned int, unsigned long);
	long (*compat_ioctl)(struct file *, unsigned int, unsigned long);
	int (*mmap)(struct file *, struct vm_area_struct *);
	unsigned long mmap_supported_flags;
	int (*open)(struct inode *, struct file *);
	int (*flush)(struct file *, fl_owner_t id);
	int (*release)(struct inode *, struct file *);
	int (*fsync)(struct file *, loff_t, loff_t, int);
	int (*fasync)(int, struct file *, int);
	int (*lock)(struct file *, int, void *);
	ssize_t (*sendpage)(struct file *, struct page *, int, size_t, loff_t *, int);
	unsigned long (*get_unmapped_area)(struct file *, unsigned long, unsigned long, unsigned long, unsigned long);
	int (*check_flags)(int);
	int (*flock)(struct file *, int, void *);
	ssize_t (*splice_write)(struct pipe_inode_info *, struct file *, loff_t *, size_t, unsigned int);
	ssize_t (*splice_read)(struct file *, loff_t *, struct pipe_inode_info *, size_t, unsigned int);
	void (*splice_eof)(struct file *);
	int (*setlease)(struct file *, long, void **, void **);
	long (*fallocate)(struct file *, int, loff_t, loff_t);
	void (*show_fdinfo)(struct seq_file *, struct file *);
	ssize_t (*copy_file_range)(struct file *, loff_t, struct file *, loff_t, size_t, unsigned int);
	loff_t (*remap_file_range)(struct file *, loff_t, struct file *, loff_t, loff_t, unsigned int);
	int (*fadvise)(struct file *, loff_t, loff_t, int);
	int (*uring_cmd)(void *, unsigned int);
	int (*uring_cmd_iopoll)(void *, void *, unsigned int);
};
static_assert(sizeof(struct file_operations) == 280, "file_operations");
static_assert(offsetof(struct file_operations, open) == 112, "file_operations.open");

// A file that is open has a reference to the module of its operations.
#define fops_get(fops) \
	({ const struct file_operations *__fops = (fops); __fops && try_module_get(__fops->owner) ? __fops : NULL; })
#define fops_put(fops) do { const struct file_operations *__fops = (fops); if (__fops) module_put(__fops->owner); } while (0)
#define replace_fops(f, fops) \
	do { struct file *__file = (f); fops_put(__file->f_op); __file->f_op = (fops); } while (0)

struct inode_operations {
	struct dentry *(*lookup)(struct inode *, struct dentry *, unsigned int);
	const char *(*get_link)(struct dentry *, struct inode *, struct delayed_call *);
	int (*permission)(IDMAP_TYPE struct inode *, int);
	void *(*get_acl)(struct inode *, int, bool);
	int (*readlink)(struct dentry *, char __user *, int);
	int (*create)(IDMAP_TYPE struct inode *, struct dentry *, umode_t, bool);
	int (*link)(struct dentry *, struct inode *, struct dentry *);
	int (*unlink)(struct inode *, struct dentry *);
	int (*symlink)(IDMAP_TYPE struct inode *, struct dentry *, const char *);
	int (*mkdir)(IDMAP_TYPE struct inode *, struct dentry *, umode_t);
	int (*rmdir)(struct inode *, struct dentry *);
	int (*mknod)(IDMAP_TYPE struct inode *, struct dentry *, umode_t, dev_t);
	int (*rename)(IDMAP_TYPE struct inode *, struct dentry *, struct inode *, struct dentry *, unsigned int);
	int (*setattr)(IDMAP_TYPE struct dentry *, struct iattr *);
	int (*getattr)(IDMAP_TYPE const struct path *, struct kstat *, u32, unsigned int);
	ssize_t (*listxattr)(struct dentry *, char *, size_t);
	int (*fiemap)(struct inode *, void *, u64, u64);
	int (*update_time)(struct inode *, struct timespec64 *, int);
	int (*atomic_open)(struct inode *, struct dentry *, struct file *, unsigned int, umode_t);
	int (*tmpfile)(IDMAP_TYPE struct inode *, struct file *, umode_t);
	int (*set_acl)(IDMAP_TYPE struct inode *, void *, int);
	int (*fileattr_set)(IDMAP_TYPE struct dentry *, void *);
	int (*fileattr_get)(struct dentry *, void *);
} ____cacheline_aligned;
static_assert(sizeof(struct inode_operations) == 192, "inode_operations");

// An address_space holds the pages of a file. Only ramfs has some: a plain array.
struct address_space_operations {
	void (*readahead)(struct address_space *mapping, struct page **pages, unsigned int nr);
	int (*writepage)(struct page *page);
	int (*write_begin)(struct file *file, struct address_space *mapping, loff_t pos, unsigned int len, struct page **pagep);
	int (*write_end)(struct file *file, struct address_space *mapping, loff_t pos, unsigned int len, unsigned int copied, struct page *page);
};

struct address_space {
	struct inode *host;
	struct page **pages;
	unsigned long nrpages;
	const struct address_space_operations *a_ops; // of a disk's pages; NULL: they are only in memory
	spinlock_t pages_lock;
	char __rest[192 - 36];
};
static_assert(sizeof(struct address_space) == 192, "address_space");

struct inode {
	umode_t i_mode;
	unsigned short i_opflags;
	kuid_t i_uid;
	kgid_t i_gid;
	unsigned int i_flags;
	void *i_acl, *i_default_acl;
	const struct inode_operations *i_op;
	struct super_block *i_sb;
	struct address_space *i_mapping;
	void *i_security;
	unsigned long i_ino;
	union {
		const unsigned int i_nlink;
		unsigned int __i_nlink;
	};
	dev_t i_rdev;
	loff_t i_size;
	struct timespec64 i_atime, i_mtime, i_ctime;
	spinlock_t i_lock;
	unsigned short i_bytes;
	u8 i_blkbits, i_write_hint;
	blkcnt_t i_blocks;
	unsigned long i_state;
	struct rw_semaphore i_rwsem;
	unsigned long dirtied_when, dirtied_time_when;
	struct hlist_node i_hash;
	struct list_head i_io_list;
	void *i_wb;
	int i_wb_frn_winner;
	u16 i_wb_frn_avg_time, i_wb_frn_history;
	struct list_head i_lru, i_sb_list, i_wb_list;
	union {
		struct hlist_head i_dentry;
		struct callback_head i_rcu;
	};
	atomic64_t i_version, i_sequence;
	atomic_t i_count, i_dio_count, i_writecount, i_readcount;
	union {
		const struct file_operations *i_fop;
		void (*free_inode)(struct inode *);
	};
	void *i_flctx;
	struct address_space i_data;
	struct list_head i_devices;
	union {
		struct pipe_inode_info *i_pipe;
		void *i_cdev;
		char *i_link;
		unsigned int i_dir_seq;
	};
	u32 i_generation, i_fsnotify_mask;
	void *i_fsnotify_marks, *i_crypt_info, *i_verity_info;
	void *i_private;
};

#define __INODE(f, off) static_assert(offsetof(struct inode, f) == (off), "inode." #f)
__INODE(i_op, 32);
__INODE(i_sb, 40);
__INODE(i_ino, 64);
__INODE(i_size, 80);
__INODE(i_lock, 136);
__INODE(i_state, 152);
__INODE(i_rwsem, 160);
__INODE(i_sb_list, 280);
__INODE(i_count, 344);
__INODE(i_fop, 360);
__INODE(i_data, 376);
__INODE(i_pipe, 584);
__INODE(i_private, 624);
static_assert(sizeof(struct inode) == 632, "struct inode");

#define I_NEW 8
#define I_FREEING 0x20
#define I_CLEAR 0x40

struct super_operations {
	struct inode *(*alloc_inode)(struct super_block *sb);
	void (*destroy_inode)(struct inode *);
	void (*free_inode)(struct inode *);
	void (*dirty_inode)(struct inode *, int flags);
	int (*write_inode)(struct inode *, void *);
	int (*drop_inode)(struct inode *);
	void (*evict_inode)(struct inode *);
	void (*put_super)(struct super_block *);
	void *__rest[17];
};
static_assert(sizeof(struct super_operations) == 200, "super_operations");

struct super_block {
	struct list_head s_list;
	dev_t s_dev;
	unsigned char s_blocksize_bits;
	unsigned long s_blocksize;
	loff_t s_maxbytes;
	struct file_system_type *s_type;
	const struct super_operations *s_op;
	const void *dq_op, *s_qcop, *s_export_op;
	unsigned long s_flags, s_iflags, s_magic;
	struct dentry *s_root;
	struct rw_semaphore s_umount;
	int s_count;
	atomic_t s_active;
	void *s_security;
	char __before_fs_info[920 - 168];
	void *s_fs_info;
	u32 s_time_gran;
	time64_t s_time_min, s_time_max;
	u32 s_fsnotify_mask;
	void *s_fsnotify_marks;
	char s_id[32];
	uuid_t s_uuid;
	unsigned int s_max_links;
	fmode_t s_mode;
	struct mutex s_vfs_rename_mutex;
	const char *s_subtype;
	const struct dentry_operations *s_d_op;
	char __before_inodes[1408 - 1072];
	spinlock_t s_inode_list_lock __aligned(64);
	struct list_head s_inodes;
	spinlock_t s_inode_wblist_lock;
	struct list_head s_inodes_wb;
} __aligned(64);
static_assert(offsetof(struct super_block, s_root) == 104, "s_root");
static_assert(offsetof(struct super_block, s_fs_info) == 920, "s_fs_info");
static_assert(offsetof(struct super_block, s_id) == 968, "s_id");
static_assert(offsetof(struct super_block, s_d_op) == 1064, "s_d_op");
static_assert(offsetof(struct super_block, s_inodes) == 1416, "s_inodes");
static_assert(sizeof(struct super_block) == 1472, "super_block");

struct vfsmount {
	struct dentry *mnt_root;
	struct super_block *mnt_sb;
	int mnt_flags;
#if GUEST_LINUX >= 601
	idmap_t *mnt_idmap;		// 6.1: mnt_userns
#endif
};
#if GUEST_LINUX >= 601
static_assert(sizeof(struct vfsmount) == 32, "vfsmount");
#endif

struct file_system_type {
	const char *name;
	int (*fill_super)(struct super_block *sb);
	struct file_system_type *next;
};

struct filename {
	const char *name;
	const char __user *uptr;
	atomic_t refcnt;
	void *aname;
	const char iname[];
};
static_assert(sizeof(struct filename) == 32, "filename");
#define EMBEDDED_NAME_MAX (PATH_MAX - sizeof(struct filename))

struct open_how {
	u64 flags, mode, resolve;
};

struct open_flags {
	int open_flag;
	umode_t mode;
	int acc_mode, intent, lookup_flags;
};

struct iovec {
	void __user *iov_base;
	size_t iov_len;
};

struct kvec {
	void *iov_base;
	size_t iov_len;
};

struct kiocb {
	struct file *ki_filp;
	loff_t ki_pos;
	void (*ki_complete)(struct kiocb *, long);
	void *private;
	int ki_flags;
	u16 ki_ioprio;
	void *ki_waitq;
};
static_assert(sizeof(struct kiocb) == 48, "kiocb");

enum iter_type { ITER_IOVEC, ITER_KVEC, ITER_UBUF = 6 };

struct iov_iter {
	u8 iter_type;
	bool nofault, data_source, user_backed;
	size_t iov_offset;
	size_t count;
	union {
		const struct iovec *iov;
		const struct kvec *kvec;
		void __user *ubuf;
	};
	unsigned long nr_segs;
};
static_assert(sizeof(struct iov_iter) == 40, "iov_iter");
#define READ 0
#define WRITE 1

struct kstat {
	u32 result_mask;
	umode_t mode;
	unsigned int nlink;
	u32 blksize;
	u64 attributes, attributes_mask, ino;
	dev_t dev, rdev;
	kuid_t uid;
	kgid_t gid;
	loff_t size;
	struct timespec64 atime, mtime, ctime, btime;
	u64 blocks, mnt_id;
};

struct linux_dirent64 {
	u64 d_ino;
	s64 d_off;
	unsigned short d_reclen;
	unsigned char d_type;
	char d_name[];
};

#define DT_UNKNOWN 0
#define DT_DIR 4
#define DT_REG 8
#define DT_LNK 10
#define S_DT(mode) (((mode) & S_IFMT) >> 12)

// fs/open.c
long do_sys_open(int dfd, const char __user *filename, int flags, umode_t mode);
long do_sys_openat2(int dfd, const char __user *filename, struct open_how *how);
int build_open_flags(const struct open_how *how, struct open_flags *op);
int vfs_open(const struct path *path, struct file *file);
int do_dentry_open(struct file *f, struct inode *inode, int (*open)(struct inode *, struct file *));
int filp_close(struct file *filp, fl_owner_t id);
struct file *filp_open(const char *filename, int flags, umode_t mode);
struct file *dentry_open(const struct path *path, int flags, const struct cred *cred);
int nonseekable_open(struct inode *inode, struct file *filp);
int stream_open(struct inode *inode, struct file *filp);

// fs/file_table.c
struct file *alloc_empty_file(int flags, const struct cred *cred);
struct file *__alloc_file(int flags, const struct cred *cred);
struct file *alloc_file_pseudo(struct inode *inode, struct vfsmount *mnt, const char *name, int flags, const struct file_operations *fops);
void fput(struct file *file);
void __fput_sync(struct file *file);
void ____fput(struct callback_head *work);
void flush_delayed_fput(void);

static inline struct file *get_file(struct file *f)
{
	atomic_long_inc(&f->f_count);
	return f;
}

#define file_count(f) atomic_long_read(&(f)->f_count)

// fs/file.c
struct fd {
	struct file *file;
	unsigned int flags; // FDPUT_*
};
#define FDPUT_FPUT 1
#define FDPUT_POS_UNLOCK 2

int alloc_fd(unsigned int start, unsigned int end, unsigned int flags);
int get_unused_fd_flags(unsigned int flags);
void put_unused_fd(unsigned int fd);
void fd_install(unsigned int fd, struct file *file);
int close_fd(unsigned int fd);
struct file *close_fd_get_file(unsigned int fd);
struct file *fget(unsigned int fd);
struct file *fget_raw(unsigned int fd);
unsigned long __fget_light(unsigned int fd, fmode_t mask);
unsigned long __fdget(unsigned int fd);
unsigned long __fdget_raw(unsigned int fd);
unsigned long __fdget_pos(unsigned int fd);
void __f_unlock_pos(struct file *f);
int f_dupfd(unsigned int from, struct file *file, unsigned int flags);

static inline struct fd __to_fd(unsigned long v)
{
	return (struct fd){ (struct file *)(v & ~3UL), v & 3 };
}

static inline struct fd fdget(unsigned int fd)
{
	return __to_fd(__fdget(fd));
}

static inline struct fd fdget_raw(unsigned int fd)
{
	return __to_fd(__fdget_raw(fd));
}

static inline struct fd fdget_pos(unsigned int fd)
{
	return __to_fd(__fdget_pos(fd));
}

static inline void fdput(struct fd fd)
{
	if (fd.flags & FDPUT_FPUT)
		fput(fd.file);
}

static inline void fdput_pos(struct fd fd)
{
	if (fd.flags & FDPUT_POS_UNLOCK)
		__f_unlock_pos(fd.file);
	fdput(fd);
}

// fs/read_write.c
ssize_t ksys_read(unsigned int fd, char __user *buf, size_t count);
ssize_t ksys_write(unsigned int fd, const char __user *buf, size_t count);
ssize_t vfs_read(struct file *file, char __user *buf, size_t count, loff_t *pos);
ssize_t vfs_write(struct file *file, const char __user *buf, size_t count, loff_t *pos);
int rw_verify_area(int read_write, struct file *file, const loff_t *ppos, size_t count);
loff_t vfs_llseek(struct file *file, loff_t offset, int whence);
loff_t generic_file_llseek(struct file *file, loff_t offset, int whence);
loff_t generic_file_llseek_size(struct file *file, loff_t offset, int whence, loff_t maxsize, loff_t eof);
loff_t default_llseek(struct file *file, loff_t offset, int whence);
loff_t no_llseek(struct file *file, loff_t offset, int whence);
loff_t noop_llseek(struct file *file, loff_t offset, int whence);
loff_t vfs_setpos(struct file *file, loff_t offset, loff_t maxsize);
ssize_t kernel_read(struct file *file, void *buf, size_t count, loff_t *pos);
ssize_t kernel_write(struct file *file, const void *buf, size_t count, loff_t *pos);

// lib/iov_iter.c
#define UIO_FASTIOV 8
#define UIO_MAXIOV 1024
ssize_t import_iovec(int type, const struct iovec __user *uvec, unsigned int nr_segs, unsigned int fast_segs, struct iovec **iovp, struct iov_iter *i);
ssize_t __import_iovec(int type, const struct iovec __user *uvec, unsigned int nr_segs, unsigned int fast_segs, struct iovec **iovp, struct iov_iter *i, bool compat);
struct iovec *iovec_from_user(const struct iovec __user *uvec, unsigned long nr_segs, unsigned long fast_segs, struct iovec *fast, bool compat);

// Flags of preadv2 and pwritev2.
typedef int rwf_t;
#define RWF_HIPRI 1
#define RWF_SUPPORTED 0x1f
void iov_iter_init(struct iov_iter *i, unsigned int direction, const struct iovec *iov, unsigned long nr_segs, size_t count);
void iov_iter_ubuf(struct iov_iter *i, unsigned int direction, void __user *buf, size_t count);
void iov_iter_kvec(struct iov_iter *i, unsigned int direction, const struct kvec *kvec, unsigned long nr_segs, size_t count);
size_t _copy_to_iter(const void *addr, size_t bytes, struct iov_iter *i);
size_t _copy_from_iter(void *addr, size_t bytes, struct iov_iter *i);
size_t iov_iter_zero(size_t bytes, struct iov_iter *i);
void iov_iter_advance(struct iov_iter *i, size_t bytes);
void iov_iter_revert(struct iov_iter *i, size_t bytes);
#define copy_to_iter(addr, bytes, i) _copy_to_iter(addr, bytes, i)
#define copy_from_iter(addr, bytes, i) _copy_from_iter(addr, bytes, i)
#define iov_iter_count(i) ((i)->count)

// fs/readdir.c
int iterate_dir(struct file *file, struct dir_context *ctx);

static inline bool dir_emit(struct dir_context *ctx, const char *name, int len, u64 ino, unsigned int type)
{
	return ctx->actor(ctx, name, len, ctx->pos, ino, type);
}

static inline bool dir_emit_dots(struct file *file, struct dir_context *ctx)
{
	struct dentry *d = file->f_path.dentry;

	if (ctx->pos == 0) {
		if (!dir_emit(ctx, ".", 1, file->f_inode->i_ino, DT_DIR))
			return false;
		ctx->pos = 1;
	}
	if (ctx->pos == 1) {
		if (!dir_emit(ctx, "..", 2, d->d_parent->d_inode->i_ino, DT_DIR))
			return false;
		ctx->pos = 2;
	}
	return true;
}

// fs/stat.c
int vfs_statx(int dfd, path_arg_t filename, int flags, struct kstat *stat, u32 request_mask);
int vfs_fstatat(int dfd, const char __user *filename, struct kstat *stat, int flags);
int vfs_fstat(int fd, struct kstat *stat);
int vfs_getattr(const struct path *path, struct kstat *stat, u32 request_mask, unsigned int query_flags);
int vfs_getattr_nosec(const struct path *path, struct kstat *stat, u32 request_mask, unsigned int query_flags);
void generic_fillattr(IDMAP_PARAM REQUEST_PARAM struct inode *inode, struct kstat *stat);

// fs/inode.c
struct inode *alloc_inode(struct super_block *sb);
int inode_init_always(struct super_block *sb, struct inode *inode);
void inode_init_once(struct inode *inode);
struct inode *new_inode(struct super_block *sb);
struct inode *new_inode_pseudo(struct super_block *sb);
void iput(struct inode *inode);
void ihold(struct inode *inode);
void clear_inode(struct inode *inode);
void inc_nlink(struct inode *inode);
void drop_nlink(struct inode *inode);
void clear_nlink(struct inode *inode);
void set_nlink(struct inode *inode, unsigned int nlink);
unsigned int get_next_ino(void);
int generic_delete_inode(struct inode *inode);
void inode_init_owner(IDMAP_PARAM struct inode *inode, const struct inode *dir, umode_t mode);
struct timespec64 current_time(struct inode *inode);
void touch_atime(const struct path *path);

// What of a struct iattr counts.
#define ATTR_MODE 0x1
#define ATTR_UID 0x2
#define ATTR_GID 0x4
#define ATTR_SIZE 0x8
#define ATTR_ATIME 0x10
#define ATTR_MTIME 0x20
#define ATTR_CTIME 0x40
#define ATTR_ATIME_SET 0x80
#define ATTR_MTIME_SET 0x100
#define ATTR_FORCE 0x200
#define ATTR_KILL_SUID 0x800
#define ATTR_KILL_SGID 0x1000
#define ATTR_FILE 0x2000
#define ATTR_OPEN 0x8000
#define ATTR_TIMES_SET 0x10000
#define ATTR_TOUCH 0x20000

struct iattr {
	unsigned int ia_valid;
	umode_t ia_mode;
	kuid_t ia_uid;
	kgid_t ia_gid;
	loff_t ia_size;
	struct timespec64 ia_atime, ia_mtime, ia_ctime;
	struct file *ia_file;
};
static_assert(offsetof(struct iattr, ia_size) == 16, "struct iattr");
static_assert(sizeof(struct iattr) == 80, "struct iattr");

int notify_change(IDMAP_PARAM struct dentry *dentry, struct iattr *attr, struct inode **delegated_inode);
int setattr_prepare(IDMAP_PARAM struct dentry *dentry, struct iattr *attr);
void setattr_copy(IDMAP_PARAM struct inode *inode, const struct iattr *attr);
int simple_setattr(IDMAP_PARAM struct dentry *dentry, struct iattr *attr);
int generic_file_open(struct inode *inode, struct file *filp);
int noop_fsync(struct file *file, loff_t start, loff_t end, int datasync);
int vfs_fsync(struct file *file, int datasync), vfs_fsync_range(struct file *file, loff_t start, loff_t end, int datasync);
bool atime_needs_update(const struct path *path, struct inode *inode);
void inode_init_early(void);
void inode_init(void);

static inline void inode_lock(struct inode *inode)
{
	down_write(&inode->i_rwsem);
}

static inline void inode_unlock(struct inode *inode)
{
	up_write(&inode->i_rwsem);
}

// fs/namei.c
struct filename *getname(const char __user *filename);
struct filename *getname_flags(const char __user *filename, int flags, int *empty);
struct filename *getname_kernel(const char *filename);
void putname(struct filename *name);
struct file *do_filp_open(int dfd, struct filename *pathname, const struct open_flags *op);
int filename_lookup(int dfd, struct filename *name, unsigned int flags, struct path *path, struct path *root);
int kern_path(const char *name, unsigned int flags, struct path *path);
int user_path_at_empty(int dfd, const char __user *name, unsigned int flags, struct path *path, int *empty);
struct dentry *lookup_one_len(const char *name, struct dentry *base, int len);
int inode_permission(IDMAP_PARAM struct inode *inode, int mask);
int generic_permission(IDMAP_PARAM struct inode *inode, int mask);
int vfs_create(IDMAP_PARAM struct inode *dir, struct dentry *dentry, umode_t mode, bool want_excl);
int vfs_mkdir(IDMAP_PARAM struct inode *dir, struct dentry *dentry, umode_t mode);
int vfs_rmdir(IDMAP_PARAM struct inode *dir, struct dentry *dentry);
int vfs_unlink(IDMAP_PARAM struct inode *dir, struct dentry *dentry, struct inode **delegated_inode);
int vfs_symlink(IDMAP_PARAM struct inode *dir, struct dentry *dentry, const char *oldname);
int vfs_link(struct dentry *old, IDMAP_PARAM struct inode *dir, struct dentry *new, struct inode **delegated);
struct dentry *kern_path_create(int dfd, const char *pathname, struct path *path, unsigned int lookup_flags);
void done_path_create(struct path *path, struct dentry *dentry);
void path_get(const struct path *path);
void path_put(const struct path *path);
int readlink_copy(char __user *buffer, int buflen, const char *link);

#define LOOKUP_FOLLOW 0x0001
#define LOOKUP_DIRECTORY 0x0002
#define LOOKUP_PARENT 0x0010
#define LOOKUP_REVAL 0x0020
#define LOOKUP_RCU 0x0040
#define LOOKUP_OPEN 0x0100
#define LOOKUP_CREATE 0x0200
#define LOOKUP_EXCL 0x0400
#define LOOKUP_EMPTY 0x4000

// fs/namespace.c and fs/super.c
struct vfsmount *vfs_kern_mount(struct file_system_type *type);
struct vfsmount *kern_mount(struct file_system_type *type);
int mount_at(struct vfsmount *mnt, const char *path);
struct vfsmount *lookup_mnt(const struct path *path);
bool follow_up_mount(struct path *path);
struct vfsmount *mntget(struct vfsmount *mnt);
void mntput(struct vfsmount *mnt);
int mnt_want_write(struct vfsmount *mnt);
void mnt_drop_write(struct vfsmount *mnt);
int __mnt_want_write(struct vfsmount *mnt);
void __mnt_drop_write(struct vfsmount *mnt);
struct super_block *alloc_super(struct file_system_type *type);
int register_filesystem(struct file_system_type *fs);
struct file_system_type *get_fs_type(const char *name);
void mnt_init(void);
void names_init(void);
void vfs_caches_init(void);

// fs/libfs.c
extern const struct file_operations simple_dir_operations;
extern const struct inode_operations simple_dir_inode_operations;
extern const struct dentry_operations simple_dentry_operations;
extern const struct inode_operations simple_symlink_inode_operations;
struct dentry *simple_lookup(struct inode *dir, struct dentry *dentry, unsigned int flags);
int dcache_dir_open(struct inode *inode, struct file *file);
int dcache_dir_close(struct inode *inode, struct file *file);
loff_t dcache_dir_lseek(struct file *file, loff_t offset, int whence);
int dcache_readdir(struct file *file, struct dir_context *ctx);
ssize_t simple_read_from_buffer(void __user *to, size_t count, loff_t *ppos, const void *from, size_t available);
ssize_t simple_write_to_buffer(void *to, size_t available, loff_t *ppos, const void __user *from, size_t count);
ssize_t memory_read_from_buffer(void *to, size_t count, loff_t *ppos, const void *from, size_t available);
int simple_open(struct inode *inode, struct file *file);
int simple_unlink(struct inode *dir, struct dentry *dentry);
int simple_rmdir(struct inode *dir, struct dentry *dentry);
int simple_link(struct dentry *old_dentry, struct inode *dir, struct dentry *dentry);
int simple_empty(struct dentry *dentry);
int simple_getattr(IDMAP_PARAM const struct path *path, struct kstat *stat, u32 request_mask, unsigned int query_flags);
const char *simple_get_link(struct dentry *dentry, struct inode *inode, struct delayed_call *done);
int always_delete_dentry(const struct dentry *dentry);
int simple_pin_fs(struct file_system_type *type, struct vfsmount **mount, int *count);
void simple_release_fs(struct vfsmount **mount, int *count);
int simple_attr_open(struct inode *inode, struct file *file, int (*get)(void *, u64 *), int (*set)(void *, u64), const char *fmt);
int simple_attr_release(struct inode *inode, struct file *file);
ssize_t simple_attr_read(struct file *file, char __user *buf, size_t len, loff_t *ppos);
ssize_t simple_attr_write(struct file *file, const char __user *buf, size_t len, loff_t *ppos);
ssize_t simple_attr_write_signed(struct file *file, const char __user *buf, size_t len, loff_t *ppos);
loff_t no_llseek(struct file *file, loff_t offset, int whence);
int nonseekable_open(struct inode *inode, struct file *filp);
ssize_t generic_read_dir(struct file *filp, char __user *buf, size_t size, loff_t *ppos);

// fs/fs_struct.c
void set_fs_pwd(struct fs_struct *fs, const struct path *path);
void set_fs_root(struct fs_struct *fs, const struct path *path);
int current_umask(void);

// fs/pipe.c
int do_pipe_flags(int *fd, int flags);
int create_pipe_files(struct file **res, int flags);

// fs/hostfs: closing the host's descriptors.
long host_filp_close(unsigned int fd);
long host_release(unsigned int fd);

// security/security.c
int security_file_alloc(struct file *file);
void security_file_free(struct file *file);
int security_file_open(struct file *file);
int security_file_permission(struct file *file, int mask);
int security_inode_alloc(struct inode *inode);
void security_inode_free(struct inode *inode);
int security_inode_permission(struct inode *inode, int mask);
int security_inode_getattr(const struct path *path);
int security_inode_mkdir(struct inode *dir, struct dentry *dentry, umode_t mode);
int security_inode_symlink(struct inode *dir, struct dentry *dentry, const char *old_name);
int security_inode_unlink(struct inode *dir, struct dentry *dentry);
#define RENAME_NOREPLACE 1
#define RENAME_EXCHANGE 2
int security_inode_rename(struct inode *old_dir, struct dentry *old_dentry, struct inode *new_dir, struct dentry *new_dentry, unsigned int flags);
int security_inode_create(struct inode *dir, struct dentry *dentry, umode_t mode);
int security_inode_rmdir(struct inode *dir, struct dentry *dentry);
int security_inode_follow_link(struct dentry *dentry, struct inode *inode, bool rcu);
void security_d_instantiate(struct dentry *dentry, struct inode *inode);

// renamedata is what vfs_rename is called with, since 5.12.
struct renamedata {
#if GUEST_LINUX >= 612
	struct mnt_idmap *old_mnt_idmap;
#else
	struct user_namespace *old_mnt_userns;
#endif
	struct inode *old_dir;
	struct dentry *old_dentry;
#if GUEST_LINUX >= 612
	struct mnt_idmap *new_mnt_idmap;
#else
	struct user_namespace *new_mnt_userns;
#endif
	struct inode *new_dir;
	struct dentry *new_dentry;
	struct inode **delegated_inode;
	unsigned int flags;
};

#endif
