/* percpu_counter.h: counters of which each CPU has a part. */
#ifndef _LINUX_PERCPU_COUNTER_H
#define _LINUX_PERCPU_COUNTER_H
#include <linux/spinlock.h>
#include <linux/list.h>
#include <linux/percpu.h>
#include <linux/gfp.h>
struct percpu_counter {
	raw_spinlock_t lock;
	s64 count;
	struct list_head list;
	s32 *counters;
};
extern int percpu_counter_batch;
int __percpu_counter_init(struct percpu_counter *fbc, s64 amount, gfp_t gfp, struct lock_class_key *key);
#define percpu_counter_init(fbc, value, gfp) ({ static struct lock_class_key __key; __percpu_counter_init(fbc, value, gfp, &__key); })
void percpu_counter_destroy(struct percpu_counter *fbc);
void percpu_counter_set(struct percpu_counter *fbc, s64 amount);
void percpu_counter_add_batch(struct percpu_counter *fbc, s64 amount, s32 batch);
void percpu_counter_sync(struct percpu_counter *fbc);
s64 __percpu_counter_sum(struct percpu_counter *fbc);
int __percpu_counter_compare(struct percpu_counter *fbc, s64 rhs, s32 batch);
#define percpu_counter_add(fbc, n) percpu_counter_add_batch(fbc, n, percpu_counter_batch)
#define percpu_counter_sub(fbc, n) percpu_counter_add(fbc, -(n))
#define percpu_counter_inc(fbc) percpu_counter_add(fbc, 1)
#define percpu_counter_dec(fbc) percpu_counter_add(fbc, -1)
#define percpu_counter_sum(fbc) __percpu_counter_sum(fbc)
#define percpu_counter_compare(fbc, rhs) __percpu_counter_compare(fbc, rhs, percpu_counter_batch)
static inline s64 percpu_counter_read(struct percpu_counter *fbc) { return fbc->count; }
static inline bool percpu_counter_initialized(struct percpu_counter *fbc) { return fbc->counters != NULL; }
#endif
