// SPDX-License-Identifier: MIT
/* errors registers what the kernel refuses. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/jump_label.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/slab.h>

noinline long errors_target(long n);
noinline long errors_target(long n)
{
	asm volatile("mov $0x12345678, %%eax\n.globl errors_inside\nerrors_inside: mov $0x12345678, %%eax" : "+r"(n) : : "rax");
	return n + 1;
}

noinline long errors_bugs(long n);
noinline long errors_bugs(long n)
{
	if (n == 9)
		asm volatile(".globl errors_at_bug\nerrors_at_bug:");
	WARN_ON_ONCE(n == 9);
	return n + 1;
}

extern char errors_inside[], errors_at_bug[];
static char data[16];
static DEFINE_STATIC_KEY_FALSE(key);

noinline int errors_key(void);
noinline int errors_key(void)
{
	return static_branch_unlikely(&key) ? 5 : 6;
}

static int pre(struct kprobe *p, struct pt_regs *regs)
{
	return 0;
}

static int returned(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	return 0;
}

static int refused(struct kprobe *p, struct pt_regs *regs)
{
	return 0;
}
NOKPROBE_SYMBOL(refused);

static void try(const char *what, const char *symbol, void *addr, unsigned int offset, u32 flags)
{
	struct kprobe kp = { .symbol_name = symbol, .addr = addr, .offset = offset, .flags = flags, .pre_handler = pre };
	struct kretprobe rp = { .kp = { .symbol_name = symbol, .addr = addr, .offset = offset, .flags = flags }, .handler = returned };
	int err = register_kprobe(&kp), err2;

	pr_info("%s: %d, flags %#x, addr %d\n", what, err, kp.flags, kp.addr != NULL);
	if (!err)
		unregister_kprobe(&kp);
	err2 = register_kretprobe(&rp);
	pr_info("%s, return: %d, flags %#x, addr %d\n", what, err2, rp.kp.flags, rp.kp.addr != NULL);
	if (!err2)
		unregister_kretprobe(&rp);
}

static void singles(void)
{
	try("neither", NULL, NULL, 0, 0);
	try("only an offset", NULL, NULL, 4, 0);
	try("both", "errors_target", errors_target, 0, 0);
	try("both and unknown", "no_such_function", errors_target, 0, 0);
	try("unknown", "no_such_function", NULL, 0, 0);
	try("empty", "", NULL, 0, 0);
	try("unknown module", "no_such_module:errors_target", NULL, 0, 0);
	try("module", "errors:errors_target", NULL, 0, 0);
	try("entry", "errors_target", NULL, 0, 0);
	try("within the entry's nop", "errors_target", NULL, 2, 0);
	try("inside", "errors_target", NULL, 5, 0);
	try("inside by name", "errors_inside", NULL, 0, 0);
	try("address and offset", NULL, errors_target, 5, 0);
	try("within an instruction", NULL, errors_inside, 2, 0);
	try("far behind", "errors_target", NULL, 0x10000000, 0);
	try("data", NULL, data, 0, 0);
	try("nowhere", NULL, (void *)0x1000, 0, 0);
	try("noncanonical", NULL, (void *)0xdead000000000000UL, 0, 0);
	try("user", NULL, (void *)0x7fff00000000UL, 0, 0);
	try("blacklisted here", NULL, refused, 0, 0);
	try("blacklisted", "notify_die", NULL, 0, 0);
	try("noinstr", "exc_page_fault", NULL, 0, 0);
	try("entry text", "entry_SYSCALL_64", NULL, 0, 0);
	try("switch_to", "__switch_to", NULL, 0, 0);
	try("thunk", "__x86_indirect_thunk_rax", NULL, 0, 0);
	try("bug", NULL, errors_at_bug, 0, 0);
	try("flags that are unknown", "errors_target", NULL, 0, 0xf00);
	try("flags that are the kernel's", "errors_target", NULL, 0, KPROBE_FLAG_GONE | KPROBE_FLAG_OPTIMIZED | KPROBE_FLAG_FTRACE);
}

static void batch(const char *what, const char *first, const char *second, const char *third, int n)
{
	struct kprobe *kps[3];
	int i, err;

	for (i = 0; i < 3; i++) {
		kps[i] = kzalloc(sizeof(**kps), GFP_KERNEL);
		kps[i]->symbol_name = i == 0 ? first : i == 1 ? second : third;
		kps[i]->pre_handler = pre;
	}
	err = register_kprobes(kps, n);
	pr_info("%s: %d", what, err);
	for (i = 0; i < 3; i++)
		pr_cont(", %#x %d", kps[i]->flags, kps[i]->addr != NULL);
	pr_cont("\n");
	if (!err)
		unregister_kprobes(kps, n);
	for (i = 0; i < 3; i++)
		kfree(kps[i]);
}

static void rets(void)
{
	static struct kretprobe a = { .kp.symbol_name = "errors_target", .handler = returned };
	static struct kretprobe b = { .kp.symbol_name = "errors_inside", .handler = returned };
	static struct kretprobe c = { .kp.symbol_name = "errors_key", .handler = returned };
	struct kretprobe *rps[] = { &a, &b, &c }, *same[] = { &c, &c };

	pr_info("returns: %d, %d %d %d\n", register_kretprobes(rps, 3), a.kp.addr != NULL, b.kp.addr != NULL, c.kp.addr != NULL);
	pr_info("none: %d %d\n", register_kretprobes(rps, 0), register_kretprobes(rps, -1));
	pr_info("the same twice: %d\n", register_kretprobes(same, 2));
	pr_info("flags %#x, addr %d\n", c.kp.flags, c.kp.addr != NULL);
	unregister_kretprobes(rps, 3);
}

static int __init errors_init(void)
{
	singles();
	batch("all", "errors_target", "errors_key", "errors_bugs", 3);
	batch("the last is unknown", "errors_target", "errors_key", "no_such_function", 3);
	batch("the second is refused", "errors_target", "notify_die", "errors_key", 3);
	batch("none", "errors_target", "errors_key", "errors_bugs", 0);
	batch("fewer than none", "errors_target", "errors_key", "errors_bugs", -4);
	batch("two of three", "errors_target", "errors_key", "no_such_function", 2);
	rets();
	return 0;
}

static void __exit errors_exit(void)
{
}

module_init(errors_init);
module_exit(errors_exit);
MODULE_LICENSE("Dual MIT/GPL");
