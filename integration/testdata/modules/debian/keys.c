// SPDX-License-Identifier: MIT
/* keys has static keys of both kinds, turns them on and off, and exports two. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/jump_label.h>
#include <linux/jump_label_ratelimit.h>
#include <linux/module.h>
#include <linux/moduleparam.h>

DEFINE_STATIC_KEY_FALSE(keys_off);
EXPORT_SYMBOL_GPL(keys_off);
DEFINE_STATIC_KEY_TRUE(keys_on);
EXPORT_SYMBOL_GPL(keys_on);
static DEFINE_STATIC_KEY_DEFERRED_FALSE(keys_later, HZ / 50);
static struct static_key keys_old = STATIC_KEY_INIT_FALSE;

static bool first;
module_param(first, bool, 0);

static noinline int branches(void)
{
	int n = 0;

	if (static_branch_likely(&keys_off))
		n |= 1;
	if (static_branch_unlikely(&keys_off))
		n |= 2;
	if (static_branch_likely(&keys_on))
		n |= 4;
	if (static_branch_unlikely(&keys_on))
		n |= 8;
	if (static_key_false(&keys_old))
		n |= 16;
	return n;
}

void keys_say(const char *when);
noinline void keys_say(const char *when)
{
	pr_info("%s: %d %d, branches %d\n", when, static_key_enabled(&keys_off.key), static_key_enabled(&keys_on.key), branches());
}
EXPORT_SYMBOL_GPL(keys_say);

static int __init keys_init(void)
{
	if (static_branch_unlikely(&keys_off))
		pr_info("init: off is on\n");
	keys_say("as built");
	static_branch_enable(&keys_off);
	static_branch_enable(&keys_off);
	keys_say("both on");
	static_branch_disable(&keys_on);
	keys_say("turned");
	if (static_branch_unlikely(&keys_off))
		pr_info("init: off is on\n");
	static_branch_disable(&keys_off);
	static_branch_disable(&keys_off);
	keys_say("both off");
	static_branch_inc(&keys_off);
	static_branch_inc(&keys_off);
	pr_info("count %d\n", static_key_count(&keys_off.key));
	static_branch_dec(&keys_off);
	keys_say("one left");
	static_branch_dec(&keys_off);
	keys_say("none left");
	static_key_slow_inc(&keys_old);
	keys_say("old");
	static_key_slow_dec(&keys_old);
	if (first)
		static_branch_enable(&keys_off);
	static_branch_deferred_inc(&keys_later);
	pr_info("later: %d\n", static_branch_unlikely(&keys_later.key));
	static_branch_slow_dec_deferred(&keys_later);
	static_key_deferred_flush(&keys_later);
	pr_info("flushed: %d\n", static_branch_unlikely(&keys_later.key));
	return 0;
}

static void __exit keys_exit(void)
{
	keys_say("exit");
}

module_init(keys_init);
module_exit(keys_exit);
MODULE_LICENSE("Dual MIT/GPL");
