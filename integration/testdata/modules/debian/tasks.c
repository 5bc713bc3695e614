// SPDX-License-Identifier: MIT
/* tasks looks at tasks as modules do: at the current one, at all, and at their fields. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/cpumask.h>
#include <linux/cred.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/pid.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>

static int __init tasks_init(void)
{
	struct task_struct *p, *t, *kthreadd = NULL;
	int processes = 0, threads = 0, self = 0, named = 0;
	char comm[TASK_COMM_LEN];

	rcu_read_lock();
	for_each_process(p) {
		processes++;
		self += p == current->group_leader;
		named += p->comm[0] != 0 && p->group_leader == p;
		if (p->pid == 2)
			kthreadd = p;
	}
	for_each_thread(current, t)
		threads++;
	rcu_read_unlock();
	pr_info("processes %d, all are named %d, this one %d, all of its threads %d\n", processes > 5, named == processes, self,
		threads == current->signal->nr_threads);
	if (kthreadd)
		pr_info("%s: parent %d, mm %d, kernel thread %d, children %d\n", get_task_comm(comm, kthreadd),
			kthreadd->real_parent->pid, kthreadd->mm != NULL, (kthreadd->flags & PF_KTHREAD) != 0,
			!list_empty(&kthreadd->children));
	pr_info("init_task: '%.7s', pid %d\n", init_task.comm, init_task.pid);
	p = current;
	pr_info("prio %d %d %d, nice %d, policy %u, rt %u\n", p->prio, p->static_prio, p->normal_prio, task_nice(p), p->policy,
		p->rt_priority);
	pr_info("running %d, on queue %d, on CPU %d, exit %d %d\n", task_is_running(p), p->on_rq, p->on_cpu, p->exit_state,
		p->exit_code);
	pr_info("CPUs %d, as allowed %d, this one %d\n", p->nr_cpus_allowed >= 1, cpumask_weight(p->cpus_ptr) >= 1,
		cpumask_test_cpu(task_cpu(p), p->cpus_ptr));
	pr_info("started %d, ran %d, switched %d\n", p->start_time > 0 && p->start_time <= ktime_get_ns(),
		p->se.sum_exec_runtime < ktime_get_ns(), p->nvcsw + p->nivcsw < 1000000);
	pr_info("uid %u, own pid %d, tgid %d, found %d\n", current_uid().val, task_pid_nr(p) == p->pid,
		p->tgid == task_tgid_nr(p), pid_task(find_vpid(p->pid), PIDTYPE_PID) == p);
	return 0;
}

static void __exit tasks_exit(void)
{
}

module_init(tasks_init);
module_exit(tasks_exit);
MODULE_LICENSE("Dual MIT/GPL");
