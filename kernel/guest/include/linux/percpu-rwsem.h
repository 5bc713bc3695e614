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

#endif
