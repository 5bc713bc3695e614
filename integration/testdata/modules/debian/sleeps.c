// SPDX-License-Identifier: MIT
/* sleeps uses SRCU: readers that sleep, grace periods, callbacks. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/srcu.h>

DEFINE_STATIC_SRCU(fixed);
static struct srcu_struct made;
static DECLARE_COMPLETION(entered);
static DECLARE_COMPLETION(left);
static int *shared, old = 1, new = 2;
static bool reads;
static struct rcu_head heads[3];

static int reader(void *ssp)
{
	int idx = srcu_read_lock(ssp), *p = srcu_dereference(shared, (struct srcu_struct *)ssp);

	reads = true;
	complete(&entered);
	msleep(60);
	pr_info("reader: %d\n", *p);
	WRITE_ONCE(reads, false);
	srcu_read_unlock(ssp, idx);
	complete(&left);
	return 0;
}

static void called(struct rcu_head *head)
{
	pr_info("callback %ld, reader %d, softirq %d\n", (long)(head - heads), READ_ONCE(reads), !!in_softirq());
}

static void use(struct srcu_struct *ssp, const char *name)
{
	int i;

	shared = &old;
	kthread_run(reader, ssp, "sleeps");
	wait_for_completion(&entered);
	rcu_assign_pointer(shared, &new);
	synchronize_srcu(ssp);
	pr_info("%s: synchronized, reader %d\n", name, READ_ONCE(reads));
	wait_for_completion(&left);
	kthread_run(reader, ssp, "sleeps");
	wait_for_completion(&entered);
	for (i = 0; i < 3; i++)
		call_srcu(ssp, &heads[i], called);
	pr_info("%s: called, reader %d\n", name, READ_ONCE(reads));
	srcu_barrier(ssp);
	pr_info("%s: barrier\n", name);
	wait_for_completion(&left);
}

static int __init sleeps_init(void)
{
	int err = init_srcu_struct(&made);

	if (err)
		return err;
	use(&fixed, "fixed");
	use(&made, "made");
	cleanup_srcu_struct(&made);
	return 0;
}

static void __exit sleeps_exit(void)
{
	int idx = srcu_read_lock(&fixed);

	srcu_read_unlock(&fixed, idx);
	synchronize_srcu_expedited(&fixed);
	pr_info("exit\n");
}

module_init(sleeps_init);
module_exit(sleeps_exit);
MODULE_LICENSE("GPL");
