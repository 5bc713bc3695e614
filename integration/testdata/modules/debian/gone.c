// SPDX-License-Identifier: MIT
/* gone has probes in another module, aims, which goes away and comes back. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/string.h>

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

static struct kprobe entry = { .symbol_name = "aims_often", .pre_handler = pre };
static struct kprobe second = { .symbol_name = "aims_often", .pre_handler = pre };
static struct kprobe inside = { .symbol_name = "aims_inside", .pre_handler = pre };
static struct kretprobe ret = { .kp.symbol_name = "aims:aims_often", .handler = returned };

static void say(const char *what, struct kprobe *p)
{
	pr_info("%s: flags %#x, addr %s, disabled %d, gone %d\n", what, p->flags, p->addr ? "set" : "none", kprobe_disabled(p),
		kprobe_gone(p));
}

static void all(void)
{
	say("entry", &entry);
	say("second", &second);
	say("inside", &inside);
	say("ret", &ret.kp);
}

static void told(const char *val)
{
	pr_info("hits %d\n", hits);
	hits = 0;
	all();
	if (*val == 'e') {
		pr_info("enable %d %d\n", enable_kprobe(&entry), enable_kprobe(&inside));
		pr_info("disable %d %d\n", disable_kprobe(&second), disable_kretprobe(&ret));
		pr_info("enable %d %d\n", enable_kprobe(&second), enable_kretprobe(&ret));
		pr_info("register once more %d\n", register_kprobe(&entry));
		all();
	}
	if (*val == 'r') {
		unregister_kprobe(&entry);
		say("unregistered", &entry);
		entry.addr = NULL;
		pr_info("register again %d\n", register_kprobe(&entry));
		say("entry", &entry);
		entry.addr = NULL;
		entry.flags = 0;
		pr_info("with flags of 0 %d\n", register_kprobe(&entry));
		say("entry", &entry);
	}
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

static int __init gone_init(void)
{
	int err = register_kprobe(&entry);

	pr_info("registered %d\n", err);
	if (err)
		return err;
	pr_info("registered %d %d %d\n", register_kprobe(&second), register_kprobe(&inside), register_kretprobe(&ret));
	return register_module_notifier(&hears);
}

static void __exit gone_exit(void)
{
	unregister_module_notifier(&hears);
	unregister_kprobe(&entry);
	unregister_kprobe(&second);
	unregister_kprobe(&inside);
	unregister_kretprobe(&ret);
	all();
}

module_init(gone_init);
module_exit(gone_exit);
MODULE_LICENSE("Dual MIT/GPL");
