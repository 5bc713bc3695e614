/* init_task.c: the first task, which becomes CPU 0's idle task. */
#include <linux/export.h>
#include <linux/sched.h>
#include <linux/mm.h>
#include <linux/fdtable.h>
#include <linux/pid_namespace.h>
#include <linux/utsname.h>
#include <linux/fs_struct.h>

extern char init_stack[];

static struct signal_struct init_signals = {
	.sigcnt = REFCOUNT_INIT(1), .live = ATOMIC_INIT(1), .nr_threads = 1,
	.thread_head = LIST_HEAD_INIT(init_signals.thread_head),
	.wait_chldexit = __WAIT_QUEUE_HEAD_INITIALIZER(init_signals.wait_chldexit),
	.rlim = { [3] = { 8 << 20, ~0UL }, [7] = { 1024, 4096 } },
};
static struct sighand_struct init_sighand = {
	.count = REFCOUNT_INIT(1), .siglock = __SPIN_LOCK_UNLOCKED(init_sighand.siglock),
	.signalfd_wqh = __WAIT_QUEUE_HEAD_INITIALIZER(init_sighand.signalfd_wqh),
};
struct nsproxy init_nsproxy = { .count = REFCOUNT_INIT(1), .uts_ns = &init_uts_ns, .pid_ns_for_children = &init_pid_ns };

struct task_struct init_task __aligned(64) = {
	.__state = 0, .stack = init_stack, .usage = REFCOUNT_INIT(2), .flags = PF_KTHREAD,
	.on_cpu = 1, .prio = 120, .static_prio = 120, .normal_prio = 120,
	.cpus_ptr = &init_task.cpus_mask, .cpus_mask = { { ~0UL } }, .nr_cpus_allowed = NR_CPUS,
	.tasks = LIST_HEAD_INIT(init_task.tasks),
	.real_parent = &init_task, .parent = &init_task, .group_leader = &init_task,
	.children = LIST_HEAD_INIT(init_task.children), .sibling = LIST_HEAD_INIT(init_task.sibling),
	.ptraced = LIST_HEAD_INIT(init_task.ptraced), .ptrace_entry = LIST_HEAD_INIT(init_task.ptrace_entry),
	.thread_group = LIST_HEAD_INIT(init_task.thread_group),
	.thread_pid = &init_struct_pid,
	.real_cred = &init_cred, .cred = &init_cred,
	.comm = "swapper",
	.files = &init_files, .fs = &init_fs, .nsproxy = &init_nsproxy,
	.signal = &init_signals, .sighand = &init_sighand,
	.stack_canary = 0x5bd1e9955bd1e900UL,
	.se = { .group_node = LIST_HEAD_INIT(init_task.se.group_node) },
};
EXPORT_SYMBOL(init_task);
