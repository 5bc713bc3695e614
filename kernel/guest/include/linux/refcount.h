#ifndef _LINUX_REFCOUNT_H
#define _LINUX_REFCOUNT_H
#include <linux/atomic.h>
#define REFCOUNT_INIT(n) { .refs = ATOMIC_INIT(n) }
void refcount_warn_saturate(refcount_t *r, int t);
static inline void refcount_set(refcount_t *r, int n) { atomic_set(&r->refs, n); }
static inline unsigned int refcount_read(const refcount_t *r) { return atomic_read(&r->refs); }
static inline void refcount_inc(refcount_t *r)
{
	if (unlikely(atomic_fetch_add(1, &r->refs) <= 0))
		refcount_warn_saturate(r, 1);
}
static inline bool refcount_inc_not_zero(refcount_t *r) { return atomic_inc_not_zero(&r->refs); }
static inline bool refcount_dec_and_test(refcount_t *r)
{
	int old = atomic_fetch_add(-1, &r->refs);
	if (unlikely(old <= 0))
		refcount_warn_saturate(r, 3);
	return old == 1;
}
#ifdef MODULE
#define REFCOUNT_MAX 0x7fffffff
#define REFCOUNT_SATURATED (-0x40000000)
static inline void refcount_dec(refcount_t *r)
{
	if (unlikely(atomic_fetch_add(-1, &r->refs) <= 1))
		refcount_warn_saturate(r, 4);
}
static inline void refcount_add(int i, refcount_t *r)
{
	if (unlikely(atomic_fetch_add(i, &r->refs) <= 0))
		refcount_warn_saturate(r, 1);
}
static inline bool refcount_sub_and_test(int i, refcount_t *r)
{
	int old = atomic_fetch_add(-i, &r->refs);

	if (unlikely(old < i))
		refcount_warn_saturate(r, 3);
	return old == i;
}
#endif
bool refcount_dec_if_one(refcount_t *r);
bool refcount_dec_not_one(refcount_t *r);
struct mutex;
struct spinlock;
bool refcount_dec_and_mutex_lock(refcount_t *r, struct mutex *lock);
#endif
