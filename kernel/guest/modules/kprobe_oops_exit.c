/* kprobe_oops_exit.c: a module whose exit function writes to unmapped memory. */
#include <linux/module.h>

static int *volatile nowhere = (int *)8;

static int __init kprobe_oops_exit_init(void)
{
	return 0;
}

static void __exit kprobe_oops_exit_exit(void)
{
	*nowhere = 1;
}

module_init(kprobe_oops_exit_init);
module_exit(kprobe_oops_exit_exit);
MODULE_LICENSE("GPL");
