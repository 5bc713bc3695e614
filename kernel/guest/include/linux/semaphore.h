/* semaphore.h: counting semaphores. */
#ifndef _LINUX_SEMAPHORE_H
#define _LINUX_SEMAPHORE_H
#include <linux/list.h>
#include <linux/spinlock.h>
struct semaphore {
	raw_spinlock_t lock;
	unsigned int count;
	struct list_head wait_list;
};
static_assert(sizeof(struct semaphore) == 24, "struct semaphore");
#define __SEMAPHORE_INITIALIZER(name, n) \
	{ .lock = __RAW_SPIN_LOCK_UNLOCKED, .count = (n), .wait_list = LIST_HEAD_INIT((name).wait_list) }
#define DEFINE_SEMAPHORE(name)	struct semaphore name = __SEMAPHORE_INITIALIZER(name, 1)
static inline void sema_init(struct semaphore *sem, int val) { *sem = (struct semaphore)__SEMAPHORE_INITIALIZER(*sem, val); }
void down(struct semaphore *sem);
int down_interruptible(struct semaphore *sem);
int down_killable(struct semaphore *sem);
int down_trylock(struct semaphore *sem);
int down_timeout(struct semaphore *sem, long jiffies);
void up(struct semaphore *sem);
#endif
