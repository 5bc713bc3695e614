/*
 * host.h: calls that the host makes through its tasks, and file operations that the
 * host carries out. The layout of struct host_call is that in kernel/abi.
 */
#ifndef _LINUX_HOST_H
#define _LINUX_HOST_H
#include <linux/types.h>
#include <asm/host.h>
struct host_files;
struct host_call {
	u64 id, nr, args[6];
	u64 count, ret;
	u64 buf, buf_len;
	u32 op_done, op;
	s64 op_ret;
	u64 op_arg[2];
	u64 task, mode, fops;
	u64 tid, child;
	u64 func[3];
	u64 files;
	/* The following fields are used by the guest only. */
	struct host_files *table;
	/* CPUs on which the host wants the task to run from its next wake-up on, 0
	 * for any. */
	u64 cpus, cpu;
	bool interrupted;	/* host_interrupt has been called since the call began */
};
static_assert(offsetof(struct host_call, cpus) == 208, "host_call");
static_assert(offsetof(struct host_call, count) == 64, "host_call");
static_assert(offsetof(struct host_call, buf) == 80, "host_call");
static_assert(offsetof(struct host_call, op_done) == 96, "host_call");
static_assert(offsetof(struct host_call, op_arg) == 112, "host_call");
static_assert(offsetof(struct host_call, fops) == 144, "host_call");
static_assert(offsetof(struct host_call, child) == 160, "host_call");
static_assert(offsetof(struct host_call, files) == 192, "host_call");
static_assert(offsetof(struct host_call, table) == 200, "host_call");
/* The call that the current task makes, or NULL if it is not a host task. */
struct host_call *current_host_call(void);
/*
 * Runs the host's part of a file operation, FILE_OP_*, with two arguments (count and
 * position). It sleeps until the operation is done; a fatal signal ends the sleep
 * with -EINTR. Returns the number of bytes in call->buf, or -errno.
 */
ssize_t host_file_op(struct host_call *call, int op, u64 a, u64 b);
/* Makes a task created by a call of the host a host task from its beginning. */
void host_fork(struct task_struct *p);
pid_t host_chosen_tid(void);
void host_init(void);

/* Ends the interruptible sleeps of a task whose caller on the host has got a signal and,
 * with kill, also the killable ones. The task itself stays. */
void host_interrupt(struct task_struct *p, bool kill);

#endif
