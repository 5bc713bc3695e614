// SPDX-License-Identifier: MIT
/* uses calls what shares exports, and looks at stacks. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/kallsyms.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/stacktrace.h>

extern int shares_number;
int shares_times(int n);

static unsigned long entries[16];
static unsigned int nr;

static noinline void uses_inner(int skip)
{
	char buf[KSYM_SYMBOL_LEN];
	unsigned int i;

	nr = stack_trace_save(entries, ARRAY_SIZE(entries), skip);
	for (i = 0; i < 3; i++) {
		sprint_symbol_no_offset(buf, entries[i]);
		pr_info("frame %u: %s\n", i, buf);
	}
}

static noinline void uses_outer(int skip)
{
	uses_inner(skip);
	barrier();
}

static int pre(struct kprobe *p, struct pt_regs *regs)
{
	pr_info("shares_times(%ld) called\n", regs->di);
	return 0;
}

static struct kprobe kp = { .symbol_name = "shares:shares_times", .pre_handler = pre };

static int __init uses_init(void)
{
	int err;

	shares_number++;
	pr_info("times %d\n", shares_times(6));
	uses_outer(0);
	uses_outer(1);
	err = register_kprobe(&kp);
	pr_info("probe of the other module: %d\n", err);
	if (err) {
		kp.symbol_name = "shares_times";
		kp.addr = NULL;
		pr_info("without its name: %d\n", register_kprobe(&kp));
	}
	pr_info("times %d\n", shares_times(7));
	return 0;
}

static void __exit uses_exit(void)
{
	unregister_kprobe(&kp);
}

module_init(uses_init);
module_exit(uses_exit);
MODULE_LICENSE("Dual MIT/GPL");
