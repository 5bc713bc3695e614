// A second module with places of pr_debug, beside murmurs.
#include <linux/module.h>
#include <linux/printk.h>

static int __init whispers_init(void)
{
	pr_debug("begins\n");
	pr_debug("has begun\n");
	return 0;
}

static void __exit whispers_exit(void)
{
	pr_debug("ends\n");
}

module_init(whispers_init);
module_exit(whispers_exit);
MODULE_LICENSE("GPL");
