// SPDX-License-Identifier: MIT
/* points attaches to tracepoints of the kernel: one that it has to find, one that is exported. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/atomic.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/tracepoint.h>
#include <trace/events/kmem.h>

static struct tracepoint *sched_switch;
static atomic_t switches, others;
static const void *object;
static char order[8];
static int frees;

static void on_switch(void *data, bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int prev_state)
{
	if (prev == next || prev != current || data != &switches || !in_atomic())
		atomic_inc(&others);
	atomic_inc(&switches);
}

static void on_free(void *data, unsigned long call_site, const void *ptr)
{
	if (ptr != object)
		return;
	if (frees < sizeof(order) - 1)
		order[frees] = *(char *)data;
	frees++;
}

static void find(struct tracepoint *tp, void *priv)
{
	if (!strcmp(tp->name, "sched_switch"))
		sched_switch = tp;
}

static void free_one(const char *when)
{
	object = kmalloc(32, GFP_KERNEL);
	memset(order, 0, sizeof(order));
	frees = 0;
	kfree(object);
	pr_info("%s: %d frees, order %s, enabled %d\n", when, frees, order, trace_kfree_enabled());
}

static int __init points_init(void)
{
	for_each_kernel_tracepoint(find, NULL);
	if (!sched_switch)
		return -ENOENT;
	pr_info("found: %s\n", sched_switch->name);
	pr_info("register: %d\n", tracepoint_probe_register(sched_switch, on_switch, &switches));
	pr_info("again: %d\n", tracepoint_probe_register_prio_may_exist(sched_switch, on_switch, &switches, 10));
	schedule_timeout_uninterruptible(2);
	pr_info("unregister: %d\n", tracepoint_probe_unregister(sched_switch, on_switch, &switches));
	tracepoint_synchronize_unregister();
	pr_info("switches: %s, others %d\n", atomic_read(&switches) ? "yes" : "no", atomic_read(&others));
	free_one("none");
	pr_info("a: %d\n", register_trace_kfree(on_free, "a"));
	free_one("one");
	pr_info("b: %d\n", register_trace_kfree(on_free, "b"));
	pr_info("c: %d\n", register_trace_prio_kfree(on_free, "c", 20));
	pr_info("d: %d\n", register_trace_prio_kfree(on_free, "d", 1));
	free_one("four");
	pr_info("not a: %d\n", unregister_trace_kfree(on_free, "a"));
	pr_info("not e: %d\n", unregister_trace_kfree(on_free, "e"));
	free_one("three");
	return 0;
}

static void __exit points_exit(void)
{
	free_one("exit");
	unregister_trace_kfree(on_free, "b");
	unregister_trace_kfree(on_free, "c");
	free_one("last");
	unregister_trace_kfree(on_free, "d");
	tracepoint_synchronize_unregister();
	free_one("gone");
}

module_init(points_init);
module_exit(points_exit);
MODULE_LICENSE("GPL");
