/* delay.h: waiting, busy or asleep. */
#ifndef _LINUX_DELAY_H
#define _LINUX_DELAY_H
#include <linux/timer.h>
void __udelay(unsigned long usecs);
void __ndelay(unsigned long nsecs);
void __const_udelay(unsigned long xloops);
#define udelay(n) __udelay(n)
#define ndelay(n) __ndelay(n)
#define mdelay(n) ({ unsigned long __ms = (n); while (__ms--) udelay(1000); })
unsigned long msleep_interruptible(unsigned int msecs);
void usleep_range_state(unsigned long min, unsigned long max, unsigned int state);
#define usleep_range(min, max) usleep_range_state(min, max, 2)
#define fsleep(usecs) usleep_range(usecs, 2 * (usecs))
static inline void ssleep(unsigned int seconds) { msleep(seconds * 1000); }
#endif
