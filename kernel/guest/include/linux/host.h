/*
 * host.h: calls that the host makes through its tasks, and file operations that the
 * host carries out. The layout of struct host_call is that in kernel/abi.
 */
#ifndef _LINUX_HOST_H
#define _LINUX_HOST_H
#include <linux/types.h>
#include <asm/host.h>
struct host_files;
struct task_struct;
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
	u64 mirror;	/* struct host_mirror, or 0 */
	/* The following fields are used by the guest only. */
	struct host_files *table;
	/* CPUs on which the host wants the task to run from its next wake-up on, 0
	 * for any. */
	u64 cpus, cpu;
	u64 quiet;	/* what the task executes is not the host's doing: no probe sees it */
	bool interrupted;	/* host_interrupt has been called since the call began */
	bool between;		/* the task has ended a call and not begun the next one */
};
static_assert(offsetof(struct host_call, cpus) == 216, "host_call");
static_assert(offsetof(struct host_call, quiet) == 232, "host_call");
static_assert(offsetof(struct host_call, count) == 64, "host_call");
static_assert(offsetof(struct host_call, buf) == 80, "host_call");
static_assert(offsetof(struct host_call, op_done) == 96, "host_call");
static_assert(offsetof(struct host_call, op_arg) == 112, "host_call");
static_assert(offsetof(struct host_call, fops) == 144, "host_call");
static_assert(offsetof(struct host_call, child) == 160, "host_call");
static_assert(offsetof(struct host_call, files) == 192, "host_call");
static_assert(offsetof(struct host_call, mirror) == 200, "host_call");
static_assert(offsetof(struct host_call, table) == 208, "host_call");
/*
 * A system call of the host's program that the host's kernel makes while the task waits
 * in it, and the files that its descriptors are. The layout is that in kernel/abi.
 */
struct host_sock {
	u32 state;	/* of a socket of TCP: TCP_*, or 0: nothing is said */
	u32 unread;	/* bytes that the program has not read */
	u16 sport, dport;	/* in network order */
	u32 srtt_us;
	u8 saddr[16], daddr[16];	/* an address of IPv4 is in the first 4 bytes */
	u64 bytes_acked, bytes_received;
};
static_assert(sizeof(struct host_sock) == 64, "host_sock");
struct host_mirror_file {
	s64 fd;		/* the descriptor, or -1 */
	u64 file;	/* identifies the file, or 0: there is none */
	u64 mode, rdev, flags, pos;
	char name[256];	/* its path, or / and the last part of it, or a name such as pipe:[1] */
	struct host_sock sock;
};
static_assert(offsetof(struct host_mirror_file, sock) == 304, "host_mirror_file");
struct host_mirror {
	struct host_mirror_file files[2];
	u64 polled, nr_polled;	/* struct host_polled[], of a call that waits for files */
	s64 ret;	/* the result, once made is set */
	u64 made;
	u64 ready;	/* EPOLL* of the file whose poll operation is called */
	s64 refused;	/* the error with which a program has refused the call, which the host's kernel does not make then, or 0 */
	u64 cwd;	/* the path from which a name is looked up, or 0 */
	/* The following fields are used by the guest only. */
	u32 *len;	/* of a message, see host_each */
	u64 index;
};
static_assert(offsetof(struct host_mirror, polled) == 736, "host_mirror");
static_assert(offsetof(struct host_mirror, ready) == 768, "host_mirror");
static_assert(offsetof(struct host_mirror, cwd) == 784, "host_mirror");
/* A descriptor that a call waits for, and what it is ready for (EPOLL*). */
struct host_polled {
	struct host_mirror_file file;
	u64 ready;
};
static_assert(sizeof(struct host_polled) == 376, "host_polled");

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

/*
 * Waits until the host's kernel has made the call that the current task mirrors, and
 * returns its result. What the call has written is in the caller's memory then.
 */
long host_made(void);
/* From here on host_made returns what the call has done for one of several messages: *len,
 * or -EAGAIN for the one at which it has ended. Without len it returns the result. */
void host_each(u32 *len, u64 index);
#define host_mirrors() (current->host_call && current->host_call->mirror)
/* The result of what the host's kernel does: in a mirrored call the call's, otherwise ret. */
#define host_result(ret) ({ long __ret = (ret); host_mirrors() && !host_refused(__ret) ? host_made() : __ret; })

/* Reports whether a mirrored call has failed in the guest because of a program. */
#define host_refused(ret) (((struct host_mirror *)current->host_call->mirror)->refused && (long)(ret) < 0 && (long)(ret) > -512)

/* What a system call returns of which only the host's kernel knows the result: without a
 * mirrored call -ENOSYS. */
long host_only(void);

/* Prepares a mirrored call; no probe sees what it does. */
void host_mirror_begin(struct host_call *call);

/* Ends the interruptible sleeps of a task whose caller on the host has got a signal and,
 * with kill, also the killable ones. The task itself stays. */
void host_interrupt(struct task_struct *p, bool kill);
/* Called when a process's last thread ends, and when a task has a new program. */
void host_close_files(bool ends);
void host_task_waits(int cpu, struct task_struct *curr);

#endif
