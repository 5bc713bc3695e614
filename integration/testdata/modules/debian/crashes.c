// SPDX-License-Identifier: MIT
/* crashes comes to memory that is not there in its init or exit function, with a probe set. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/string.h>

static char *where = "nowhere";
module_param(where, charp, 0444);

static int *volatile pointer;

static int pre(struct kprobe *p, struct pt_regs *regs)
{
	pr_info("a symlink\n");
	return 0;
}

static struct kprobe kp = { .symbol_name = "do_symlinkat", .pre_handler = pre };

noinline void crashes_write(const char *here);
noinline void crashes_write(const char *here)
{
	if (!strcmp(where, here))
		*pointer = 1;
}

static int __init crashes_init(void)
{
	pr_info("register: %d\n", register_kprobe(&kp));
	crashes_write("init");
	return 0;
}

static void __exit crashes_exit(void)
{
	crashes_write("exit");
	unregister_kprobe(&kp);
}

module_init(crashes_init);
module_exit(crashes_exit);
MODULE_LICENSE("Dual MIT/GPL");
