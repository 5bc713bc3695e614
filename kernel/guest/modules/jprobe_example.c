/*
 * jprobe_example.c: the documents' example of a jprobe: each fork is told, with
 * its flags. For releases that have jprobes, where kernel_clone is do_fork.
 */
#define KPROBES_BEFORE_5_11
#include <linux/module.h>
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/printk.h>
#include <linux/sched.h>

/* As the probed function. */
static pid_t forks(struct kernel_clone_args *args)
{
	pr_info("jprobe: clone_flags=0x%llx, stack_size=0x%lx\n", (unsigned long long)args->flags, (unsigned long)args->stack_size);
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
		pr_info("Planted jprobe at %px, handler addr %px\n", probe.kp.addr, probe.entry);
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
