/* entry/common.c: the end of a breakpoint's exception. */
#include <linux/sched.h>
#include <asm/traps.h>

#if !defined(KERNEL_2_6) && !defined(KERNEL_4_15)
/*
 * The machine handles a probe's int3 without coming here, except when a handler has
 * slept: schedule() has set the preempt_count anew, so that the NMI that the breakpoint
 * counts as is not in it any more.
 */
noinstr void irqentry_nmi_exit(struct pt_regs *regs)
{
#if GUEST_LINUX >= 601 && GUEST_LINUX < 612
#line 490 "kernel/entry/common.c" /* 6.1 has its BUG in line 491 */
#endif
	BUG();
}
#endif
