// SPDX-License-Identifier: MIT
/* tasklets: functions in softirqs, and the work of a thread of its own. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/interrupt.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/slab.h>

static int runs, again;

static void callback(struct tasklet_struct *t)
{
	runs++;
	pr_info("tasklet: softirq %d, hardirq %d, data %ld, scheduled %d, runs %d\n", in_serving_softirq() != 0, in_hardirq() != 0,
		t->data, test_bit(TASKLET_STATE_SCHED, &t->state), test_bit(TASKLET_STATE_RUN, &t->state));
	if (again-- > 0)
		tasklet_schedule(t);
}

static void old(unsigned long data)
{
	pr_info("old tasklet: %lu, softirq %d\n", data, in_serving_softirq() != 0);
}

static DECLARE_TASKLET(declared, callback);
static DECLARE_TASKLET_DISABLED(disabled, callback);
static struct tasklet_struct with_data;

static void tasklets(void)
{
	local_bh_disable();
	tasklet_schedule(&declared);
	tasklet_schedule(&declared);
	pr_info("not yet: %d\n", runs);
	local_bh_enable();
	pr_info("ran: %d\n", runs);
	again = 2;
	tasklet_hi_schedule(&declared);
	tasklet_kill(&declared);
	while (again >= 0)
		msleep(1);
	tasklet_kill(&declared);
	pr_info("and again: %d\n", runs);
	tasklet_init(&with_data, old, 42);
	tasklet_schedule(&with_data);
	tasklet_kill(&with_data);
	tasklet_schedule(&disabled);
	msleep(20);
	pr_info("disabled: %d, scheduled %d\n", runs, test_bit(TASKLET_STATE_SCHED, &disabled.state));
	tasklet_enable(&disabled);
	msleep(20); /* tasklet_kill may mark it as scheduled while it runs */
	tasklet_kill(&disabled);
	pr_info("enabled: %d\n", runs);
	tasklet_disable(&disabled);
	tasklet_enable(&disabled);
}

struct job {
	struct kthread_work work;
	int number;
};

static DECLARE_COMPLETION(gate);
static atomic_t delayed_runs = ATOMIC_INIT(0);

static void job(struct kthread_work *work)
{
	struct job *j = container_of(work, struct job, work);

	pr_info("job %d in %s\n", j->number, current->comm);
	if (!j->number)
		wait_for_completion(&gate);
}

static void later(struct kthread_work *work)
{
	atomic_inc(&delayed_runs);
}

static void workers(void)
{
	struct kthread_worker *worker = kthread_create_worker(0, "worker of %s", "tasklets");
	struct kthread_delayed_work delayed;
	static struct job jobs[4];
	int i;

	for (i = 0; i < 4; i++) {
		kthread_init_work(&jobs[i].work, job);
		jobs[i].number = i;
		bool queued = kthread_queue_work(worker, &jobs[i].work);

		if (!i)
			msleep(20);
		pr_info("queue %d\n", queued);
	}
	pr_info("again %d\n", kthread_queue_work(worker, &jobs[3].work));
	pr_info("cancel %d %d\n", kthread_cancel_work_sync(&jobs[2].work), kthread_cancel_work_sync(&jobs[2].work));
	complete(&gate);
	kthread_flush_work(&jobs[3].work);
	pr_info("flushed\n");
	kthread_flush_worker(worker);
	kthread_init_delayed_work(&delayed, later);
	pr_info("delayed %d", kthread_queue_delayed_work(worker, &delayed, 1000 * HZ));
	pr_cont(" %d\n", kthread_queue_delayed_work(worker, &delayed, 0));
	pr_info("earlier %d\n", kthread_mod_delayed_work(worker, &delayed, 1));
	while (!atomic_read(&delayed_runs))
		msleep(1);
	pr_info("later %d", kthread_queue_delayed_work(worker, &delayed, 1000 * HZ));
	pr_cont(", cancel %d", kthread_cancel_delayed_work_sync(&delayed));
	pr_cont(" %d\n", kthread_cancel_delayed_work_sync(&delayed));
	kthread_queue_work(worker, &jobs[1].work);
	kthread_destroy_worker(worker);
	pr_info("delayed work ran %d times\n", atomic_read(&delayed_runs));
}

static int __init tasklets_init(void)
{
	tasklets();
	workers();
	return 0;
}

static void __exit tasklets_exit(void)
{
}

module_init(tasklets_init);
module_exit(tasklets_exit);
MODULE_LICENSE("GPL");
