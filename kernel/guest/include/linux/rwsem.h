/* rwsem.h: sleeping locks for many readers or one writer. */
#ifndef _LINUX_RWSEM_H
#define _LINUX_RWSEM_H
#include <linux/mutex.h>
struct rw_semaphore {
	atomic_long_t count;	/* readers, or -1 for a writer */
	atomic_long_t owner;
	struct optimistic_spin_queue osq;
	raw_spinlock_t wait_lock;
	struct list_head wait_list;
};
static_assert(sizeof(struct rw_semaphore) == 40, "struct rw_semaphore");
#define __RWSEM_INITIALIZER(n) { .wait_lock = __RAW_SPIN_LOCK_UNLOCKED, .wait_list = LIST_HEAD_INIT((n).wait_list) }
#define DECLARE_RWSEM(n) struct rw_semaphore n = __RWSEM_INITIALIZER(n)
void __init_rwsem(struct rw_semaphore *sem, const char *name, struct lock_class_key *key);
#define init_rwsem(s) do { static struct lock_class_key __key; __init_rwsem((s), #s, &__key); } while (0)
void down_read(struct rw_semaphore *sem);
int down_read_killable(struct rw_semaphore *sem);
int down_read_trylock(struct rw_semaphore *sem);
void down_write(struct rw_semaphore *sem);
int down_write_killable(struct rw_semaphore *sem);
int down_write_trylock(struct rw_semaphore *sem);
void up_read(struct rw_semaphore *sem);
void up_write(struct rw_semaphore *sem);
#define down_read_nested(s, c) down_read(s)
#define down_write_nested(s, c) down_write(s)
int down_read_interruptible(struct rw_semaphore *sem);
void downgrade_write(struct rw_semaphore *sem);
#endif
