/* kprobe_oops_init.c: a module whose init function writes to unmapped memory. */
#include <linux/module.h>

static int *volatile nowhere = (int *)8;

static int __init kprobe_oops_init_init(void)
{
	*nowhere = 1;
	return 0;
}

static void __exit kprobe_oops_init_exit(void)
{
}

module_init(kprobe_oops_init_init);
module_exit(kprobe_oops_init_exit);
MODULE_LICENSE("GPL");
