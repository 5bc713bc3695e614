// rtmutex.h: locks of threads with real-time priorities. Here they are taken in the order of
// asking.
#ifndef _LINUX_RTMUTEX_H
#define _LINUX_RTMUTEX_H

#include <linux/mutex.h>
#include <linux/rbtree.h>
#include <linux/spinlock.h>

struct rt_mutex_base {
	raw_spinlock_t wait_lock;
	struct rb_root_cached waiters;
	struct task_struct *owner;
};

struct rt_mutex {
	struct rt_mutex_base rtmutex;
};
static_assert(sizeof(struct rt_mutex) == 32, "struct rt_mutex");

#define DEFINE_RT_MUTEX(name) struct rt_mutex name = { .rtmutex = { .wait_lock = __RAW_SPIN_LOCK_UNLOCKED } }
#define rt_mutex_init(lock) do { static struct lock_class_key __key; __rt_mutex_init(lock, __func__, &__key); } while (0)

void rt_mutex_base_init(struct rt_mutex_base *rtb);
void __rt_mutex_init(struct rt_mutex *lock, const char *name, struct lock_class_key *key);
void rt_mutex_lock(struct rt_mutex *lock);
int rt_mutex_lock_interruptible(struct rt_mutex *lock);
int rt_mutex_lock_killable(struct rt_mutex *lock);
int rt_mutex_trylock(struct rt_mutex *lock);
void rt_mutex_unlock(struct rt_mutex *lock);

#endif
