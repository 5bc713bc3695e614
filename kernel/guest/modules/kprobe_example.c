/*
 * kprobe_example.c: the documents' example of a probe. It logs each fork with the
 * registers before and after the probed instruction, and a stack trace.
 */
#include <linux/module.h>
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/printk.h>

static int before(struct kprobe *p, struct pt_regs *regs)
{
	pr_info("pre_handler: p->addr=0x%px, ip=%lx, flags=0x%lx\n", p->addr, regs->ip, regs->flags);
	dump_stack();
	return 0;
}

static void after(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	pr_info("post_handler: p->addr=0x%px, ip=%lx, flags=0x%lx\n", p->addr, regs->ip, flags);
}

static struct kprobe forks = {
	.symbol_name	= "kernel_clone",
	.pre_handler	= before,
	.post_handler	= after,
};

static int __init plant(void)
{
	int err = register_kprobe(&forks);

	if (err)
		pr_err("register_kprobe failed, returned %d\n", err);
	else
		pr_info("kprobe registered\n");
	return err;
}

static void __exit pull(void)
{
	unregister_kprobe(&forks);
	pr_info("kprobe unregistered, %lu missed\n", forks.nmissed);
}

module_init(plant);
module_exit(pull);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Tells of forks");
