// SPDX-License-Identifier: MIT
/* refused has functions that may not be probed, and tries; and it survives faults of its own. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/uaccess.h>

noinline void refused_named(void);
noinline void refused_named(void) { barrier(); }
NOKPROBE_SYMBOL(refused_named);

noinline void refused_section(void);
noinline void __kprobes refused_section(void) { barrier(); }

noinline void refused_not(void);
noinline void refused_not(void) { barrier(); }

static int pre(struct kprobe *p, struct pt_regs *regs)
{
	return 0;
}

static void try(const char *symbol, unsigned int offset)
{
	struct kprobe kp = { .symbol_name = symbol, .offset = offset, .pre_handler = pre };
	int err = register_kprobe(&kp);

	pr_info("%s+%u: %d\n", symbol, offset, err);
	if (!err)
		unregister_kprobe(&kp);
}

static int __init refused_init(void)
{
	struct kprobe both = { .symbol_name = "refused_not", .addr = (kprobe_opcode_t *)refused_not };
	struct kprobe data = { .addr = (kprobe_opcode_t *)&both };
	unsigned long word = 0;
	long err;

	try("refused_named", 0);
	try("refused_section", 0);
	try("refused_section", 5);
	try("refused_not", 0);
	try("refused_not", 3);
	try("refused_nowhere", 0);
	pr_info("both: %d\n", register_kprobe(&both));
	pr_info("data: %d\n", register_kprobe(&data));
	err = copy_from_kernel_nofault(&word, (void *)0xffffdead00000000UL, sizeof(word));
	pr_info("nofault of nothing: %ld\n", err);
	err = copy_from_kernel_nofault(&word, (void *)&jiffies, sizeof(word));
	pr_info("nofault of jiffies: %ld, %d\n", err, word != 0);
	return 0;
}

static void __exit refused_exit(void)
{
}

module_init(refused_init);
module_exit(refused_exit);
MODULE_LICENSE("Dual MIT/GPL");
