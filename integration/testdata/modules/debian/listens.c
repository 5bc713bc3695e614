// SPDX-License-Identifier: MIT
/* listens hears of the modules that come and go, refuses one of them, and probes others. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/notifier.h>
#include <linux/reboot.h>

static char *refuse = "";
module_param(refuse, charp, 0);

static int pre(struct kprobe *p, struct pt_regs *regs)
{
	pr_info("probe: %s\n", p->symbol_name);
	return 0;
}

static struct kprobe kp = { .symbol_name = "life_init", .pre_handler = pre };

static int hear(const char *who, unsigned long state, struct module *mod)
{
	pr_info("%s: %s %s, refcount %d, init %d\n", who, mod->name,
		state == MODULE_STATE_LIVE ? "live" : state == MODULE_STATE_COMING ? "coming" : "going",
		module_refcount(mod), mod->state);
	return NOTIFY_OK;
}

static int first(struct notifier_block *nb, unsigned long state, void *data)
{
	struct module *mod = data;

	if (mod == THIS_MODULE)
		pr_info("first: myself, %lu\n", state);
	else
		hear("first", state, mod);
	return NOTIFY_OK;
}

static int second(struct notifier_block *nb, unsigned long state, void *data)
{
	struct module *mod = data;

	if (mod != THIS_MODULE)
		hear("second", state, mod);
	if (state == MODULE_STATE_COMING && !strcmp(mod->name, refuse))
		return notifier_from_errno(-EPERM);
	return NOTIFY_OK;
}

static int third(struct notifier_block *nb, unsigned long state, void *data)
{
	struct module *mod = data;

	if (mod != THIS_MODULE)
		hear("third", state, mod);
	if (strcmp(mod->name, "life"))
		return NOTIFY_DONE;
	if (state == MODULE_STATE_COMING) {
		kp.addr = NULL;
		kp.flags = 0;
		pr_info("register: %d\n", register_kprobe(&kp));
		return NOTIFY_OK;
	}
	pr_info("gone: %d\n", !!(kp.flags & KPROBE_FLAG_GONE));
	if (state == MODULE_STATE_GOING)
		unregister_kprobe(&kp);
	return NOTIFY_OK;
}

static int reboot(struct notifier_block *nb, unsigned long action, void *data)
{
	return NOTIFY_DONE;
}

static struct notifier_block nbs[] = {
	{ .notifier_call = third, .priority = -1 }, { .notifier_call = first, .priority = 5 }, { .notifier_call = second },
};
static struct notifier_block reboots = { .notifier_call = reboot };

static int __init listens_init(void)
{
	int i;

	for (i = 0; i < 3; i++)
		pr_info("register: %d\n", register_module_notifier(&nbs[i]));
	pr_info("reboot: %d\n", register_reboot_notifier(&reboots));
	return 0;
}

static void __exit listens_exit(void)
{
	int i;

	for (i = 0; i < 3; i++)
		pr_info("unregister: %d\n", unregister_module_notifier(&nbs[i]));
	pr_info("again: %d\n", unregister_module_notifier(&nbs[0]));
	pr_info("reboot: %d %d\n", unregister_reboot_notifier(&reboots), unregister_reboot_notifier(&reboots));
}

module_init(listens_init);
module_exit(listens_exit);
MODULE_LICENSE("Dual MIT/GPL");
