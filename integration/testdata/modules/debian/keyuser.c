// SPDX-License-Identifier: MIT
/* keyuser branches on the static keys of module keys, and probes one of its branches. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/jump_label.h>
#include <linux/kprobes.h>
#include <linux/module.h>

extern struct static_key_false keys_off;
extern struct static_key_true keys_on;
void keys_say(const char *when);

noinline int keyuser_branches(int n);
noinline int keyuser_branches(int n)
{
	if (static_branch_unlikely(&keys_off))
		n |= 1;
	if (static_branch_likely(&keys_on))
		n |= 2;
	return n;
}

static void say(const char *when)
{
	pr_info("%s: %d\n", when, keyuser_branches(0));
}

/* The places of the function that Linux takes no probe at. */
static void probe_all(void)
{
	int off, refused = 0;

	for (off = 0; off < 32; off++) {
		struct kprobe kp = { .symbol_name = "keyuser_branches", .offset = off };
		int err = register_kprobe(&kp);

		if (!err)
			unregister_kprobe(&kp);
		refused += err == -EINVAL;
	}
	pr_info("refused: %s\n", refused ? "yes" : "no");
}

static int __init keyuser_init(void)
{
	say("loaded");
	static_branch_enable(&keys_off);
	say("off on");
	keys_say("off on");
	static_branch_disable(&keys_on);
	say("turned");
	probe_all();
	say("probed");
	return 0;
}

static void __exit keyuser_exit(void)
{
	static_branch_enable(&keys_on);
	say("exit");
}

module_init(keyuser_init);
module_exit(keyuser_exit);
MODULE_LICENSE("Dual MIT/GPL");
