// SPDX-License-Identifier: MIT
/* switches enables and disables its probes, before and after the global switch turns. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/string.h>

noinline long switches_target(long n);
noinline long switches_target(long n)
{
	asm volatile(".globl switches_inside\nswitches_inside: nop; nop; nop; nop; nop; nop; nop" : "+r"(n));
	return n + 1;
}

extern char switches_inside[];
static volatile int hits;

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

static struct kprobe entry = { .symbol_name = "switches_target", .pre_handler = pre };
static struct kprobe inside = { .symbol_name = "switches_inside", .pre_handler = pre };
static struct kprobe late = { .symbol_name = "switches_inside", .pre_handler = pre };
static struct kretprobe ret = { .kp.symbol_name = "switches_target", .handler = returned };

static void told(const char *val)
{
	int err = 0;

	switch (*val) {
	case 'e':
		err = enable_kprobe(&entry) ?: enable_kprobe(&inside) ?: enable_kretprobe(&ret);
		break;
	case 'd':
		err = disable_kprobe(&entry) ?: disable_kprobe(&inside) ?: disable_kretprobe(&ret);
		break;
	case 'l':
		err = register_kprobe(&late);
		break;
	case 'u':
		unregister_kprobe(&late);
		break;
	}
	hits = 0;
	switches_target(1);
	pr_info("%c: %d, hits %d, flags %#x %#x %#x %#x\n", *val, err, hits, entry.flags & 2, inside.flags & 2, late.flags & 2,
		ret.kp.flags & 2);
}

/* The module tells is loaded with an argument for this one. */
static int heard(struct notifier_block *nb, unsigned long state, void *data)
{
	struct module *mod = data;

	if (state == MODULE_STATE_LIVE && !strcmp(mod->name, "tells") && !strcmp(mod->args, KBUILD_MODNAME))
		told(mod->args + sizeof(KBUILD_MODNAME));	/* the equals sign is a 0 by now */
	return 0;
}

static struct notifier_block hears = { .notifier_call = heard };

static int __init switches_init(void)
{
	int err;

	entry.flags = KPROBE_FLAG_DISABLED;
	err = register_kprobe(&entry) ?: register_kprobe(&inside) ?: register_kretprobe(&ret);
	pr_info("registered %d\n", err);
	return err ?: register_module_notifier(&hears);
}

static void __exit switches_exit(void)
{
	unregister_module_notifier(&hears);
	unregister_kretprobe(&ret);
	unregister_kprobe(&late);
	unregister_kprobe(&inside);
	unregister_kprobe(&entry);
}

module_init(switches_init);
module_exit(switches_exit);
MODULE_LICENSE("Dual MIT/GPL");
