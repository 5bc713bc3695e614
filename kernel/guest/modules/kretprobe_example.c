/*
 * kretprobe_example.c: the documents' example of a return probe. It logs failing
 * opens with their duration, whose start is kept in the instance's data.
 */
#include <linux/module.h>
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/ktime.h>
#include <linux/printk.h>

static const char probed[] = "do_sys_openat2";
static unsigned long calls;
static bool late;

static int enter(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	*(ktime_t *)ri->data = ktime_get();
	return 0;
}

static int leave(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	int result = regs_return_value(regs);

	calls++;
	if (ktime_get() < *(ktime_t *)ri->data || get_kretprobe_retaddr(ri) != regs->ip)
		late = true;
	if (result < 0)
		pr_info("%s returns %d\n", probed, result);
	return 0;
}

static struct kretprobe opens = {
	.kp.symbol_name	= probed,
	.entry_handler	= enter,
	.handler	= leave,
	.data_size	= sizeof(ktime_t),
	.maxactive	= 20,
};

static int __init plant(void)
{
	int err = register_kretprobe(&opens);

	if (err)
		pr_err("register_kretprobe failed, returned %d\n", err);
	else
		pr_info("Planted return probe at %px\n", opens.kp.addr);
	return err;
}

static void __exit pull(void)
{
	unregister_kretprobe(&opens);
	pr_info("kretprobe unregistered after %lu calls%s\n", calls, late ? ", of which some were out of order" : "");
	pr_info("Missed probing %d instances of %s\n", opens.nmissed, probed);
}

module_init(plant);
module_exit(pull);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Tells of opens that fail");
