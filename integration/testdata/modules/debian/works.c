// SPDX-License-Identifier: MIT
/* works queues work: on the system's queues, on one of its own, and later. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/completion.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/workqueue.h>

static DEFINE_PER_CPU(int, runs);
static struct workqueue_struct *queue;
static atomic_t done = ATOMIC_INIT(0);

static void work(struct work_struct *w)
{
	this_cpu_inc(runs);
	atomic_inc(&done);
}

static void later(struct work_struct *w)
{
	struct delayed_work *d = to_delayed_work(w);

	pr_info("delayed work, pending %d, may sleep %d\n", delayed_work_pending(d), !in_atomic());
}

static DECLARE_WORK(one, work);
static DECLARE_WORK(two, work);
static DECLARE_DELAYED_WORK(delayed, later);

static int total(void)
{
	int cpu, n = 0;

	for_each_possible_cpu(cpu)
		n += per_cpu(runs, cpu);
	return n;
}

static int __init works_init(void)
{
	queue = alloc_workqueue("works_queue", 0, 0);
	if (!queue)
		return -ENOMEM;
	pr_info("queued %d\n", schedule_work(&one));
	flush_work(&one);
	pr_info("queued %d\n", queue_work(queue, &two));
	flush_workqueue(queue);
	pr_info("done %d, counted %d\n", atomic_read(&done), total());
	pr_info("delayed %d\n", queue_delayed_work(queue, &delayed, HZ));
	flush_delayed_work(&delayed);
	pr_info("delayed %d\n", schedule_delayed_work(&delayed, 1000 * HZ));
	pr_info("cancelled %d\n", cancel_delayed_work_sync(&delayed));
	pr_info("on %d\n", schedule_work_on(0, &one));
	flush_work(&one);
	pr_info("CPU 0 has at least one: %d\n", per_cpu(runs, 0) > 0);
	return 0;
}

static void __exit works_exit(void)
{
	cancel_work_sync(&one);
	destroy_workqueue(queue);
	pr_info("done %d\n", atomic_read(&done));
}

module_init(works_init);
module_exit(works_exit);
MODULE_LICENSE("Dual MIT/GPL");
