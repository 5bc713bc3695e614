/*
 * jprobe_example.c: the documents' example of a jprobe. It logs each fork with
 * do_fork's arguments. For releases that have jprobes.
 */
#define KPROBES_BEFORE_5_11
#include <linux/module.h>
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/printk.h>
#include <linux/sched.h>

/* With the probed function's signature. */
static long forks(unsigned long clone_flags, unsigned long stack_start, struct pt_regs *regs,
		  unsigned long stack_size, int __user *parent_tidptr, int __user *child_tidptr)
{
	pr_info("jprobe: clone_flags=0x%lx, stack_size=0x%lx, regs=0x%p\n", clone_flags, stack_size, regs);
	jprobe_return();
	return 0;
}

static struct jprobe probe = {
	.kp.symbol_name	= "do_fork",
	.entry		= JPROBE_ENTRY(forks),
};

static int __init plant(void)
{
	int err = register_jprobe(&probe);

	if (err)
		pr_err("register_jprobe failed, returned %d\n", err);
	else
		pr_info("Planted jprobe at %p, handler addr %p\n", probe.kp.addr, probe.entry);
	return err;
}

static void __exit pull(void)
{
	unregister_jprobe(&probe);
	pr_info("jprobe unregistered\n");
}

module_init(plant);
module_exit(pull);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Tells of forks");
