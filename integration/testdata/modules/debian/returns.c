// SPDX-License-Identifier: MIT
/* returns has return probes: with data of each call, and with too few instances. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/kprobes.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/sched.h>

struct call {
	ktime_t start;
	long arg;
};

noinline int returns_twice(int n);
noinline int returns_twice(int n)
{
	barrier();
	return 2 * n;
}

noinline int returns_deep(int n);
noinline int returns_deep(int n)
{
	int below = n ? returns_deep(n - 1) : 0;

	barrier();
	return below + n;
}

static int entered(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct call *c = (struct call *)ri->data;

	if (regs->di == 13)
		return 1;	/* this call is not of interest */
	c->start = ktime_get();
	c->arg = regs->di;
	return 0;
}
NOKPROBE_SYMBOL(entered);

static int returned(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct call *c = (struct call *)ri->data;
	struct kretprobe *rp = get_kretprobe(ri);

	pr_info("%s(%ld) returns %lu after %s, mm %d\n", rp->kp.symbol_name, c->arg, regs_return_value(regs),
		ktime_to_ns(ktime_sub(ktime_get(), c->start)) >= 0 ? "some time" : "less than nothing", current->mm != NULL);
	return 0;
}
NOKPROBE_SYMBOL(returned);

static struct kretprobe twice = {
	.kp.symbol_name = "returns_twice", .handler = returned, .entry_handler = entered,
	.data_size = sizeof(struct call), .maxactive = 20,
};
static struct kretprobe deep = {
	.kp.symbol_name = "returns_deep", .handler = returned, .entry_handler = entered,
	.data_size = sizeof(struct call), .maxactive = 2,
};

static int __init returns_init(void)
{
	int err = register_kretprobe(&twice);

	if (err) {
		pr_info("twice: %d\n", err);
		return err;
	}
	err = register_kretprobe(&deep);
	if (err) {
		pr_info("deep: %d\n", err);
		unregister_kretprobe(&twice);
		return err;
	}
	pr_info("twice(21) is %d\n", returns_twice(21));
	pr_info("twice(13) is %d\n", returns_twice(13));
	pr_info("deep(4) is %d\n", returns_deep(4));
	pr_info("missed %d %d\n", twice.nmissed, deep.nmissed);
	return 0;
}

static void __exit returns_exit(void)
{
	unregister_kretprobe(&deep);
	unregister_kretprobe(&twice);
	pr_info("twice(8) is %d\n", returns_twice(8));
}

module_init(returns_init);
module_exit(returns_exit);
MODULE_LICENSE("Dual MIT/GPL");
