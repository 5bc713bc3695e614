/* dump_stack.c: logs the current task and its stack trace. */
#include <linux/kernel.h>
#include <linux/export.h>
#include <linux/printk.h>
#include <asm/host.h>

/* The machine unwinds from here. Up to 5.10 the function that traces show is dump_stack. */
#if defined(KERNEL_2_6) || defined(KERNEL_4_15) || GUEST_LINUX < 601
noinline void dump_stack(void)
{
	hypercall0(HC_STACK);
}
#else

noinline void dump_stack_lvl(const char *log_lvl)
{
	hypercall0(HC_STACK);
}
EXPORT_SYMBOL(dump_stack_lvl);

void dump_stack(void)
{
	dump_stack_lvl(KERN_DEFAULT);
}
#endif
EXPORT_SYMBOL(dump_stack);
