// SPDX-License-Identifier: MIT
/* life ends its init function as its parameter says. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/module.h>
#include <linux/moduleparam.h>

static int result;
module_param(result, int, 0);
static int kept __initdata = 7;
static int hold;
module_param(hold, int, 0);

static int __init life_init(void)
{
	pr_info("init of %s, state %d, %d\n", THIS_MODULE->name, THIS_MODULE->state, kept);
	if (hold)
		__module_get(THIS_MODULE);
	return result;
}

static void __exit life_exit(void)
{
	pr_info("exit, state %d, live %d\n", THIS_MODULE->state, try_module_get(THIS_MODULE));
}

module_init(life_init);
module_exit(life_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_VERSION("1.0");
