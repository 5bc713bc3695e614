/* fdtable.h: open files of a task (implemented in fs/file.c). */
#ifndef _LINUX_FDTABLE_H
#define _LINUX_FDTABLE_H
#include <linux/wait.h>
struct file;
struct fdtable {
	unsigned int max_fds;
	struct file **fd;
	unsigned long *close_on_exec, *open_fds, *full_fds_bits;
	struct callback_head rcu;
};
struct files_struct {
	atomic_t count;
	bool resize_in_progress;
	wait_queue_head_t resize_wait;
	struct fdtable *fdt;
	struct fdtable fdtab;
	spinlock_t file_lock __aligned(64);
	unsigned int next_fd;
	unsigned long close_on_exec_init[1], open_fds_init[1], full_fds_bits_init[1];
	struct file *fd_array[64];
} __aligned(64);
static_assert(sizeof(struct files_struct) == 704, "files_struct");
extern struct files_struct init_files;
struct files_struct *host_files_new(void);
bool host_files_used(struct files_struct *files);
struct files_struct *dup_fd(struct files_struct *oldf, unsigned int max_fds, int *errorp);
void put_files_struct(struct files_struct *files);
void exit_files(struct task_struct *tsk);
#endif
