/*
 * kprobe_forgets.c: a module that does not unregister its probes: one with its struct
 * in the module, one with its handler in the module, one in init memory.
 */
#include <linux/module.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/slab.h>

unsigned long kprobe_forgets_hits;

static int count(struct kprobe *p, struct pt_regs *regs)
{
	kprobe_forgets_hits++;
	return 0;
}

static int returned(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	kprobe_forgets_hits++;
	return 0;
}

static int __init early(struct kprobe *p, struct pt_regs *regs)
{
	kprobe_forgets_hits++;
	return 0;
}

static struct kprobe bare = { .symbol_name = "int_sqrt" };
static struct kprobe first __initdata = { .symbol_name = "int_sqrt", .pre_handler = early };
static struct kretprobe back = { .kp.symbol_name = "int_sqrt", .handler = returned };

static int __init plant(void)
{
	struct kprobe *far = kzalloc(sizeof(*far), GFP_KERNEL);

	if (!far)
		return -ENOMEM;
	far->symbol_name = "int_sqrt";
	far->pre_handler = count;
	return register_kprobe(far) ?: register_kprobe(&bare) ?: register_kprobe(&first) ?: register_kretprobe(&back);
}

static void __exit pull(void)
{
}

module_init(plant);
module_exit(pull);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Leaves its probes behind");
