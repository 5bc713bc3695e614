/* main.c: from the first C function to the first process. */
#include <linux/sched.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/kthread.h>
#include <linux/workqueue.h>
#include <linux/interrupt.h>
#include <linux/smp.h>
#include <linux/host.h>
#include <linux/jump_label.h>
#include <linux/radix-tree.h>
#include <linux/string.h>
#include <asm/traps.h>
#include <asm/host.h>

extern char saved_command_line[];
extern initcall_t __initcall_start[], __initcall_end[];
void setup_arch(void);
void init_timers(void);
void hrtimers_init(void);
void static_call_init(void);
void syscall_init(void);
void cred_init(void);
void fork_init(void);
void uts_init(void);
void vfs_caches_init(void) __weak;
struct task_struct *fork_idle(int cpu);

bool initcall_debug;

/* Also calls modules' init functions. */
noinline int do_one_initcall(initcall_t fn)
{
	int ret = fn();

	barrier();
	return ret;
}

static void __init do_initcalls(void)
{
	initcall_t *fn;

	for (fn = __initcall_start; fn < __initcall_end; fn++) {
		int ret = do_one_initcall(*fn);

		if (ret && ret != -ENODEV)
			pr_err("initcall %pS returned %d\n", *fn, ret);
	}
}

static noinline void __init idle_threads_init(void)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu)
		if (cpu != smp_processor_id() && IS_ERR(fork_idle(cpu)))
			panic("no idle task for CPU %u", cpu);
}

static noinline void __init kernel_init_freeable(void)
{
	idle_threads_init();
	smp_init();
	workqueue_init();
	do_initcalls();
	host_init();
}

/* Process 1: initializes the rest, then reaps orphans. */
static int __ref kernel_init(void *unused)
{
	extern struct completion kthreadd_done;

	wait_for_completion(&kthreadd_done);
	set_task_comm(current, "init");
	kernel_init_freeable();
	for (;;) {
		if (kernel_wait4(-1, NULL, 0, NULL) < 0)
			schedule_timeout_interruptible(HZ * 60);
		flush_signals(current);
	}
	return 0;
}

DECLARE_COMPLETION(kthreadd_done);

noinline void rest_init(void)
{
	pid_t pid;

	user_mode_thread(kernel_init, NULL, CLONE_FS);
	pid = kernel_thread(kthreadd, NULL, CLONE_FS | CLONE_FILES);
	kthreadd_task = find_task_by_vpid(pid);
	complete(&kthreadd_done);
	schedule_preempt_disabled();
	cpu_startup_entry(0);
}

void __init start_kernel(void)
{
	setup_arch();
	setup_per_cpu_areas();
	memblock_free_all();
	kmem_cache_init();
	jump_label_init();
	static_call_init();
	syscall_init();
	uts_init();
	sched_init();
	workqueue_init_early();
	radix_tree_init();
	rcu_init();
	hrtimers_init();
	init_timers();
	tick_setup_cpu();
	pid_idr_init();
	cred_init();
	fork_init();
	if (vfs_caches_init)
		vfs_caches_init();
	pr_notice("%s\n", boot_params + BOOT_VERSION);
	pr_notice("Command line: %s\n", saved_command_line);
	local_irq_enable();
	rest_init();
}
