// SPDX-License-Identifier: MIT
/* batches registers arrays of probes, of which all or none come to be. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/slab.h>

noinline void batches_a(void);
noinline void batches_a(void) { barrier(); }
noinline void batches_b(void);
noinline void batches_b(void) { barrier(); }

static volatile int hits;	/* the compiler does not know of the handlers */

static int pre(struct kprobe *p, struct pt_regs *regs)
{
	hits++;
	return 0;
}

static int returned(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	hits += 100;
	return 0;
}

static struct kprobe a = { .symbol_name = "batches_a", .pre_handler = pre };
static struct kprobe b = { .symbol_name = "batches_b", .pre_handler = pre };
static struct kprobe none = { .symbol_name = "batches_none", .pre_handler = pre };
static struct kretprobe ra = { .kp.symbol_name = "batches_a", .handler = returned };
static struct kretprobe rb = { .kp.symbol_name = "batches_b", .handler = returned };
static struct kretprobe *rets[] = { &ra, &rb };
static struct kprobe **probes;

static void say(const char *when)
{
	hits = 0;
	batches_a();
	batches_b();
	pr_info("%s: %d\n", when, hits);
}

static int __init batches_init(void)
{
	int err;

	probes = kcalloc(3, sizeof(*probes), GFP_KERNEL);
	if (!probes)
		return -ENOMEM;
	probes[0] = &a;
	probes[1] = &b;
	probes[2] = &none;
	pr_info("none of them: %d\n", register_kprobes(probes, 0));
	pr_info("with one that is not there: %d\n", register_kprobes(probes, 3));
	say("nothing is registered");
	a.addr = b.addr = NULL;
	err = register_kprobes(probes, 2);
	pr_info("two: %d\n", err);
	say("two");
	err = register_kretprobes(rets, 2);
	pr_info("two returns: %d, max %d\n", err, ra.maxactive > 0);
	say("four");
	return 0;
}

static void __exit batches_exit(void)
{
	unregister_kretprobes(rets, 2);
	say("without returns");
	unregister_kprobes(probes, 2);
	say("without any");
	kfree(probes);
}

module_init(batches_init);
module_exit(batches_exit);
MODULE_LICENSE("Dual MIT/GPL");
