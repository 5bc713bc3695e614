/* kprobe_user.c: a module that depends on kprobe_target. */
#include <linux/module.h>
#include <linux/kernel.h>
#include <linux/printk.h>

int kprobe_target_sum(int from, int to);

noinline int kprobe_user_twice(int n)
{
	return 2 * kprobe_target_sum(1, n);
}

static int __init kprobe_user_init(void)
{
	pr_info("kprobe_user: twice %d\n", kprobe_user_twice(4));
	return 0;
}

static void __exit kprobe_user_exit(void)
{
}

module_init(kprobe_user_init);
module_exit(kprobe_user_exit);
MODULE_LICENSE("GPL");
