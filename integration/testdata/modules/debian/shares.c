// SPDX-License-Identifier: MIT
/* shares exports a function and a variable to the module uses. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/module.h>

int shares_number = 6;
EXPORT_SYMBOL(shares_number);

noinline int shares_times(int n);
noinline int shares_times(int n)
{
	return n * shares_number;
}
EXPORT_SYMBOL_GPL(shares_times);

static int __init shares_init(void)
{
	return 0;
}

static void __exit shares_exit(void)
{
	pr_info("number %d\n", shares_number);
}

module_init(shares_init);
module_exit(shares_exit);
MODULE_LICENSE("Dual MIT/GPL");
