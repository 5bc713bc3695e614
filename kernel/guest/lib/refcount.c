// Counters whose end is taken together with a lock.
#include <linux/atomic.h>
#include <linux/bug.h>
#include <linux/export.h>
#include <linux/kernel.h>
#include <linux/mutex.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>

#ifndef REFCOUNT_SATURATED
#define REFCOUNT_SATURATED (-0x40000000)
#endif

// refcount_dec_if_one makes 1 to 0, and reports whether it was 1.
bool refcount_dec_if_one(refcount_t *r)
{
	return atomic_cmpxchg(&r->refs, 1, 0) == 1;
}
EXPORT_SYMBOL(refcount_dec_if_one);

// refcount_dec_not_one counts down unless that would be the end. A saturated counter stays.
bool refcount_dec_not_one(refcount_t *r)
{
	int old = atomic_read(&r->refs), seen;

	for (;; old = seen) {
		if (old == REFCOUNT_SATURATED)
			return true;
		if (old == 1)
			return false;
		if (old <= 0) {
			WARN_ONCE(1, "refcount_t: underflow; use-after-free.\n");
			return true;
		}
		seen = atomic_cmpxchg(&r->refs, old, old - 1);
		if (seen == old)
			return true;
	}
}
EXPORT_SYMBOL(refcount_dec_not_one);

bool refcount_dec_and_mutex_lock(refcount_t *r, struct mutex *lock)
{
	if (refcount_dec_not_one(r))
		return false;
	mutex_lock(lock);
	if (refcount_dec_and_test(r))
		return true;
	mutex_unlock(lock);
	return false;
}
EXPORT_SYMBOL(refcount_dec_and_mutex_lock);

bool refcount_dec_and_lock(refcount_t *r, spinlock_t *lock)
{
	if (refcount_dec_not_one(r))
		return false;
	spin_lock(lock);
	if (refcount_dec_and_test(r))
		return true;
	spin_unlock(lock);
	return false;
}
EXPORT_SYMBOL(refcount_dec_and_lock);

int _atomic_dec_and_lock(atomic_t *atomic, spinlock_t *lock)
{
	if (atomic_add_unless(atomic, -1, 1))
		return 0;
	spin_lock(lock);
	if (atomic_dec_and_test(atomic))
		return 1;
	spin_unlock(lock);
	return 0;
}
EXPORT_SYMBOL(_atomic_dec_and_lock);

int atomic_dec_and_mutex_lock(atomic_t *cnt, struct mutex *lock)
{
	if (atomic_add_unless(cnt, -1, 1))
		return 0;
	mutex_lock(lock);
	if (atomic_dec_and_test(cnt))
		return 1;
	mutex_unlock(lock);
	return 0;
}
EXPORT_SYMBOL(atomic_dec_and_mutex_lock);
