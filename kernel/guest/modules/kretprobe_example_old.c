/*
 * kretprobe_example_old.c: kretprobe_example as in the documents of older releases.
 * It logs failing calls of open(2), and checks the fields of the instance.
 */
#define KPROBES_BEFORE_5_11
#include <linux/module.h>
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/printk.h>
#include <linux/sched.h>

static const char probed[] = "sys_open";

static struct kretprobe opens;

static int leave(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	int result = regs_return_value(regs);

	if (ri->rp != &opens || ri->task != current)
		pr_err("%s: of another probe or task\n", probed);
	if (result < 0)
		pr_info("%s returns %d to %pF\n", probed, result, ri->ret_addr);
	return 0;
}

static struct kretprobe opens = {
	.kp.symbol_name	= probed,
	.handler	= leave,
	.maxactive	= 20,
};

static int __init plant(void)
{
	int err = register_kretprobe(&opens);

	if (err)
		pr_err("register_kretprobe failed, returned %d\n", err);
	else
		pr_info("Planted return probe at %p\n", opens.kp.addr);
	return err;
}

static void __exit pull(void)
{
	unregister_kretprobe(&opens);
	pr_info("kretprobe unregistered\n");
	pr_info("Missed probing %d instances of %s\n", opens.nmissed, probed);
}

module_init(plant);
module_exit(pull);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Tells of opens that fail, on older releases");
