/* delay.c: waiting without sleeping. */
#include <linux/irqflags.h>
#include <linux/kernel.h>
#include <linux/ktime.h>
#include <linux/timekeeping.h>

static void delay_ns(u64 ns)
{
	u64 end = ktime_get() + ns;

	while (ktime_get() < end)
		cpu_relax();
}

/* In units of 2^-32 s; callers have multiplied their constants. */
void __const_udelay(unsigned long xloops)
{
	delay_ns(((xloops >> 16) * 1000000000UL) >> 16);
}
EXPORT_SYMBOL(__const_udelay);

void __udelay(unsigned long usecs)
{
	delay_ns(usecs * 1000);
}
EXPORT_SYMBOL(__udelay);

void __ndelay(unsigned long nsecs)
{
	delay_ns(nsecs);
}
EXPORT_SYMBOL(__ndelay);
