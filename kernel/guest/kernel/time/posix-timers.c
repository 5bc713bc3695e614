/* posix-timers.c: clock_nanosleep(2). All clocks are CLOCK_MONOTONIC here. */
#include <linux/sched.h>
#include <linux/hrtimer.h>
#include <linux/uaccess.h>
#include <linux/syscalls.h>

#define TIMER_ABSTIME 1

static __always_inline int nsleep(const clockid_t which_clock, int flags, const struct timespec64 *rqtp)
{
	return hrtimer_nanosleep(timespec64_to_ns(rqtp), flags & TIMER_ABSTIME ? HRTIMER_MODE_ABS : HRTIMER_MODE_REL, which_clock);
}

static __noipa int common_nsleep(const clockid_t which_clock, int flags, const struct timespec64 *rqtp)
{
	return nsleep(which_clock, flags, rqtp);
}

/* For clocks that time namespaces shift. */
static __noipa int common_nsleep_timens(const clockid_t which_clock, int flags, const struct timespec64 *rqtp)
{
	return nsleep(which_clock, flags, rqtp);
}

SYSCALL_DEFINE4(clock_nanosleep, const clockid_t, which_clock, int, flags, const struct timespec64 __user *, rqtp,
		struct timespec64 __user *, rmtp)
{
	struct timespec64 t;

	if (which_clock != CLOCK_REALTIME && which_clock != CLOCK_MONOTONIC && which_clock != CLOCK_BOOTTIME)
		return -EINVAL;
	if (get_timespec64(&t, rqtp))
		return -EFAULT;
	if (!timespec64_valid(&t))
		return -EINVAL;
	if (which_clock == CLOCK_REALTIME)
		return common_nsleep(which_clock, flags, &t);
	return common_nsleep_timens(which_clock, flags, &t);
}
