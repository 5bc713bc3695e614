// SPDX-License-Identifier: MIT
/* panics makes the mistake that its parameter names, none of which Linux survives. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/bug.h>
#include <linux/delay.h>
#include <linux/kprobes.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/panic.h>
#include <linux/string.h>
#include <linux/timer.h>

static char *how = "none";
module_param(how, charp, 0444);

static int *volatile pointer;

noinline long panics_target(long n);
noinline long panics_target(long n)
{
	asm volatile(".globl panics_inside\npanics_inside: nop; nop; nop" : "+r"(n));
	return n + 1;
}

noinline int panics_deep(int n);
noinline int panics_deep(int n)
{
	volatile char a[512];

	a[n & 511] = n;
	return n ? panics_deep(n + 1) + a[5] : 0;
}

static int pre(struct kprobe *p, struct pt_regs *regs)
{
	if (!strcmp(how, "handler_bug"))
		BUG();
	*pointer = 1;
	return 0;
}

static struct kprobe inside = { .symbol_name = "panics_inside", .pre_handler = pre };

static void ticks(struct timer_list *unused)
{
	*pointer = 1;
}
static DEFINE_TIMER(timer, ticks);

static int mistake(void *unused)
{
	if (!strcmp(how, "overflow"))
		panics_deep(1);
	else if (!strcmp(how, "panic"))
		panic("panics has %d reasons\n", 2);
	else if (!strcmp(how, "timer"))
		mod_timer(&timer, jiffies + 2);
	else if (!register_kprobe(&inside))
		panics_target(1);
	return 0;
}

static int __init panics_init(void)
{
	struct task_struct *t = kthread_run(mistake, NULL, "mistaken");

	msleep(1000);
	return PTR_ERR_OR_ZERO(t);
}

static void __exit panics_exit(void)
{
}

module_init(panics_init);
module_exit(panics_exit);
MODULE_LICENSE("Dual MIT/GPL");
