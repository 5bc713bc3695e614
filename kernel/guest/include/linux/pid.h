/* pid.h: task IDs. */
#ifndef _LINUX_PID_H
#define _LINUX_PID_H
#include <linux/wait.h>
#include <linux/refcount.h>
enum pid_type { PIDTYPE_PID, PIDTYPE_TGID, PIDTYPE_PGID, PIDTYPE_SID, PIDTYPE_MAX };
struct pid_namespace;
struct upid { int nr; struct pid_namespace *ns; };
struct pid {
	refcount_t count;
	unsigned int level;
	spinlock_t lock;
	struct hlist_head tasks[PIDTYPE_MAX], inodes;
	wait_queue_head_t wait_pidfd;
	struct callback_head rcu;
	struct upid numbers[1];
};
static_assert(offsetof(struct pid, numbers) == 96, "struct pid");
struct task_struct;
extern struct pid_namespace init_pid_ns;
extern struct pid init_struct_pid;
struct pid *alloc_pid(struct pid_namespace *ns, pid_t *set_tid, size_t set_tid_size);
void free_pid(struct pid *pid);
void put_pid(struct pid *pid);
pid_t pid_nr_ns(struct pid *pid, struct pid_namespace *ns);
pid_t pid_vnr(struct pid *pid);
struct pid_namespace *task_active_pid_ns(struct task_struct *tsk);
struct pid *get_task_pid(struct task_struct *task, enum pid_type type);
struct task_struct *pid_task(struct pid *pid, enum pid_type type);
struct task_struct *get_pid_task(struct pid *pid, enum pid_type type);
struct pid *find_get_pid(int nr);
struct pid *find_vpid(int nr);
struct task_struct *find_task_by_vpid(pid_t vnr);
struct task_struct *find_get_task_by_vpid(pid_t nr);
void attach_pid(struct task_struct *task, enum pid_type type);
void detach_pid(struct task_struct *task, enum pid_type type);
void pid_idr_init(void);
static inline pid_t pid_nr(struct pid *pid) { return pid ? pid->numbers[0].nr : 0; }
static inline struct pid *get_pid(struct pid *pid) { if (pid) refcount_inc(&pid->count); return pid; }
pid_t __task_pid_nr_ns(struct task_struct *task, enum pid_type type, struct pid_namespace *ns);
#endif
