/* fs_struct.h: root and working directory of a task (implemented in fs/fs_struct.c). */
#ifndef _LINUX_FS_STRUCT_H
#define _LINUX_FS_STRUCT_H
#include <linux/spinlock.h>
struct vfsmount;
struct dentry;
#ifndef _LINUX_PATH_H
#define _LINUX_PATH_H
struct path { struct vfsmount *mnt; struct dentry *dentry; };
#endif
struct fs_struct {
	int users;
	spinlock_t lock;
	seqcount_spinlock_t seq;
	int umask, in_exec;
	struct path root, pwd;
};
static_assert(sizeof(struct fs_struct) == 56, "fs_struct");
extern struct fs_struct init_fs;
struct fs_struct *copy_fs_struct(struct fs_struct *old);
void free_fs_struct(struct fs_struct *fs);
void exit_fs(struct task_struct *tsk);
#endif
