// Places of pr_debug in several functions and, by #line, in two files.
#include <linux/module.h>
#include <linux/printk.h>

static int rounds = 1;
module_param(rounds, int, 0644);

static noinline void first(int i)
{
	pr_debug("first of %d\n", i);
	pr_debug("second of %d\n", i);
	print_hex_dump_debug("bytes ", DUMP_PREFIX_NONE, 16, 1, "abc", 3, true);
}

static noinline void second(int i)
{
	pr_debug("third of %d: \"quoted\"\tand\ttabs\n", i);
	if (i > 1)
		pr_debug("fourth, more than one\n");
}

#line 7 "other/mutters.h"
static noinline void elsewhere(int i)
{
	pr_debug("fifth of %d\n", i);
	pr_debug_ratelimited("sixth of %d\n", i);
}

static int say(const char *val, const struct kernel_param *kp)
{
	int i;

	for (i = 1; i <= rounds; i++) {
		first(i);
		second(i);
		elsewhere(i);
	}
	return 0;
}

static const struct kernel_param_ops say_ops = {.set = say};
module_param_cb(say, &say_ops, NULL, 0200);

static int __init murmurs_init(void)
{
	pr_debug("begins\n");
	return 0;
}

static void __exit murmurs_exit(void)
{
	pr_debug("ends\n");
}

module_init(murmurs_init);
module_exit(murmurs_exit);
MODULE_LICENSE("GPL");
