// SPDX-License-Identifier: MIT
/* args prints its parameters, one of each kind. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/module.h>
#include <linux/moduleparam.h>

static int number = -1;
module_param(number, int, 0644);
MODULE_PARM_DESC(number, "a signed number");
static unsigned int count = 1;
module_param(count, uint, 0444);
static long far = -2;
module_param(far, long, 0);
static unsigned long mask = 2;
module_param(mask, ulong, 0);
static short little = -3;
module_param(little, short, 0);
static unsigned short port = 3;
module_param(port, ushort, 0);
static unsigned char octet = 4;
module_param(octet, byte, 0);
static unsigned long long wide = 5;
module_param(wide, ullong, 0);
static bool on;
module_param(on, bool, 0644);
static bool off = true;
module_param(off, invbool, 0);
static char *word = "none";
module_param(word, charp, 0);
static char text[8] = "short";
module_param_string(text, text, sizeof(text), 0);
static int list[4];
static int listed;
module_param_array(list, int, &listed, 0);
static int inner;
module_param_named(outer, inner, int, 0);

static int even_set(const char *val, const struct kernel_param *kp)
{
	int v, err = kstrtoint(val, 0, &v);

	if (err)
		return err;
	if (v & 1)
		return -ERANGE;
	*(int *)kp->arg = v;
	return 0;
}

static const struct kernel_param_ops even_ops = {
	.set = even_set,
	.get = param_get_int,
};
static int even;
module_param_cb(even, &even_ops, &even, 0);

static int __init args_init(void)
{
	int i;

	pr_info("number %d count %u far %ld mask %#lx little %hd port %hu octet %hhu wide %llu\n",
		number, count, far, mask, little, port, octet, wide);
	pr_info("on %d off %d word '%s' text '%s' inner %d even %d listed %d\n", on, off, word, text, inner, even, listed);
	for (i = 0; i < listed; i++)
		pr_info("list[%d] %d\n", i, list[i]);
	return 0;
}

static void __exit args_exit(void)
{
	pr_info("gone\n");
}

module_init(args_init);
module_exit(args_exit);
MODULE_LICENSE("Dual MIT/GPL");
