/* dump_stack.c: logs the current task and its stack trace. */
#include <linux/kernel.h>
#include <linux/export.h>
#include <linux/printk.h>
#include <asm/host.h>

/* The machine unwinds from here. */
noinline void dump_stack(void)
{
	hypercall0(HC_STACK);
}
EXPORT_SYMBOL(dump_stack);
