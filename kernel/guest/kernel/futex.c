// futex(2) of the host's programs: the host's kernel waits and wakes.
#include <linux/host.h>
#include <linux/ktime.h>
#include <linux/sched.h>
#include <linux/syscalls.h>
#include <linux/uaccess.h>

#define FUTEX_WAIT 0
#define FUTEX_WAKE 1
#define FUTEX_REQUEUE 3
#define FUTEX_CMP_REQUEUE 4
#define FUTEX_WAKE_OP 5
#define FUTEX_LOCK_PI 6
#define FUTEX_UNLOCK_PI 7
#define FUTEX_TRYLOCK_PI 8
#define FUTEX_WAIT_BITSET 9
#define FUTEX_WAKE_BITSET 10
#define FUTEX_WAIT_REQUEUE_PI 11
#define FUTEX_CMP_REQUEUE_PI 12
#define FUTEX_LOCK_PI2 13
#define FUTEX_PRIVATE_FLAG 128
#define FUTEX_CLOCK_REALTIME 256
#define FUTEX_BITSET_MATCH_ANY 0xffffffff
#define FLAGS_SHARED 1
#define FLAGS_CLOCKRT 2

// HOST_FUTEX defines a function whose work the host's kernel does.
#define HOST_FUTEX(name, ...)		\
static __noipa int name(__VA_ARGS__)	\
{					\
	return host_made();		\
}

#if GUEST_LINUX >= 612
HOST_FUTEX(__futex_wait, u32 __user *uaddr, unsigned int flags, u32 val, void *to, u32 bitset)

static __noipa int futex_wait(u32 __user *uaddr, unsigned int flags, u32 val, ktime_t *abs_time, u32 bitset)
{
	return __futex_wait(uaddr, flags, val, abs_time, bitset);
}
#else
HOST_FUTEX(futex_wait, u32 __user *uaddr, unsigned int flags, u32 val, ktime_t *abs_time, u32 bitset)
#endif
HOST_FUTEX(futex_wake, u32 __user *uaddr, unsigned int flags, int nr_wake, u32 bitset)
HOST_FUTEX(futex_requeue, u32 __user *uaddr1, unsigned int flags, u32 __user *uaddr2, int nr_wake, int nr_requeue, u32 *cmpval, int requeue_pi)
#if GUEST_LINUX < 601 /* it is inlined there */
#define futex_wake_op(...) host_made()
#else
HOST_FUTEX(futex_wake_op, u32 __user *uaddr1, unsigned int flags, u32 __user *uaddr2, int nr_wake, int nr_wake2, int op)
#endif
HOST_FUTEX(futex_lock_pi, u32 __user *uaddr, unsigned int flags, ktime_t *time, int trylock)
HOST_FUTEX(futex_unlock_pi, u32 __user *uaddr, unsigned int flags)
HOST_FUTEX(futex_wait_requeue_pi, u32 __user *uaddr, unsigned int flags, u32 val, ktime_t *abs_time, u32 bitset, u32 __user *uaddr2)

noinline __noclone long do_futex(u32 __user *uaddr, int op, u32 val, ktime_t *timeout, u32 __user *uaddr2, u32 val2, u32 val3)
{
	unsigned int flags = (op & FUTEX_PRIVATE_FLAG ? 0 : FLAGS_SHARED) | (op & FUTEX_CLOCK_REALTIME ? FLAGS_CLOCKRT : 0);

	switch (op & ~(FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME)) {
	case FUTEX_WAIT:
		val3 = FUTEX_BITSET_MATCH_ANY;
		fallthrough;
	case FUTEX_WAIT_BITSET:
		return futex_wait(uaddr, flags, val, timeout, val3);
	case FUTEX_WAKE:
		val3 = FUTEX_BITSET_MATCH_ANY;
		fallthrough;
	case FUTEX_WAKE_BITSET:
		return futex_wake(uaddr, flags, val, val3);
	case FUTEX_REQUEUE:
		return futex_requeue(uaddr, flags, uaddr2, val, val2, NULL, 0);
	case FUTEX_CMP_REQUEUE:
		return futex_requeue(uaddr, flags, uaddr2, val, val2, &val3, 0);
	case FUTEX_WAKE_OP:
		return futex_wake_op(uaddr, flags, uaddr2, val, val2, val3);
	case FUTEX_LOCK_PI:
	case FUTEX_LOCK_PI2:
		return futex_lock_pi(uaddr, flags, timeout, 0);
	case FUTEX_UNLOCK_PI:
		return futex_unlock_pi(uaddr, flags);
	case FUTEX_TRYLOCK_PI:
		return futex_lock_pi(uaddr, flags, NULL, 1);
	case FUTEX_WAIT_REQUEUE_PI:
		return futex_wait_requeue_pi(uaddr, flags, val, timeout, FUTEX_BITSET_MATCH_ANY, uaddr2);
	case FUTEX_CMP_REQUEUE_PI:
		return futex_requeue(uaddr, flags, uaddr2, val, val2, &val3, 1);
	}
	return -ENOSYS;
}

// has_timeout reports whether the fourth argument is a time.
static bool has_timeout(int op)
{
	switch (op & ~(FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME)) {
	case FUTEX_WAIT:
	case FUTEX_LOCK_PI:
	case FUTEX_LOCK_PI2:
	case FUTEX_WAIT_BITSET:
	case FUTEX_WAIT_REQUEUE_PI:
		return true;
	}
	return false;
}

SYSCALL_DEFINE6(futex, u32 __user *, uaddr, int, op, u32, val, const struct timespec64 __user *, utime, u32 __user *, uaddr2, u32, val3)
{
	ktime_t t, *tp = NULL;
	struct timespec64 ts;

	if (!host_mirrors())
		return -ENOSYS;
	if (utime && has_timeout(op)) {
		if (get_timespec64(&ts, utime))
			return -EFAULT;
		t = timespec64_to_ns(&ts);
		if ((op & ~FUTEX_PRIVATE_FLAG) == FUTEX_WAIT)
			t = ktime_get() + t;
		tp = &t;
	}
	return do_futex(uaddr, op, val, tp, uaddr2, (unsigned long)utime, val3);
}
