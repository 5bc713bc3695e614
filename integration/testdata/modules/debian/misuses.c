// SPDX-License-Identifier: MIT
/*
 * misuses makes the mistake that its parameter names: about memory in a thread, others in
 * a work item or in an interrupt of the thread.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/bug.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/timer.h>
#include <linux/workqueue.h>

static char *how = "none";
module_param(how, charp, 0444);

static int *volatile pointer;
static volatile int fired;
static char data[256];

static void work(struct work_struct *unused)
{
	if (!strcmp(how, "work_warn"))
		WARN(1, "misuses: in a work item\n");
	else
		*pointer = 1;
}
static DECLARE_WORK(item, work);

static void ticks(struct timer_list *unused)
{
	WARN(1, "misuses: in a timer\n");
	fired = 1;
}
static DEFINE_TIMER(timer, ticks);

static enum hrtimer_restart ticks_hard(struct hrtimer *unused)
{
	WARN(1, "misuses: in a hard timer\n");
	fired = 1;
	return HRTIMER_NORESTART;
}
static struct hrtimer hard;

/* The place that interrupts come to, whatever else wants the CPU. */
noinline void misuses_spin(void);
noinline void misuses_spin(void)
{
	preempt_disable();
	while (!fired)
		cpu_relax();
	preempt_enable();
}

static void foreign(void)
{
	struct kmem_cache *a = kmem_cache_create("misuses_a", 512, 0, SLAB_ACCOUNT, NULL);
	struct kmem_cache *b = kmem_cache_create("misuses_b", 640, 0, SLAB_ACCOUNT, NULL);
	void *x = kmem_cache_alloc(a, GFP_KERNEL);

	kmem_cache_free(b, x);
	kmem_cache_destroy(b);
	kmem_cache_destroy(a);
}

static int mistake(void *unused)
{
	char *volatile x = kmalloc(200, GFP_KERNEL);

	if (!strcmp(how, "twice")) {
		kfree(x);
		kfree(x);
	} else if (!strcmp(how, "data")) {
		kfree(data + 8);
	} else if (!strcmp(how, "foreign")) {
		foreign();
	} else if (!strncmp(how, "work", 4)) {
		schedule_work(&item);
	} else if (!strcmp(how, "timer")) {
		mod_timer(&timer, jiffies + 25); /* it is to come while the thread spins */
		misuses_spin();
	} else if (!strcmp(how, "hard")) {
		hrtimer_init(&hard, CLOCK_MONOTONIC, HRTIMER_MODE_REL_HARD);
		hard.function = ticks_hard;
		hrtimer_start(&hard, ms_to_ktime(100), HRTIMER_MODE_REL_HARD);
		misuses_spin();
	}
	pr_info("the thread goes on\n");
	return 0;
}

static int __init misuses_init(void)
{
	struct task_struct *t = kthread_create(mistake, NULL, "misuser");

	if (IS_ERR(t))
		return PTR_ERR(t);
	get_task_struct(t);
	wake_up_process(t);
	while (!READ_ONCE(t->exit_state))
		msleep(10);
	put_task_struct(t);
	msleep(100);
	return 0;
}

static void __exit misuses_exit(void)
{
}

module_init(misuses_init);
module_exit(misuses_exit);
MODULE_LICENSE("Dual MIT/GPL");
