// SPDX-License-Identifier: MIT
/* comings sets a probe from a notifier when the module aims comes, and takes it away when it goes. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/notifier.h>

static int pre(struct kprobe *p, struct pt_regs *regs)
{
	pr_info("%s: %ld\n", p->symbol_name, regs->di);
	return 0;
}

static struct kprobe once = { .symbol_name = "aims:aims_once", .pre_handler = pre };
static struct kprobe often = { .symbol_name = "aims:aims_often", .pre_handler = pre };
static int keep;
module_param(keep, int, 0);

static void say(const char *what)
{
	pr_info("%s: flags %#x %#x, addresses %d %d\n", what, once.flags, often.flags, once.addr != NULL, often.addr != NULL);
}

static int change(struct notifier_block *nb, unsigned long state, void *data)
{
	struct module *mod = data;

	if (strcmp(mod->name, "aims"))
		return 0;
	switch (state) {
	case MODULE_STATE_COMING:
		pr_info("coming: %d %d\n", register_kprobe(&once), register_kprobe(&often));
		break;
	case MODULE_STATE_LIVE:
		say("live");
		break;
	case MODULE_STATE_GOING:
		say("going");
		if (keep)
			break;
		unregister_kprobe(&once);
		unregister_kprobe(&often);
		once.addr = often.addr = NULL;
		once.flags = often.flags = 0;
		break;
	}
	return 0;
}

static struct notifier_block first = { .notifier_call = change, .priority = 1 };
static struct notifier_block last = { .notifier_call = change, .priority = -1 };
static int late;
module_param(late, int, 0);

static int __init comings_init(void)
{
	return register_module_notifier(late ? &last : &first);
}

static void __exit comings_exit(void)
{
	unregister_module_notifier(late ? &last : &first);
	say("at the end");
	unregister_kprobe(&once);
	unregister_kprobe(&often);
}

module_init(comings_init);
module_exit(comings_exit);
MODULE_LICENSE("Dual MIT/GPL");
