// SPDX-License-Identifier: MIT
/* oopses starts a thread that makes the mistake which its parameter names. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/bug.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>

static char *how = "none";
module_param(how, charp, 0444);

static int *volatile pointer;
static int (*volatile function)(int);
static volatile int zero;
static const int constant = 5;
static u8 code[128] = { [64] = 0xb8, 7, 0, 0, 0, 0xc3 };
static DEFINE_SPINLOCK(lock);

noinline int oopses_read(int n);
noinline int oopses_read(int n)
{
	return *pointer + n;
}

noinline void oopses_write(int n);
noinline void oopses_write(int n)
{
	*pointer = n;
}

noinline int oopses_call(int n);
noinline int oopses_call(int n)
{
	return function(n) + 1;
}

noinline int oopses_divide(int n);
noinline int oopses_divide(int n)
{
	return n / zero;
}

static int mistake(void *unused)
{
	if (!strcmp(how, "read"))
		pointer = (int *)8, oopses_read(1);
	else if (!strcmp(how, "write"))
		pointer = NULL, oopses_write(1);
	else if (!strcmp(how, "far"))
		pointer = (int *)0xffffc8ffdead0000UL, oopses_read(1);
	else if (!strcmp(how, "noncanonical"))
		pointer = (int *)0x6b6b6b6b6b6b6b6bUL, oopses_read(1);
	else if (!strcmp(how, "rodata"))
		pointer = (int *)&constant, oopses_write(1);
	else if (!strcmp(how, "text"))
		pointer = (int *)oopses_read, oopses_write(1);
	else if (!strcmp(how, "kernel_text"))
		pointer = (int *)kthread_stop, oopses_write(1);
	else if (!strcmp(how, "jump_null"))
		function = NULL, oopses_call(1);
	else if (!strcmp(how, "jump_low"))
		function = (void *)0x1230, oopses_call(1);
	else if (!strcmp(how, "jump_data"))
		function = (void *)(code + 64), oopses_call(1);
	else if (!strcmp(how, "divide"))
		oopses_divide(7);
	else if (!strcmp(how, "ud2"))
		asm volatile("ud2");
	else if (!strcmp(how, "bug"))
		BUG();
	else if (!strcmp(how, "warn"))
		WARN(1, "oopses: warned\n");
	else if (!strcmp(how, "cli"))
		{ local_irq_disable(); pointer = NULL; oopses_write(1); }
	else if (!strcmp(how, "locked"))
		{ spin_lock(&lock); pointer = NULL; oopses_write(1); }
	else if (!strcmp(how, "atomic"))
		{ spin_lock(&lock); msleep(1); spin_unlock(&lock); }
	else if (!strcmp(how, "dump"))
		dump_stack();
	pr_info("the thread goes on\n");
	return 0;
}

static int __init oopses_init(void)
{
	struct task_struct *t = kthread_create(mistake, NULL, "oopser");

	if (IS_ERR(t))
		return PTR_ERR(t);
	get_task_struct(t);
	wake_up_process(t);
	/* Until all is said about its last schedule(). */
	while (READ_ONCE(t->__state) != TASK_DEAD || READ_ONCE(t->on_cpu))
		msleep(10);
	put_task_struct(t);
	pr_info("%s is over\n", how);
	return 0;
}

static void __exit oopses_exit(void)
{
}

module_init(oopses_init);
module_exit(oopses_exit);
MODULE_LICENSE("Dual MIT/GPL");
