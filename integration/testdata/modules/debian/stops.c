// SPDX-License-Identifier: MIT
/* stops: stop_machine, calls on other processors, and what is called when processors come and go. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/cpu.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/stop_machine.h>
#include <linux/workqueue.h>
#include <uapi/linux/sched/types.h>

static atomic_t others = ATOMIC_INIT(0);
static int state, fails;
module_param(fails, int, 0);

static int stopped(void *data)
{
	pr_info("stopped: cpu %d, irqs off %d, %s, %s\n", raw_smp_processor_id(), irqs_disabled(), current->comm, (char *)data);
	return 7;
}

static int called(void *data)
{
	atomic_inc(&others);
	return raw_smp_processor_id() + 10;
}

static long worked(void *data)
{
	return *(long *)data + raw_smp_processor_id();
}

static void any(void *data)
{
	*(int *)data = raw_smp_processor_id() + 1;
}

static int coming(unsigned int cpu)
{
	pr_info("coming %u on %d in %s\n", cpu, raw_smp_processor_id(), current->comm);
	return fails && cpu == 1 ? -EBUSY : 0;
}

static int going(unsigned int cpu)
{
	pr_info("going %u on %d in %s\n", cpu, raw_smp_processor_id(), current->comm);
	return 0;
}

static int threaded(void *data)
{
	pr_info("thread %d %d, %d\n", current->policy, current->rt_priority, current->prio);
	sched_set_fifo(current);
	pr_info("fifo %d %d, %d\n", current->policy, current->rt_priority, current->prio);
	sched_set_fifo_low(current);
	pr_info("low %d %d, %d\n", current->policy, current->rt_priority, current->prio);
	sched_set_normal(current, 5);
	pr_info("normal %d %d, %d\n", current->policy, current->rt_priority, current->prio);
	pr_info("function %d\n", kthread_func(current) == threaded);
	while (!kthread_should_stop())
		schedule_timeout_interruptible(1);
	return 0;
}

static int __init stops_init(void)
{
	struct task_struct *t;
	long base = 100;
	int cpu = 0, ret;

	pr_info("stop_machine %d\n", stop_machine(stopped, "first", NULL));
	pr_info("stop_machine %d\n", stop_machine(stopped, "on 1", cpumask_of(1)));
	pr_info("on cpu %d %d", smp_call_on_cpu(0, called, NULL, false), smp_call_on_cpu(1, called, NULL, false));
	pr_cont(" %d, %d calls\n", smp_call_on_cpu(9999, called, NULL, false), atomic_read(&others));
	pr_info("work %ld %ld\n", work_on_cpu(0, worked, &base), work_on_cpu_safe(1, worked, &base));
	ret = smp_call_function_any(cpumask_of(1), any, &cpu, 1);
	pr_info("any %d: %d\n", ret, cpu);
	t = kthread_run(threaded, NULL, "stops");
	msleep(100);
	kthread_stop(t);
	state = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "stops:online", coming, going);
	pr_info("state %s %d\n", state > 0 ? "dyn" : "none", state > 0 ? 0 : state);
	ret = cpuhp_setup_state_nocalls(CPUHP_AP_ONLINE_DYN, "stops:quiet", coming, going);
	pr_info("another %d\n", ret > 0 && ret != state);
	if (ret > 0)
		cpuhp_remove_state_nocalls(ret);
	return state < 0 ? state : 0;
}

static void __exit stops_exit(void)
{
	cpuhp_remove_state(state);
}

module_init(stops_init);
module_exit(stops_exit);
MODULE_LICENSE("GPL");
