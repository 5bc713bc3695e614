// SPDX-License-Identifier: MIT
/* aims is a module that others probe. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/init.h>
#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/string.h>

noinline int aims_once(int n);
noinline int __init aims_once(int n)
{
	barrier();
	return n + 1;
}

noinline int aims_often(int n);
noinline int aims_often(int n)
{
	asm volatile(".globl aims_inside\naims_inside: nop; nop; nop; nop; nop; nop" : "+r"(n));
	return n + 2;
}

static void told(const char *val)
{
	pr_info("often %d\n", aims_often(*val - '0'));
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

static int __init aims_init(void)
{
	pr_info("once %d, often %d\n", aims_once(1), aims_often(1));
	return register_module_notifier(&hears);
}

static void __exit aims_exit(void)
{
	unregister_module_notifier(&hears);
	pr_info("at the end %d\n", aims_often(3));
}

module_init(aims_init);
module_exit(aims_exit);
MODULE_LICENSE("Dual MIT/GPL");
