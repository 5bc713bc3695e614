// SPDX-License-Identifier: MIT
/* turns: bits and variables that are waited for, locks that change hands, counters that end
 * under a lock, and objects in bulk. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/parser.h>
#include <linux/percpu.h>
#include <linux/refcount.h>
#include <linux/rwsem.h>
#include <linux/sched/loadavg.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/timer.h>
#include <linux/wait_bit.h>

static unsigned long word;
static int variable;
static DECLARE_RWSEM(sem);
static DEFINE_RWLOCK(rw);
static DEFINE_MUTEX(mutex);
static DEFINE_SPINLOCK(spin);

static int waker(void *data)
{
	msleep(50);
	clear_and_wake_up_bit(3, &word);
	msleep(50);
	WRITE_ONCE(variable, 1);
	wake_up_var(&variable);
	return 0;
}

static void bits(void)
{
	int ret;

	word = BIT(3) | BIT(5);
	pr_info("clear %d\n", wait_on_bit(&word, 4, TASK_UNINTERRUPTIBLE));
	kthread_run(waker, NULL, "turns");
	ret = wait_on_bit(&word, 3, TASK_UNINTERRUPTIBLE);
	pr_info("waited %d: %lx\n", ret, word);
	wait_var_event(&variable, READ_ONCE(variable));
	pr_info("variable %d\n", variable);
	ret = wait_on_bit_timeout(&word, 5, TASK_UNINTERRUPTIBLE, 5);
	pr_info("timeout %d: %lx\n", ret, word);
	ret = wait_on_bit_lock(&word, 1, TASK_UNINTERRUPTIBLE);
	pr_info("lock %d: %lx\n", ret, word);
}

static void locks(void)
{
	int a, b, c;

	down_write(&sem);
	a = down_read_trylock(&sem);
	downgrade_write(&sem);
	b = down_read_trylock(&sem);
	c = down_write_trylock(&sem);
	pr_info("writer %d, downgraded %d %d", a, b, c);
	up_read(&sem);
	up_read(&sem);
	pr_cont(", free %d", down_read_interruptible(&sem));
	up_read(&sem);
	a = down_write_trylock(&sem);
	pr_cont(" %d\n", a);
	up_write(&sem);
	a = read_trylock(&rw);
	b = read_trylock(&rw);
	c = write_trylock(&rw);
	pr_info("rwlock %d %d %d", a, b, c);
	read_unlock(&rw);
	read_unlock(&rw);
	a = write_trylock(&rw);
	b = read_trylock(&rw);
	pr_cont(", %d %d\n", a, b);
	write_unlock(&rw);
}

static void counters(void)
{
	refcount_t r = REFCOUNT_INIT(3);
	atomic_t n = ATOMIC_INIT(2);
	int a, b, c;

	a = refcount_dec_not_one(&r);
	b = refcount_dec_if_one(&r);
	c = refcount_dec_and_mutex_lock(&r, &mutex);
	pr_info("refcount %d %d %d: %u", a, b, c, refcount_read(&r));
	a = refcount_dec_not_one(&r);
	b = refcount_dec_and_lock(&r, &spin);
	pr_cont(", %d %d: %u, locked %d\n", a, b, refcount_read(&r), spin_is_locked(&spin));
	spin_unlock(&spin);
	refcount_set(&r, 1);
	a = refcount_dec_and_mutex_lock(&r, &mutex);
	pr_info("mutex %d %d\n", a, mutex_is_locked(&mutex));
	mutex_unlock(&mutex);
	a = atomic_dec_and_lock(&n, &spin);
	b = atomic_dec_and_mutex_lock(&n, &mutex);
	pr_info("atomic %d %d: %d\n", a, b, atomic_read(&n));
	mutex_unlock(&mutex);
}

static void objects(void)
{
	struct kmem_cache *cache = kmem_cache_create_usercopy("turns_objects", 48, 0, 0, 8, 16, NULL);
	int __percpu *each = alloc_percpu_gfp(int, GFP_KERNEL);
	void *p[5] = {};
	int n;

	n = kmem_cache_alloc_bulk(cache, GFP_KERNEL, 5, p);
	pr_info("bulk %d %d, shrink %d\n", n, p[0] && p[4] && p[0] != p[4], kmem_cache_shrink(cache));
	kmem_cache_free_bulk(cache, 5, p);
	kmem_cache_destroy(cache);
	pr_info("percpu %d\n", each && !*per_cpu_ptr(each, 1));
	free_percpu(each);
}

static void fire(struct timer_list *t)
{
}

static void timers(void)
{
	static struct timer_list t;
	int a, b;

	timer_setup(&t, fire, 0);
	a = timer_reduce(&t, jiffies + 1000);
	b = timer_reduce(&t, jiffies + 500);
	pr_info("reduce %d %d, earlier %d", a, b, time_before(t.expires, jiffies + 600));
	b = timer_reduce(&t, jiffies + 2000);
	pr_cont(", later %d %d\n", b, time_before(t.expires, jiffies + 600));
	a = timer_shutdown(&t);
	b = mod_timer(&t, jiffies + 1);
	pr_info("shutdown %d, then %d %d\n", a, b, timer_pending(&t));
}

static int killed(void *data)
{
	allow_signal(SIGUSR1);
	while (!signal_pending(current))
		schedule_timeout_interruptible(HZ);
	pr_info("killed\n");
	flush_signals(current);
	while (!kthread_should_stop())
		schedule_timeout_interruptible(1);
	return 0;
}

static int __init turns_init(void)
{
	struct task_struct *t;
	struct inode inode = { .i_size = 0 };
	struct file file = { .f_flags = 0 };
	int ret;

	bits();
	locks();
	counters();
	objects();
	timers();
	pr_info("wildcards %d %d %d %d %d\n", match_wildcard("a*c?", "abbcd"), match_wildcard("a*c", "abbcd"), match_wildcard("", ""),
		match_wildcard("**", "x"), match_wildcard("?", ""));
	t = kthread_run(killed, NULL, "turns_killed");
	msleep(50);
	ret = kill_pid(task_pid(t), SIGUSR1, 1);
	msleep(50);
	pr_info("kill %d, %d\n", ret, kthread_stop(t));
	pr_info("umask %o, open %d", current_umask(), generic_file_open(&inode, &file));
	inode.i_size = 1ll << 32;
	pr_cont(" %d", generic_file_open(&inode, &file));
	file.f_flags = O_LARGEFILE;
	pr_cont(" %d\n", generic_file_open(&inode, &file));
	pr_info("load %d\n", avenrun[0] >> FSHIFT < 1000);
	return 0;
}

static void __exit turns_exit(void)
{
}

module_init(turns_init);
module_exit(turns_exit);
MODULE_LICENSE("GPL");
