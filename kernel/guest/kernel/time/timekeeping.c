/* timekeeping.c: clocks, derived from the machine's nanoseconds since boot, and
 * conversions of units. */
#include <linux/ktime.h>
#include <linux/export.h>
#include <linux/kernel.h>
#include <linux/sched.h>
#include <linux/syscalls.h>
#include <linux/uaccess.h>
#include <asm/host.h>

unsigned long volatile jiffies __aligned(64) = INITIAL_JIFFIES;
EXPORT_SYMBOL(jiffies);
static s64 tk_offs_boot;

ktime_t ktime_get(void)
{
	return hypercall0(HC_CLOCK);
}
EXPORT_SYMBOL(ktime_get);

/* Which of the two takes no probe, and which has no fentry site, differs. */
#if GUEST_LINUX >= 612
#define __sched_clock notrace
#define __local_clock
#elif GUEST_LINUX < 601
#define __sched_clock notrace
#define __local_clock notrace
#else
#define __sched_clock noinstr
#define __local_clock notrace
#endif

__sched_clock u64 sched_clock(void)
{
	return hypercall0(HC_CLOCK);
}
EXPORT_SYMBOL(sched_clock);

__local_clock u64 local_clock(void)
{
	return sched_clock();
}

notrace u64 ktime_get_real_ns(void)
{
	return hypercall0(HC_WALL_CLOCK);
}

ktime_t ktime_get_with_offset(int offs)
{
	return offs == 0 ? (ktime_t)ktime_get_real_ns() : ktime_get() + tk_offs_boot;
}
EXPORT_SYMBOL(ktime_get_with_offset);

noinline time64_t ktime_get_real_seconds(void)
{
	return ktime_get_real_ns() / NSEC_PER_SEC;
}
EXPORT_SYMBOL(ktime_get_real_seconds);

void ktime_get_real_ts64(struct timespec64 *ts)
{
	*ts = ns_to_timespec64(ktime_get_real_ns());
}
EXPORT_SYMBOL(ktime_get_real_ts64);

void ktime_get_coarse_real_ts64(struct timespec64 *ts)
{
	ktime_get_real_ts64(ts);
}
EXPORT_SYMBOL(ktime_get_coarse_real_ts64);

/* Rounds down, so that tv_nsec is never negative. */
noinline struct timespec64 ns_to_timespec64(s64 nsec)
{
	struct timespec64 ts = { nsec / NSEC_PER_SEC, nsec % NSEC_PER_SEC };

	if (ts.tv_nsec < 0) {
		ts.tv_sec--;
		ts.tv_nsec += NSEC_PER_SEC;
	}
	return ts;
}
EXPORT_SYMBOL(ns_to_timespec64);

void set_normalized_timespec64(struct timespec64 *ts, time64_t sec, s64 nsec)
{
	struct timespec64 t = ns_to_timespec64(nsec);

	ts->tv_sec = sec + t.tv_sec;
	ts->tv_nsec = t.tv_nsec;
}
EXPORT_SYMBOL(set_normalized_timespec64);

struct timespec64 timespec64_add_safe(const struct timespec64 lhs, const struct timespec64 rhs)
{
	struct timespec64 res;

	set_normalized_timespec64(&res, lhs.tv_sec + rhs.tv_sec, lhs.tv_nsec + rhs.tv_nsec);
	if (res.tv_sec < lhs.tv_sec || res.tv_sec < rhs.tv_sec) {
		res.tv_sec = S64_MAX;
		res.tv_nsec = 0;
	}
	return res;
}

unsigned int jiffies_to_msecs(const unsigned long j)
{
	return (MSEC_PER_SEC / HZ) * j;
}
EXPORT_SYMBOL(jiffies_to_msecs);

unsigned int jiffies_to_usecs(const unsigned long j)
{
	return (USEC_PER_SEC / HZ) * j;
}
EXPORT_SYMBOL(jiffies_to_usecs);

/* Rounds up. A negative number of milliseconds means forever. */
unsigned long __msecs_to_jiffies(const unsigned int m)
{
	if ((int)m < 0)
		return MAX_JIFFY_OFFSET;
	return (m + (MSEC_PER_SEC / HZ) - 1) / (MSEC_PER_SEC / HZ);
}
EXPORT_SYMBOL(__msecs_to_jiffies);

unsigned long __usecs_to_jiffies(const unsigned int u)
{
	return (u + (USEC_PER_SEC / HZ) - 1) / (USEC_PER_SEC / HZ);
}
EXPORT_SYMBOL(__usecs_to_jiffies);

unsigned long timespec64_to_jiffies(const struct timespec64 *value)
{
	u64 sec = value->tv_sec;

	if (sec >= MAX_JIFFY_OFFSET / HZ)
		return MAX_JIFFY_OFFSET;
	return sec * HZ + (value->tv_nsec + TICK_NSEC - 1) / TICK_NSEC;
}
EXPORT_SYMBOL(timespec64_to_jiffies);

