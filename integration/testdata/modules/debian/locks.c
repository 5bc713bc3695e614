// SPDX-License-Identifier: MIT
/* locks uses each kind of lock, notifier chains, calls on all CPUs, and memory that RCU frees. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/notifier.h>
#include <linux/ratelimit.h>
#include <linux/rcupdate.h>
#include <linux/rwsem.h>
#include <linux/semaphore.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/spinlock.h>

struct object {
	int n;
	struct rcu_head rcu;
};

static DEFINE_SEMAPHORE(sem);
static DEFINE_RWLOCK(rw);
static DECLARE_RWSEM(rwsem);
static DEFINE_SPINLOCK(spin);
static DEFINE_MUTEX(mutex);
static ATOMIC_NOTIFIER_HEAD(atomic_chain);
static BLOCKING_NOTIFIER_HEAD(blocking_chain);
static DECLARE_COMPLETION(freed);
static atomic_t calls = ATOMIC_INIT(0);

static int waiter(void *data)
{
	int err = down_interruptible(&sem);

	pr_info("waiter has the semaphore: %d\n", err);
	up(&sem);
	complete(data);
	return 0;
}

static void semaphores(void)
{
	DECLARE_COMPLETION_ONSTACK(done);
	struct task_struct *t;

	down(&sem);
	pr_info("taken again: %d, with a limit: %d\n", down_trylock(&sem), down_timeout(&sem, 2));
	t = kthread_run(waiter, &done, "locks_waiter");
	if (IS_ERR(t))
		return;
	msleep(20);
	pr_info("waiter waits: %d\n", !completion_done(&done));
	up(&sem);
	pr_info("waiter ended: %d\n", wait_for_completion_killable_timeout(&done, 10 * HZ) > 0);
	pr_info("free: %d\n", down_trylock(&sem));
	up(&sem);
}

static void spinning(void)
{
	unsigned long flags;

	write_lock_irqsave(&rw, flags);
	pr_info("write: interrupts off %d\n", irqs_disabled());
	write_unlock_irqrestore(&rw, flags);
	read_lock_bh(&rw);
	read_lock(&rw);
	pr_info("two readers: softirqs off %d\n", in_softirq() != 0);
	read_unlock(&rw);
	read_unlock_bh(&rw);
	spin_lock_bh(&spin);
	pr_info("trylock of a taken lock %d\n", spin_trylock(&spin));
	spin_unlock_bh(&spin);
	pr_info("trylock of a free lock %d\n", spin_trylock_bh(&spin));
	spin_unlock_bh(&spin);
	pr_info("interrupts off %d, softirqs off %d\n", irqs_disabled(), in_softirq() != 0);
}

static void sleeping(void)
{
	down_read(&rwsem);
	pr_info("read again %d, write %d\n", down_read_trylock(&rwsem), down_write_trylock(&rwsem));
	up_read(&rwsem);
	up_read(&rwsem);
	pr_info("write %d\n", down_write_trylock(&rwsem));
	up_write(&rwsem);
	mutex_lock(&mutex);
	pr_info("mutex taken again %d\n", mutex_trylock(&mutex));
	mutex_unlock(&mutex);
	pr_info("interruptible %d\n", mutex_lock_interruptible(&mutex));
	mutex_unlock(&mutex);
}

static int first(struct notifier_block *nb, unsigned long action, void *data)
{
	pr_info("first: %lu '%s'\n", action, (char *)data);
	return NOTIFY_OK;
}

static int second(struct notifier_block *nb, unsigned long action, void *data)
{
	pr_info("second: %lu\n", action);
	return action == 2 ? NOTIFY_BAD : NOTIFY_DONE;
}

static struct notifier_block blocks[] = {
	{ .notifier_call = first, .priority = 1 },
	{ .notifier_call = second, .priority = 2 },
	{ .notifier_call = first },
};

static void notifiers(void)
{
	int i;

	for (i = 0; i < 2; i++)
		pr_info("register %d\n", atomic_notifier_chain_register(&atomic_chain, &blocks[i]));
	pr_info("call 1: %#x\n", atomic_notifier_call_chain(&atomic_chain, 1, "one"));
	pr_info("call 2: %#x\n", atomic_notifier_call_chain(&atomic_chain, 2, "two"));
	pr_info("unregister %d\n", atomic_notifier_chain_unregister(&atomic_chain, &blocks[1]));
	pr_info("unregister again %d\n", atomic_notifier_chain_unregister(&atomic_chain, &blocks[1]));
	pr_info("call 2: %#x\n", atomic_notifier_call_chain(&atomic_chain, 2, "two"));
	blocking_notifier_chain_register(&blocking_chain, &blocks[2]);
	pr_info("blocking: %#x\n", blocking_notifier_call_chain(&blocking_chain, 3, "three"));
	blocking_notifier_chain_unregister(&blocking_chain, &blocks[2]);
}

static void on_cpu(void *info)
{
	atomic_add(irqs_disabled() ? 1 : 100, info);
}

static bool not_first(int cpu, void *info)
{
	return cpu != 0;
}

static void cpus(void)
{
	on_each_cpu(on_cpu, &calls, 1);
	pr_info("each CPU %d\n", atomic_xchg(&calls, 0) == num_online_cpus());
	preempt_disable();
	smp_call_function(on_cpu, &calls, 1);
	preempt_enable();
	pr_info("the others %d\n", atomic_xchg(&calls, 0) == num_online_cpus() - 1);
	on_each_cpu_cond(not_first, on_cpu, &calls, 1);
	pr_info("all but CPU 0 %d\n", atomic_xchg(&calls, 0) == num_online_cpus() - 1);
	pr_info("CPU 0 %d\n", smp_call_function_single(0, on_cpu, &calls, 1));
	pr_info("%d\n", atomic_xchg(&calls, 0));
}

static void after_rcu(struct rcu_head *head)
{
	struct object *o = container_of(head, struct object, rcu);

	pr_info("object %d after its readers\n", o->n);
	kfree(o);
	complete(&freed);
}

static void rcu(void)
{
	struct object *o = kmalloc(sizeof(*o), GFP_KERNEL), *p = kmalloc(sizeof(*p), GFP_KERNEL);

	if (!o || !p)
		return;
	o->n = 5;
	rcu_read_lock();
	call_rcu(&o->rcu, after_rcu);
	kfree_rcu(p, rcu);
	rcu_read_unlock();
	synchronize_rcu();
	pr_info("freed %d\n", wait_for_completion_interruptible_timeout(&freed, 10 * HZ) > 0);
	rcu_barrier();
}

static void times(void)
{
	static DEFINE_RATELIMIT_STATE(limit, 100 * HZ, 3);
	ktime_t start = ktime_get(), raw = ktime_get_raw();
	struct timespec64 ts;
	int i, may = 0;

	usleep_range(2000, 3000);
	pr_info("slept %d, raw %d\n", ktime_us_delta(ktime_get(), start) >= 2000, ktime_get_raw() > raw);
	ktime_get_ts64(&ts);
	pr_info("seconds %d, nanoseconds %d\n", ts.tv_sec == ktime_get_seconds() || ts.tv_sec + 1 == ktime_get_seconds(),
		ts.tv_nsec >= 0 && ts.tv_nsec < NSEC_PER_SEC);
	for (i = 0; i < 10; i++)
		may += __ratelimit(&limit);
	pr_info("%d of 10\n", may);
}

static int __init locks_init(void)
{
	semaphores();
	spinning();
	sleeping();
	notifiers();
	cpus();
	rcu();
	times();
	return 0;
}

static void __exit locks_exit(void)
{
}

module_init(locks_init);
module_exit(locks_exit);
MODULE_LICENSE("Dual MIT/GPL");
