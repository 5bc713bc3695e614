// SPDX-License-Identifier: MIT
/* leaves goes away while its thread sleeps, which comes back to text that is no longer there. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/module.h>

static DECLARE_COMPLETION(going);

static int leaver(void *unused)
{
	wait_for_completion(&going);
	msleep(1500);
	pr_info("the thread goes on\n");
	return 0;
}

static int __init leaves_init(void)
{
	struct task_struct *t = kthread_run(leaver, NULL, "leaver");

	return PTR_ERR_OR_ZERO(t);
}

static void __exit leaves_exit(void)
{
	pr_info("the text goes\n");
	complete(&going);
}

module_init(leaves_init);
module_exit(leaves_exit);
MODULE_LICENSE("Dual MIT/GPL");
