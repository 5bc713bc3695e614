// SPDX-License-Identifier: MIT
/* faults: instructions of a module with fixups, and its warnings. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <asm/asm.h>
#include <linux/bug.h>
#include <linux/module.h>
#include <linux/uaccess.h>

/* Reads a word, or -1 where there is none. */
static long peek(const long *p)
{
	long v;

	asm volatile("1: movq (%1), %0\n2:\n"
		     ".pushsection .fixup,\"ax\"\n3: movq $-1, %0\n jmp 2b\n.popsection\n"
		     _ASM_EXTABLE(1b, 3b) : "=r"(v) : "r"(p));
	return v;
}

/* The same with a fixup that sets a register. */
static int poke(int *p, int v)
{
	int err = 0;

	asm volatile("1: movl %2, (%1)\n2:\n" _ASM_EXTABLE_TYPE_REG(1b, 2b, EX_TYPE_EFAULT_REG, %0)
		     : "+r"(err) : "r"(p), "r"(v) : "memory");
	return err;
}

static int __init faults_init(void)
{
	static long word = 77;
	static int number;
	char c;
	int i;

	pr_info("peek %ld %ld\n", peek(&word), peek((long *)0xffffdead00000000UL));
	i = poke(&number, 5);
	pr_info("poke %d %d\n", i, number);
	pr_info("poke %d\n", poke((int *)0xffffdead00000000UL, 5));
	pr_info("copy_from_user %lu\n", copy_from_user(&c, (void __user *)8, 1));
	pr_info("get_user %d\n", (int)get_user(c, (char __user *)8));
	pr_info("put_user %d\n", (int)put_user(1, (int __user *)8));
	for (i = 0; i < 3; i++)
		pr_info("once %d\n", WARN_ON_ONCE(i >= 0));
	pr_info("warned %d\n", WARN(number == 5, "faults: number is %d\n", number));
	return 0;
}

static void __exit faults_exit(void)
{
}

module_init(faults_init);
module_exit(faults_exit);
MODULE_LICENSE("Dual MIT/GPL");
