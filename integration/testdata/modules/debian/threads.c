// SPDX-License-Identifier: MIT
/* threads starts a kernel thread, talks to it and stops it. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/wait.h>

struct message {
	struct list_head list;
	int n;
};

static LIST_HEAD(box);
static DEFINE_SPINLOCK(box_lock);
static DECLARE_WAIT_QUEUE_HEAD(filled);
static DECLARE_WAIT_QUEUE_HEAD(emptied);
static DEFINE_MUTEX(sum_lock);
static int sum, taken;
static struct task_struct *worker;

static struct message *take(void)
{
	struct message *m;
	unsigned long flags;

	spin_lock_irqsave(&box_lock, flags);
	m = list_first_entry_or_null(&box, struct message, list);
	if (m)
		list_del(&m->list);
	spin_unlock_irqrestore(&box_lock, flags);
	return m;
}

static int work(void *data)
{
	struct message *m;

	pr_info("%s runs with '%s'\n", current->comm, (char *)data);
	while (!kthread_should_stop()) {
		wait_event_interruptible(filled, !list_empty(&box) || kthread_should_stop());
		while ((m = take())) {
			mutex_lock(&sum_lock);
			sum += m->n;
			mutex_unlock(&sum_lock);
			kfree(m);
			WRITE_ONCE(taken, taken + 1);
			wake_up(&emptied);
		}
	}
	return 42;
}

static int send(int n)
{
	struct message *m = kmalloc(sizeof(*m), GFP_KERNEL);

	if (!m)
		return -ENOMEM;
	m->n = n;
	spin_lock_irq(&box_lock);
	list_add_tail(&m->list, &box);
	spin_unlock_irq(&box_lock);
	wake_up_interruptible(&filled);
	return 0;
}

static int __init threads_init(void)
{
	int i, err = 0;

	worker = kthread_run(work, "its data", "threads/%d", 1);
	if (IS_ERR(worker))
		return PTR_ERR(worker);
	for (i = 1; i <= 10 && !err; i++)
		err = send(i);
	if (err)
		pr_info("send: %d\n", err);
	wait_event(emptied, READ_ONCE(taken) == 10);
	mutex_lock(&sum_lock);
	pr_info("sum %d, locked %d\n", sum, mutex_is_locked(&sum_lock));
	mutex_unlock(&sum_lock);
	msleep(20);
	pr_info("thread is asleep %d\n", task_is_running(worker) == 0);
	return 0;
}

static void __exit threads_exit(void)
{
	pr_info("stopped with %d\n", kthread_stop(worker));
}

module_init(threads_init);
module_exit(threads_exit);
MODULE_LICENSE("Dual MIT/GPL");
