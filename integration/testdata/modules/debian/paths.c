// SPDX-License-Identifier: MIT
/* paths has handlers that change where and with what the function goes on. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/sched.h>

noinline long paths_target(long n);
noinline long paths_target(long n)
{
	asm volatile(".globl paths_inside\npaths_inside: nop; nop; nop; .globl paths_beyond\npaths_beyond: nop" : "+r"(n));
	return n + 1;
}

noinline long paths_other(long n);
noinline long paths_other(long n)
{
	barrier();
	return n + 1000;
}

/* paths_add adds one to its argument twice, in two instructions. */
noinline long paths_add(long n);
noinline long paths_add(long n)
{
	asm volatile("mov %0, %%rax\n.globl paths_first\npaths_first: add $1, %%rax\n.globl paths_second\npaths_second: add $1, %%rax\n"
		     "mov %%rax, %0" : "+r"(n) : : "rax");
	return n;
}

extern char paths_inside[], paths_beyond[], paths_first[], paths_second[];
static volatile int posts;

static void post(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	posts++;
}

/* The function's argument is another one. */
static int argument(struct kprobe *p, struct pt_regs *regs)
{
	regs->di = 50;
	return 0;
}

void paths_return(void);
asm(".pushsection .text\n.globl paths_return\n.type paths_return, @function\npaths_return: ret; int3\n.size paths_return, .-paths_return\n.popsection");

/* The call returns at once. The stack pointer cannot be changed at an entry. */
static int back(struct kprobe *p, struct pt_regs *regs)
{
	regs->ip = (unsigned long)paths_return;
	regs->ax = 77;
	return 1;
}

/* Goes on in another function, whose result is the call's. */
static int elsewhere(struct kprobe *p, struct pt_regs *regs)
{
	regs->ip = (unsigned long)paths_other;
	return 1;
}

/* Leaves out an instruction. */
static int skip(struct kprobe *p, struct pt_regs *regs)
{
	regs->ip = (unsigned long)paths_second;
	return 1;
}

static int second_seen(struct kprobe *p, struct pt_regs *regs)
{
	pr_info("the second probe sees rax %ld\n", regs->ax);
	return 0;
}

static void try(const char *what, const char *symbol, void *addr, kprobe_pre_handler_t pre, bool with_post)
{
	struct kprobe kp = { .symbol_name = symbol, .addr = addr, .pre_handler = pre, .post_handler = with_post ? post : NULL };
	int err = register_kprobe(&kp);
	long a, b;

	posts = 0;
	a = paths_target(1);
	b = paths_add(1);
	pr_info("%s: %d, flags %#x, target %ld, add %ld, posts %d, missed %lu\n", what, err, kp.flags, a, b, posts, kp.nmissed);
	unregister_kprobe(&kp);
}

static int __init paths_init(void)
{
	static struct kprobe second = { .addr = (kprobe_opcode_t *)paths_second, .pre_handler = second_seen };

	try("argument at the entry", "paths_target", NULL, argument, false);
	try("back at the entry", "paths_target", NULL, back, false);
	try("back with a post-handler", "paths_target", NULL, back, true);
	try("elsewhere at the entry", "paths_target", NULL, elsewhere, false);
	try("argument inside", NULL, paths_inside, argument, false);
	try("skip inside", NULL, paths_first, skip, false);
	try("skip with a post-handler", NULL, paths_first, skip, true);
	pr_info("second %d\n", register_kprobe(&second));
	try("to a probed one", NULL, paths_first, skip, true);
	unregister_kprobe(&second);
	return 0;
}

static void __exit paths_exit(void)
{
}

module_init(paths_init);
module_exit(paths_exit);
MODULE_LICENSE("Dual MIT/GPL");
