/*
 * kprobe_loops.c: a module that loops forever. Tests write the place of the loop to
 * kprobe_loops_how in the object file.
 */
#include <linux/module.h>
#include <linux/kernel.h>
#include <linux/printk.h>
#include <linux/preempt.h>
#include <linux/irqflags.h>
#include <linux/kprobes.h>
#include <linux/rcupdate.h>

#define LOOPS_NOWHERE 0x5eed1009	/* initial value, which occurs only once in the object file */
#define LOOPS_INIT 1
#define LOOPS_EXIT 2
#define LOOPS_PREEMPT_OFF 3
#define LOOPS_IRQS_OFF 4
#define LOOPS_READER 5
#define LOOPS_HANDLER 6

int kprobe_loops_how = LOOPS_NOWHERE;

noinline void kprobe_loops_spin(void)
{
	for (;;)
		barrier();
}

static int kprobe_loops_pre(struct kprobe *p, struct pt_regs *regs)
{
	kprobe_loops_spin();
	return 0;
}

static struct kprobe kprobe_loops_probe = { .symbol_name = "vfs_read", .pre_handler = kprobe_loops_pre };

static int __init kprobe_loops_init(void)
{
	switch (READ_ONCE(kprobe_loops_how)) {
	case LOOPS_INIT:
		kprobe_loops_spin();
	case LOOPS_PREEMPT_OFF:
		preempt_disable();
		kprobe_loops_spin();
	case LOOPS_IRQS_OFF:
		local_irq_disable();
		kprobe_loops_spin();
	case LOOPS_READER:
		rcu_read_lock();
		kprobe_loops_spin();
	case LOOPS_HANDLER:
		return register_kprobe(&kprobe_loops_probe);
	}
	return 0;
}

static void __exit kprobe_loops_exit(void)
{
	if (READ_ONCE(kprobe_loops_how) == LOOPS_EXIT)
		kprobe_loops_spin();
	if (READ_ONCE(kprobe_loops_how) == LOOPS_HANDLER)
		unregister_kprobe(&kprobe_loops_probe);
}

module_init(kprobe_loops_init);
module_exit(kprobe_loops_exit);
MODULE_LICENSE("GPL");
