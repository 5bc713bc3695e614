// SPDX-License-Identifier: MIT
/* binds creates threads and binds each to a CPU before it runs. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/smp.h>

enum { THREADS = 500 };

static int elsewhere, ran;
static DECLARE_COMPLETION(done);

static int where(void *cpu)
{
	ran++;
	if (raw_smp_processor_id() != (long)cpu)
		elsewhere++;
	complete(&done);
	return 0;
}

static int __init binds_init(void)
{
	long i;

	for (i = 0; i < THREADS; i++) {
		struct task_struct *t = kthread_create(where, (void *)(i & 1), "bound");

		if (IS_ERR(t))
			return PTR_ERR(t);
		kthread_bind(t, i & 1);
		wake_up_process(t);
		wait_for_completion(&done);
	}
	pr_info("%d threads ran, %d of them elsewhere\n", ran, elsewhere);
	return 0;
}

static void __exit binds_exit(void)
{
}

module_init(binds_init);
module_exit(binds_exit);
MODULE_LICENSE("Dual MIT/GPL");
