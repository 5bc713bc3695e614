// SPDX-License-Identifier: MIT
/* opens prints the names that a program opens, as far as they begin with a prefix, and what came of it. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/uaccess.h>

static char prefix[16] = "/nofile";
module_param_string(prefix, prefix, sizeof(prefix), 0);

struct name {
	char text[12];
};

static int entered(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct name *n = (struct name *)ri->data;

	if (copy_from_user_nofault(n->text, (const void __user *)regs->si, sizeof(n->text)))
		return 1;
	n->text[sizeof(n->text) - 1] = 0;
	return strncmp(n->text, prefix, strlen(prefix)) != 0;
}
NOKPROBE_SYMBOL(entered);

static int returned(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	pr_info("%s opens %s: %d\n", current->comm, ((struct name *)ri->data)->text, (int)regs_return_value(regs));
	return 0;
}
NOKPROBE_SYMBOL(returned);

static struct kretprobe opens = {
	.kp.symbol_name = "do_sys_openat2", .handler = returned, .entry_handler = entered,
	.data_size = sizeof(struct name), .maxactive = 20,
};

static int __init opens_init(void)
{
	char c;

	pr_info("nothing there: %ld %ld\n", copy_from_user_nofault(&c, (void __user *)8, 1),
		copy_to_user_nofault((void __user *)8, &c, 1));
	return register_kretprobe(&opens);
}

static void __exit opens_exit(void)
{
	unregister_kretprobe(&opens);
}

module_init(opens_init);
module_exit(opens_exit);
MODULE_LICENSE("Dual MIT/GPL");
