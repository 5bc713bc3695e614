/* kprobe_fails.c: a module whose init function fails. */
#include <linux/module.h>
#include <linux/errno.h>

static int __init kprobe_fails_init(void)
{
	return -ENODEV;
}

module_init(kprobe_fails_init);
MODULE_LICENSE("GPL");
