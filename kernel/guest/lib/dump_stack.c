/* dump_stack.c: who is running, and how it came there, for the log. */
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
