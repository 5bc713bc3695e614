// SPDX-License-Identifier: MIT
/* orders has several probes at one place, which run one after another. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/kprobes.h>
#include <linux/module.h>

noinline long orders_target(long n);
noinline long orders_target(long n)
{
	asm volatile(".globl orders_inside\norders_inside: nop; nop; nop" : "+r"(n));
	return n + 1;
}

extern char orders_inside[];

struct named {
	struct kprobe kp;
	const char *name;
	int result;
};

static char said[200];

static void note(const char *what, const char *name)
{
	strlcat(said, what, sizeof(said));
	strlcat(said, name, sizeof(said));
}

static int pre(struct kprobe *p, struct pt_regs *regs)
{
	struct named *n = container_of(p, struct named, kp);

	note(" pre-", n->name);
	if (n->result)
		regs->ip++;	/* the nop, or one byte of the entry's: it is not executed */
	return n->result;
}

static void post(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	note(" post-", container_of(p, struct named, kp)->name);
}

static int entered(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	note(" ", "enter");
	return 0;
}

static int returned(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	note(" ", get_kretprobe(ri)->kp.offset ? "?" : "return");
	return 0;
}

static int returned_too(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	note(" ", "return-too");
	return 0;
}

#define PROBE(n, place, after) { .kp = { .addr = place, .pre_handler = pre, .post_handler = after }, .name = n }
static struct named a = PROBE("a", NULL, post), b = PROBE("b", NULL, NULL), c = PROBE("c", NULL, post), d = PROBE("d", NULL, NULL);
static struct kretprobe ret = { .kp.symbol_name = "orders_target", .entry_handler = entered, .handler = returned };
static struct kretprobe too = { .kp.symbol_name = "orders_target", .handler = returned_too };

static void call(const char *what)
{
	long r;

	said[0] = 0;
	r = orders_target(1);
	pr_info("%s: %ld,%s\n", what, r, said);
}

static void inside(void)
{
	struct named *all[] = { &a, &b, &c, &d };
	int i;

	for (i = 0; i < 4; i++) {
		all[i]->kp.addr = (kprobe_opcode_t *)orders_inside;
		pr_info("%s: %d, flags %#x\n", all[i]->name, register_kprobe(&all[i]->kp), all[i]->kp.flags);
		call("inside");
	}
	disable_kprobe(&b.kp);
	call("without b");
	c.result = 1;
	call("c ends it");
	c.result = 0;
	enable_kprobe(&b.kp);
	for (i = 0; i < 4; i++) {
		unregister_kprobe(&all[i]->kp);
		call("one less");
		pr_info("flags %#x %#x %#x %#x\n", a.kp.flags, b.kp.flags, c.kp.flags, d.kp.flags);
	}
}

static void at_entry(void)
{
	struct named *all[] = { &a, &b };
	int i;

	for (i = 0; i < 2; i++) {
		all[i]->kp.addr = NULL;
		all[i]->kp.flags = 0;
		all[i]->kp.symbol_name = "orders_target";
		pr_info("%s: %d, flags %#x\n", all[i]->name, register_kprobe(&all[i]->kp), all[i]->kp.flags);
	}
	pr_info("returns %d %d\n", register_kretprobe(&ret), register_kretprobe(&too));
	call("entry and returns");
	disable_kretprobe(&ret);
	call("one return disabled");
	unregister_kprobe(&a.kp);
	unregister_kprobe(&b.kp);
	enable_kretprobe(&ret);
	call("only returns");
	unregister_kretprobe(&ret);
	unregister_kretprobe(&too);
	call("none");
}

static int __init orders_init(void)
{
	inside();
	at_entry();
	return 0;
}

static void __exit orders_exit(void)
{
}

module_init(orders_init);
module_exit(orders_exit);
MODULE_LICENSE("Dual MIT/GPL");
