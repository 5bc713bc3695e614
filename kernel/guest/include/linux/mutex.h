/* mutex.h: sleeping locks with an owner. */
#ifndef _LINUX_MUTEX_H
#define _LINUX_MUTEX_H
#include <linux/spinlock.h>
#include <linux/list.h>
struct optimistic_spin_queue { atomic_t tail; };
struct mutex {
	atomic_long_t owner;	/* task_struct, low bit: waiters exist */
	raw_spinlock_t wait_lock;
	struct optimistic_spin_queue osq;
	struct list_head wait_list;
};
static_assert(sizeof(struct mutex) == 32, "struct mutex");
#define __MUTEX_INITIALIZER(n) { .owner = ATOMIC_LONG_INIT(0), \
	.wait_lock = __RAW_SPIN_LOCK_UNLOCKED, .wait_list = LIST_HEAD_INIT(n.wait_list) }
#define DEFINE_MUTEX(n) struct mutex n = __MUTEX_INITIALIZER(n)
void __mutex_init(struct mutex *lock, const char *name, struct lock_class_key *key);
#define mutex_init(m) do { static struct lock_class_key __key; __mutex_init((m), #m, &__key); } while (0)
void mutex_lock(struct mutex *lock);
int mutex_lock_interruptible(struct mutex *lock);
int mutex_lock_killable(struct mutex *lock);
int mutex_trylock(struct mutex *lock);
void mutex_unlock(struct mutex *lock);
bool mutex_is_locked(struct mutex *lock);
#define mutex_lock_nested(m, c) mutex_lock(m)
#endif
