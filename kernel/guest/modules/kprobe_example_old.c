/*
 * kprobe_example_old.c: kprobe_example as the documents of releases before 5.11
 * have it: with a fault handler, and where kernel_clone is do_fork.
 */
#define KPROBES_BEFORE_5_11
#include <linux/module.h>
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/printk.h>

static int before(struct kprobe *p, struct pt_regs *regs)
{
	pr_info("pre_handler: p->addr=0x%p, ip=%lx, flags=0x%lx\n", p->addr, regs->ip, regs->flags);
	dump_stack();
	return 0;
}

static void after(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	pr_info("post_handler: p->addr=0x%p, flags=0x%lx\n", p->addr, flags);
}

/* Called for faults in the handlers above and of the probed instruction. It does not
 * handle the fault. */
static int fault(struct kprobe *p, struct pt_regs *regs, int trapnr)
{
	pr_info("fault_handler: p->addr=0x%p, trap #%d\n", p->addr, trapnr);
	return 0;
}

static struct kprobe forks = {
	.symbol_name	= "do_fork",
	.pre_handler	= before,
	.post_handler	= after,
	.fault_handler	= fault,
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
	pr_info("kprobe unregistered\n");
}

module_init(plant);
module_exit(pull);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Tells of forks, on older releases");
