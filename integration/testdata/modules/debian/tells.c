// SPDX-License-Identifier: MIT
/* tells does nothing; others read its arguments from a notifier when it is live. */
#include <linux/module.h>
#include <linux/moduleparam.h>

static char *aims, *gone, *switches;
module_param(aims, charp, 0);
module_param(gone, charp, 0);
module_param(switches, charp, 0);

static int __init tells_init(void)
{
	return 0;
}

static void __exit tells_exit(void)
{
}

module_init(tells_init);
module_exit(tells_exit);
MODULE_LICENSE("Dual MIT/GPL");