void jiffies_to_timespec64(const unsigned long j, struct timespec64 *value)
{
	value->tv_sec = j / HZ;
	value->tv_nsec = (j % HZ) * TICK_NSEC;
}
EXPORT_SYMBOL(jiffies_to_timespec64);

u64 nsecs_to_jiffies64(u64 n)
{
	return n / TICK_NSEC;
}
EXPORT_SYMBOL(nsecs_to_jiffies64);

unsigned long nsecs_to_jiffies(u64 n)
{
	return nsecs_to_jiffies64(n);
}
EXPORT_SYMBOL(nsecs_to_jiffies);

/* Ticks of user space: a hundredth of a second. */
notrace_since_6_1 u64 jiffies_64_to_clock_t(u64 x)
{
	return x * 100 / HZ;
}
EXPORT_SYMBOL(jiffies_64_to_clock_t);

unsigned long clock_t_to_jiffies(unsigned long x)
{
	if (x >= ~0UL / (HZ / 100))
		return ~0UL;
	return x * HZ / 100;
}
EXPORT_SYMBOL(clock_t_to_jiffies);

u64 nsec_to_clock_t(u64 x)
{
	return x / (NSEC_PER_SEC / 100);
}

/* Rounds j to a full second, so that timers expire together, with an offset for each
 * CPU. */
unsigned long round_jiffies(unsigned long j)
{
	unsigned long original = j;
	int rem;

	j += smp_processor_id() * 3;
	rem = j % HZ;
	j = rem < HZ / 4 ? j - rem : j - rem + HZ;
	j -= smp_processor_id() * 3;
	return time_after(j, jiffies) ? j : original;
}
EXPORT_SYMBOL(round_jiffies);

SYSCALL_DEFINE1(time, time64_t __user *, tloc)
{
	time64_t i = ktime_get_real_seconds();

	if (tloc && put_user(i, tloc))
		return -EFAULT;
	return i;
}

SYSCALL_DEFINE2(clock_gettime, clockid_t, which_clock, struct timespec64 __user *, tp)
{
	struct timespec64 ts;

	if (which_clock == 0)
		ktime_get_real_ts64(&ts);
	else if (which_clock == 1 || which_clock == 7)
		ts = ns_to_timespec64(ktime_get());
	else
		return -EINVAL;
	return copy_to_user(tp, &ts, sizeof(ts)) ? -EFAULT : 0;
}

/* The machine's clock is never adjusted: raw time is monotonic time, and coarse time is exact. */
ktime_t ktime_get_raw(void)
{
	return ktime_get();
}
EXPORT_SYMBOL_GPL(ktime_get_raw);

void ktime_get_ts64(struct timespec64 *ts)
{
	*ts = ns_to_timespec64(ktime_get());
}
EXPORT_SYMBOL_GPL(ktime_get_ts64);

void ktime_get_raw_ts64(struct timespec64 *ts)
{
	ktime_get_ts64(ts);
}
EXPORT_SYMBOL(ktime_get_raw_ts64);

void ktime_get_coarse_ts64(struct timespec64 *ts)
{
	ktime_get_ts64(ts);
}
EXPORT_SYMBOL(ktime_get_coarse_ts64);

time64_t ktime_get_seconds(void)
{
	return ktime_get() / NSEC_PER_SEC;
}
EXPORT_SYMBOL_GPL(ktime_get_seconds);

u64 notrace_since_6_1 ktime_get_mono_fast_ns(void)
{
	return hypercall0(HC_CLOCK);
}
EXPORT_SYMBOL_GPL(ktime_get_mono_fast_ns);

u64 notrace ktime_get_boot_fast_ns(void)
{
	return hypercall0(HC_CLOCK) + tk_offs_boot;
}
EXPORT_SYMBOL_GPL(ktime_get_boot_fast_ns);

u64 notrace_since_6_1 ktime_get_raw_fast_ns(void)
{
	return hypercall0(HC_CLOCK);
}
EXPORT_SYMBOL_GPL(ktime_get_raw_fast_ns);

u64 ktime_get_real_fast_ns(void)
{
	return hypercall0(HC_WALL_CLOCK);
}
EXPORT_SYMBOL_GPL(ktime_get_real_fast_ns);

ktime_t ktime_get_coarse_with_offset(int offs)
{
	return ktime_get_with_offset(offs);
}
EXPORT_SYMBOL_GPL(ktime_get_coarse_with_offset);

void getboottime64(struct timespec64 *ts)
{
	*ts = ns_to_timespec64(ktime_get_real_ns() - (ktime_get() + tk_offs_boot));
}
EXPORT_SYMBOL_GPL(getboottime64);

clock_t jiffies_to_clock_t(unsigned long x)
{
	return x * 100 / HZ;
}
EXPORT_SYMBOL(jiffies_to_clock_t);

/* The same variable: both have 64 bits. */
#undef jiffies_64
extern unsigned long volatile jiffies_64 __attribute__((alias("jiffies")));
EXPORT_SYMBOL(jiffies_64);
