// SPDX-License-Identifier: MIT
/* prints uses trace_printk in all its forms, in a task, in an interrupt and in handlers. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/irq_work.h>
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/module.h>

char *prints_text = "a string that is not constant\n";
char *prints_format = "%s: a format that is not constant\n";

static struct irq_work work;

noinline int prints_target(int n);
noinline int prints_target(int n)
{
	return n + 1;
}

static void prints_irq(struct irq_work *w)
{
	trace_printk("in an interrupt\n");
	trace_printk("in an interrupt, %d\n", 2);
}

static int pre(struct kprobe *p, struct pt_regs *regs)
{
	trace_printk("%s(%ld)\n", p->symbol_name, regs->di);
	return 0;
}

static struct kprobe kp = { .symbol_name = "prints_target", .offset = 5, .pre_handler = pre };

noinline void prints_all(void);
noinline void prints_all(void)
{
	u8 bytes[] = { 1, 0x23, 0xff };

	trace_printk("a constant\n");
	trace_printk(prints_text);
	trace_printk(prints_format, "first");
	trace_puts("puts\n");
	trace_puts(prints_text);
	trace_printk("%d %u %x %#x %o\n", -1, -1, 255, 255, 8);
	trace_printk("%5d|%-5d|%05d|%+d|% d\n", 42, 42, 42, 42, 42);
	trace_printk("%hhd %hd %ld %lld %zu\n", (char)-3, (short)-300, -5L, -6LL, sizeof(long));
	trace_printk("%hhx %hx %lx %llx\n", (char)0x12, (short)0x1234, 0x123456789abcUL, 0x123456789abcdefULL);
	trace_printk("%c%c %s %10s|%-10s|%.2s|\n", 'a', 'b', "str", "right", "left", "cut");
	trace_printk("%*d %.*s %%\n", 6, 7, 3, "abcdef");
	trace_printk("%*ph %pM %pI4\n", 3, bytes, "\x00\x11\x22\x33\x44\x55", "\x7f\x00\x00\x01");
	trace_printk("%ps %pS\n", prints_target, prints_target + 1);
	trace_printk("%s %d %s\n", "between", 1, "strings");
}

static int __init prints_init(void)
{
	prints_all();
	init_irq_work(&work, prints_irq);
	pr_info("queued: %d\n", irq_work_queue(&work));
	irq_work_sync(&work);
	pr_info("busy: %d\n", irq_work_is_busy(&work));
	pr_info("probe: %d\n", register_kprobe(&kp));
	prints_target(6);
	unregister_kprobe(&kp);
	return 0;
}

static void __exit prints_exit(void)
{
	prints_all();
}

module_init(prints_init);
module_exit(prints_exit);
MODULE_LICENSE("Dual MIT/GPL");
