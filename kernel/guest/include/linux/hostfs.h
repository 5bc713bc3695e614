// hostfs.h: files whose content is the host's.
#ifndef _LINUX_HOSTFS_H
#define _LINUX_HOSTFS_H

#include <linux/err.h>
#include <linux/fs.h>
#include <linux/host.h>
#include <linux/sched.h>

extern struct file_system_type debug_fs_type, trace_fs_type, proc_fs_type;
extern struct vfsmount *debugfs_mount, *tracefs_mount, *proc_mnt;

// The host's part of an open, read, write, flush or release, with the data copied to
// or from the caller's memory.
int hostfs_open(struct inode *inode, struct file *file);
int hostfs_flush(struct file *file, fl_owner_t id);
int hostfs_release(struct inode *inode, struct file *file);
ssize_t hostfs_read_iter(struct kiocb *iocb, struct iov_iter *iter);
ssize_t hostfs_write_iter(struct kiocb *iocb, struct iov_iter *iter);
ssize_t hostfs_read(struct file *file, char __user *buf, size_t count, loff_t *ppos);
ssize_t hostfs_write(struct file *file, const char __user *buf, size_t count, loff_t *ppos);

// The file_operations that the host selects (FOPS_*).
const struct file_operations *hostfs_fops(unsigned int fops, const struct super_block *sb);

// The end of a read or write that the host's kernel makes: it waits for the result.
ssize_t host_transfer(struct kiocb *iocb);
ssize_t generic_file_read_iter(struct kiocb *iocb, struct iov_iter *iter);
ssize_t generic_perform_write(struct kiocb *iocb, struct iov_iter *iter);
#if GUEST_LINUX < 601
#define filemap_read generic_file_buffered_read
#endif
ssize_t filemap_read(struct kiocb *iocb, struct iov_iter *iter, ssize_t already_read);
ssize_t generic_file_write_iter(struct kiocb *iocb, struct iov_iter *iter);
extern const struct file_operations pipefifo_fops, socket_file_ops;
struct vfsmount *host_pseudo_mnt(void);
// host_anon_fops returns the operations of a file without a name of its own, by what the host
// calls it ("anon_inode:[eventfd]"), or NULL.
const struct file_operations *host_anon_fops(const char *name);

// host_opened makes the file that the task has opened like the one that the host has
// opened, and reserves the host's descriptor for it: it returns that, or an error.
int host_opened(struct file *f);
void host_unreserve(unsigned int fd);
int host_reserve(long fd);
// host_fd_install installs file at fd, which is reserved, or in a mirrored call at the
// descriptor that the host's kernel has chosen. It takes over the reference, and returns the
// descriptor or the host's error.
int host_fd_install(unsigned int fd, struct file *file);
// host_walks_from reports whether the host resolves names from a directory of which it has not
// told: any directory stands for that.
bool host_walks_from(int dfd);
// host_install_pair installs two new files, whose references it takes over, at the
// descriptors that the host's kernel has written to fds.
int host_install_pair(struct file *files[2], const int __user *fds);
// host_identify makes file the one at place i of what the host has told of.
void host_identify(struct file *file, int i);
void set_close_on_exec(unsigned int fd, int flag);
void do_close_on_exec(struct files_struct *files);
struct file *host_install(struct files_struct *files, unsigned int fd, struct file *file);
// host_drop closes a descriptor of the current task, of which only mirrored calls have told. Probes see that of sockets,
// since it ends connections. Of files they do not: they would see it of a few of those that the process has.
static __always_inline void host_drop(unsigned int fd)
{
	struct host_call *call = current_host_call();
	struct file *file = close_fd_get_file(fd);

	if (file && S_ISSOCK(file->f_inode->i_mode)) {
		filp_close(file, current->files);
		return;
	}
	WRITE_ONCE(call->quiet, 1);
	if (file)
		__fput_sync(file);
	WRITE_ONCE(call->quiet, 0);
}
// host_install_new is host_fd_install for a file that a call has made, or its error: then fd is
// free again.
static __always_inline int host_install_new(int fd, struct file *file)
{
	if (IS_ERR(file)) {
		put_unused_fd(fd);
		return PTR_ERR(file);
	}
	fd = host_fd_install(fd, file);
	if (fd >= 0 && host_mirrors())
		host_identify(file, 0);
	return fd;
}

struct inode *hostfs_get_inode(struct super_block *sb, umode_t mode);
extern const struct file_operations hostfs_dir_operations;

// A name that the kernel has made in one of these filesystems is told to the host, which
// shows it; a name that is going to be removed, or that has another place, too.
void hostfs_announce(struct dentry *dentry);
void hostfs_retract(struct dentry *dentry);
void hostfs_moved(struct dentry *dentry, const char *old);
char *hostfs_path(const struct dentry *dentry, char *buf, int size);

// Files and symbolic links that belong to the kernel. They return a dentry, which
// simple_recursive_removal removes, or an error.
struct dentry *hostfs_make_file(struct dentry *dir, const char *name, umode_t mode, const struct file_operations *fops,
				void *private, loff_t size, void *fsdata, const struct dentry_operations *dops);
struct dentry *hostfs_make_dir(struct dentry *dir, const char *name, umode_t mode);
struct dentry *hostfs_make_link(struct dentry *dir, const char *name, const char *target);
extern struct vfsmount *sysfs_mnt, *devtmpfs_mnt;

// fs/debugfs
extern const struct file_operations debugfs_full_proxy_file_operations;
// fs/tracefs
struct dentry *tracefs_create_dir(const char *name, struct dentry *parent);
struct dentry *tracefs_create_file(const char *name, umode_t mode, struct dentry *parent, void *data, const struct file_operations *fops);
void tracefs_remove(struct dentry *dentry);
bool tracefs_initialized(void);

// Making and removing a name in a directory of the kernel itself.
struct dentry *start_creating_in(const char *name, struct dentry *parent);
struct dentry *end_creating_in(struct dentry *dentry);
void simple_recursive_removal(struct dentry *dentry, void (*callback)(struct dentry *));

// fs/proc
extern const struct file_operations proc_reg_file_ops, proc_sys_file_operations;
extern const struct inode_operations proc_sys_inode_operations;

#endif
