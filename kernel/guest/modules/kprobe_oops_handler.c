/* kprobe_oops_handler.c: an int3 probe whose handler writes to unmapped memory. */
#include <linux/module.h>
#include <linux/kprobes.h>

static int *volatile nowhere = (int *)8;

static int before(struct kprobe *p, struct pt_regs *regs)
{
	*nowhere = 1;
	return 0;
}

/* Prevents optimization. */
static void after(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
}

static struct kprobe kp = { .symbol_name = "kernel_clone", .offset = 5, .pre_handler = before, .post_handler = after };

static int __init kprobe_oops_handler_init(void)
{
	return register_kprobe(&kp);
}

static void __exit kprobe_oops_handler_exit(void)
{
	unregister_kprobe(&kp);
}

module_init(kprobe_oops_handler_init);
module_exit(kprobe_oops_handler_exit);
MODULE_LICENSE("GPL");
