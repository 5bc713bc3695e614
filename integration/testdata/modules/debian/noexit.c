// SPDX-License-Identifier: MIT
/* noexit has an init function and no exit function: it cannot be unloaded. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/module.h>

static int __init noexit_init(void)
{
	pr_info("here for good\n");
	return 0;
}

module_init(noexit_init);
MODULE_LICENSE("Dual MIT/GPL");
