// SPDX-License-Identifier: MIT
/* calls makes static calls, and changes what they call. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/static_call.h>

static noinline int calls_add(int a, int b)
{
	return a + b;
}

static noinline int calls_mul(int a, int b)
{
	return a * b;
}

static noinline void calls_note(int n)
{
	pr_info("note %d\n", n);
}

DEFINE_STATIC_CALL(calls_op, calls_add);
DEFINE_STATIC_CALL_RET0(calls_zero, calls_add);
DEFINE_STATIC_CALL_NULL(calls_maybe, calls_note);

static noinline int calls_body(int a, int b)
{
	int n = static_call(calls_op)(a, b) + 1000 * static_call(calls_zero)(a, b);

	static_call_cond(calls_maybe)(n);
	return n;
}

static noinline int calls_tail(int a, int b)
{
	return static_call(calls_op)(b, a);
}

static int pre(struct kprobe *p, struct pt_regs *regs)
{
	pr_info("%s(%ld, %ld)\n", p->symbol_name, regs->di, regs->si);
	return 0;
}

static void say(const char *when)
{
	pr_info("%s: %d %d\n", when, calls_body(3, 4), calls_tail(5, 6));
}

static int __init calls_init(void)
{
	struct kprobe kp = { .symbol_name = "calls_mul", .pre_handler = pre };
	int off, refused = 0;

	say("as built");
	static_call_update(calls_op, calls_mul);
	say("mul");
	static_call_update(calls_zero, calls_add);
	static_call_update(calls_maybe, calls_note);
	say("all");
	pr_info("probe: %d\n", register_kprobe(&kp));
	say("probed");
	unregister_kprobe(&kp);
	static_call_update(calls_maybe, NULL);
	static_call_update(calls_op, calls_add);
	static_call_update(calls_zero, (void *)&__static_call_return0);
	say("as built");
	cond_resched();
	for (off = 0; off < 64; off++) {
		struct kprobe at = { .symbol_name = "calls_body", .offset = off };
		int err = register_kprobe(&at);

		if (!err)
			unregister_kprobe(&at);
		refused += err == -EINVAL;
	}
	pr_info("refused: %s\n", refused ? "yes" : "no");
	return 0;
}

static void __exit calls_exit(void)
{
	say("exit");
}

module_init(calls_init);
module_exit(calls_exit);
MODULE_LICENSE("Dual MIT/GPL");
