// SPDX-License-Identifier: MIT
/* again registers the same structs again and again. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/kprobes.h>
#include <linux/module.h>

noinline long again_target(long n);
noinline long again_target(long n)
{
	asm volatile(".globl again_inside\nagain_inside: .byte 0x89, 0xc0\n\tnop; nop; nop" : "+r"(n));
	return n + 1;
}

extern char again_inside[];
static volatile int hits;

static int pre(struct kprobe *p, struct pt_regs *regs)
{
	hits++;
	return 0;
}

static int returned(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	hits += 100;
	return 0;
}

static struct kprobe kp, other;
static struct kretprobe rp;

static void say(const char *what, int err, struct kprobe *p)
{
	hits = 0;
	again_target(1);
	pr_info("%s: %d, flags %#x, opcode %#x, addr %d, symbol %d, offset %d, missed %lu, hits %d\n", what, err, p->flags, p->opcode,
		p->addr ? p->addr == (kprobe_opcode_t *)again_inside ? 2 : 1 : 0, p->symbol_name ? 1 : 0, p->offset, p->nmissed, hits);
}

static void with_symbol(const char *symbol, kprobe_opcode_t *addr)
{
	kp = (struct kprobe){ .symbol_name = symbol, .addr = addr, .pre_handler = pre, .nmissed = 9 };
	say("registered", register_kprobe(&kp), &kp);
	say("twice", register_kprobe(&kp), &kp);
	unregister_kprobe(&kp);
	say("unregistered", 0, &kp);
	say("as it is", register_kprobe(&kp), &kp);
	unregister_kprobe(&kp);
	say("unregistered again", 0, &kp);
	kp.addr = addr;
	say("with the address as at first", register_kprobe(&kp), &kp);
	say("enabled", enable_kprobe(&kp), &kp);
	say("disabled", disable_kprobe(&kp), &kp);
	say("disabled twice", disable_kprobe(&kp), &kp);
	unregister_kprobe(&kp);
	say("unregistered when disabled", 0, &kp);
	say("enabled when unregistered", enable_kprobe(&kp), &kp);
	say("disabled when unregistered", disable_kprobe(&kp), &kp);
	unregister_kprobe(&kp);
	say("unregistered twice", 0, &kp);
	kp.addr = addr;
	kp.flags = KPROBE_FLAG_DISABLED;
	say("registered disabled", register_kprobe(&kp), &kp);
	say("enabled", enable_kprobe(&kp), &kp);
	unregister_kprobe(&kp);
	say("at last", 0, &kp);
}

/* Two at one place: the flags of each when the other goes. */
static void pair(void)
{
	kp = (struct kprobe){ .symbol_name = "again_target", .pre_handler = pre };
	other = (struct kprobe){ .symbol_name = "again_target", .pre_handler = pre, .flags = KPROBE_FLAG_DISABLED };
	say("first", register_kprobe(&kp), &kp);
	say("second, disabled", register_kprobe(&other), &other);
	say("first disabled", disable_kprobe(&kp), &kp);
	say("second enabled", enable_kprobe(&other), &other);
	unregister_kprobe(&kp);
	say("first gone", 0, &kp);
	say("second left", 0, &other);
	unregister_kprobe(&other);
	say("second gone", 0, &other);
	kp.addr = other.addr = NULL;
	say("first again", register_kprobe(&kp), &kp);
	say("second again", register_kprobe(&other), &other);
	unregister_kprobe(&kp);
	unregister_kprobe(&other);
}

static int __init again_init(void)
{
	with_symbol("again_target", NULL);
	with_symbol(NULL, (kprobe_opcode_t *)again_inside);
	pair();
	rp = (struct kretprobe){ .kp.symbol_name = "again_target", .handler = returned, .maxactive = -1 };
	say("return probe", register_kretprobe(&rp), &rp.kp);
	pr_info("max %d, pre-handler %d\n", rp.maxactive > 0, rp.kp.pre_handler != NULL);
	say("twice", register_kretprobe(&rp), &rp.kp);
	unregister_kretprobe(&rp);
	say("unregistered", 0, &rp.kp);
	say("as it is", register_kretprobe(&rp), &rp.kp);
	rp.kp.addr = NULL;
	say("without address", register_kretprobe(&rp), &rp.kp);
	say("disabled", disable_kretprobe(&rp), &rp.kp);
	unregister_kretprobe(&rp);
	rp.kp.addr = NULL;
	say("without address", register_kretprobe(&rp), &rp.kp);
	unregister_kretprobe(&rp);
	say("at last", 0, &rp.kp);
	return 0;
}

static void __exit again_exit(void)
{
}

module_init(again_init);
module_exit(again_exit);
MODULE_LICENSE("Dual MIT/GPL");
