/*
 * host.h: calls that the host makes through its tasks, and the file operations
 * that ask the host. The layout of struct host_call is kernel/abi's.
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
	/* What follows is the guest's own. */
	struct host_files *table;
	/* Where the host has the task run from its next wake-up on; 0: anywhere. */
	u64 cpus, cpu;
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
/* The call that the current task makes; NULL in other tasks than the host's. */
struct host_call *current_host_call(void);
/*
 * Runs the host's part of a file operation: FILE_OP_*, with two arguments (a count and
 * a position). Sleeps until it is over; a fatal signal ends the sleep with
 * -EINTR. Gives the bytes in call->buf, or -errno.
 */
ssize_t host_file_op(struct host_call *call, int op, u64 a, u64 b);
/* A task that a call of the host makes is the host's from its beginning. */
void host_fork(struct task_struct *p);
pid_t host_chosen_tid(void);
void host_init(void);
#endif
