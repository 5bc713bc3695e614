// percpu-rwsem.h: locks for many readers, which count themselves on their CPU.
#ifndef _LINUX_PERCPU_RWSEM_H
#define _LINUX_PERCPU_RWSEM_H

#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/wait.h>

struct rcu_sync {
	int gp_state; // 0: readers need only count themselves
	int gp_count;
	wait_queue_head_t gp_wait;
	struct rcu_head cb_head;
};
static_assert(sizeof(struct rcu_sync) == 48, "struct rcu_sync");

struct rcuwait {
	struct task_struct *task;
};

struct percpu_rw_semaphore {
	struct rcu_sync rss;
	unsigned int *read_count;
	struct rcuwait writer;
	wait_queue_head_t waiters;
	atomic_t block;
};
static_assert(sizeof(struct percpu_rw_semaphore) == 96, "struct percpu_rw_semaphore");
static_assert(offsetof(struct percpu_rw_semaphore, block) == 88, "percpu_rw_semaphore.block");

int __percpu_init_rwsem(struct percpu_rw_semaphore *sem, const char *name, struct lock_class_key *key);
void percpu_free_rwsem(struct percpu_rw_semaphore *sem);
bool __percpu_down_read(struct percpu_rw_semaphore *sem, bool try);
void percpu_down_write(struct percpu_rw_semaphore *sem);
void percpu_up_write(struct percpu_rw_semaphore *sem);
int rcuwait_wake_up(struct rcuwait *w);

#define __RCU_SYNC_INITIALIZER(name) {.gp_wait = __WAIT_QUEUE_HEAD_INITIALIZER(name.gp_wait)}
#define __RCUWAIT_INITIALIZER(name) {}
#define __DEFINE_PERCPU_RWSEM(name, is_static)				\
static DEFINE_PER_CPU(unsigned int, __percpu_rwsem_rc_##name);		\
is_static struct percpu_rw_semaphore name = {				\
	.rss = __RCU_SYNC_INITIALIZER(name.rss),			\
	.read_count = &__percpu_rwsem_rc_##name,			\
	.writer = __RCUWAIT_INITIALIZER(name.writer),			\
	.waiters = __WAIT_QUEUE_HEAD_INITIALIZER(name.waiters),		\
}
#define DEFINE_PERCPU_RWSEM(name) __DEFINE_PERCPU_RWSEM(name, )
#define DEFINE_STATIC_PERCPU_RWSEM(name) __DEFINE_PERCPU_RWSEM(name, static)

#define percpu_init_rwsem(sem) ({			\
	static struct lock_class_key __rwsem_key;	\
	__percpu_init_rwsem(sem, #sem, &__rwsem_key);	\
})
#define percpu_rwsem_is_held(sem) 1
#define percpu_rwsem_assert_held(sem) do { (void)(sem); } while (0)

static inline bool rcu_sync_is_idle(struct rcu_sync *rsp) { return !READ_ONCE(rsp->gp_state); }

// __percpu_read counts a reader. While a writer is there, __percpu_down_read does it, which
// waits or fails.
static inline bool __percpu_read(struct percpu_rw_semaphore *sem, bool try)
{
	bool got = true;

	preempt_disable();
	if (rcu_sync_is_idle(&sem->rss))
		this_cpu_inc(*sem->read_count);
	else
		got = __percpu_down_read(sem, try);
	preempt_enable();
	return got;
}

static inline bool percpu_down_read_trylock(struct percpu_rw_semaphore *sem) { return __percpu_read(sem, true); }

static inline void percpu_down_read(struct percpu_rw_semaphore *sem)
{
	might_sleep();
	__percpu_read(sem, false);
}

// percpu_up_read tells a writer, who may wait for the last reader.
static inline void percpu_up_read(struct percpu_rw_semaphore *sem)
{
	bool alone;

	preempt_disable();
	alone = rcu_sync_is_idle(&sem->rss);
	if (!alone)
		smp_mb();
	this_cpu_add(*sem->read_count, -1);
	if (!alone)
		rcuwait_wake_up(&sem->writer);
	preempt_enable();
}

static inline bool percpu_is_write_locked(struct percpu_rw_semaphore *sem) { return atomic_read(&sem->block); }

// There is no lockdep, which these tell.
static inline void percpu_rwsem_release(struct percpu_rw_semaphore *sem, bool read, unsigned long ip) { }
static inline void percpu_rwsem_acquire(struct percpu_rw_semaphore *sem, bool read, unsigned long ip) { }

#endif
