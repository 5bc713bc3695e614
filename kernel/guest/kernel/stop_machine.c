/*
 * stop_machine.c: a function that runs while no other code does, and functions of single
 * processors. Linux has threads for it that wait (migration/N, cpuhp/N); here they are
 * made when they are needed.
 */
#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/export.h>
#include <linux/irqflags.h>
#include <linux/kthread.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/stop_machine.h>
#include <linux/workqueue.h>

struct multi_stop_data {
	cpu_stop_fn_t fn;
	void *data;
	unsigned int active;	/* the processor that calls fn; all others wait for it */
	atomic_t missing;	/* processors that do not wait yet with interrupts off */
	int done, ret;
	atomic_t running;
	struct completion left;
};

static int multi_cpu_stop(void *data)
{
	struct multi_stop_data *m = data;
	unsigned long flags;

	local_irq_save(flags);
	atomic_dec(&m->missing);
	if (raw_smp_processor_id() == m->active) {
		while (atomic_read(&m->missing))
			cpu_relax();
		m->ret = m->fn(m->data);
		smp_store_release(&m->done, 1);
	} else {
		while (!smp_load_acquire(&m->done))
			cpu_relax();
	}
	local_irq_restore(flags);
	if (atomic_dec_and_test(&m->running))
		complete(&m->left);
	return 0;
}

static DEFINE_MUTEX(stop_cpus_mutex);

int stop_machine_cpuslocked(cpu_stop_fn_t fn, void *data, const struct cpumask *cpus)
{
	struct multi_stop_data m = { .fn = fn, .data = data };
	struct task_struct *threads[NR_CPUS] = {};
	int cpu, ret = 0, n = 0;

	m.active = cpumask_first(cpus ? cpus : cpu_online_mask);
	init_completion(&m.left);
	mutex_lock(&stop_cpus_mutex);
	for_each_online_cpu(cpu) {
		threads[cpu] = kthread_create_on_cpu(multi_cpu_stop, &m, cpu, "migration/%u");
		if (IS_ERR(threads[cpu])) {
			ret = PTR_ERR(threads[cpu]);
			threads[cpu] = NULL;
			break;
		}
		n++;
	}
	atomic_set(&m.missing, n);
	atomic_set(&m.running, n);
	for_each_online_cpu(cpu) {
		if (threads[cpu] && ret)
			kthread_stop(threads[cpu]); /* it has not run */
		else if (threads[cpu])
			wake_up_process(threads[cpu]);
	}
	if (!ret) {
		wait_for_completion(&m.left);
		ret = m.ret;
	}
	mutex_unlock(&stop_cpus_mutex);
	return ret;
}

int stop_machine(cpu_stop_fn_t fn, void *data, const struct cpumask *cpus)
{
	int ret;

	cpus_read_lock();
	ret = stop_machine_cpuslocked(fn, data, cpus);
	cpus_read_unlock();
	return ret;
}
EXPORT_SYMBOL_GPL(stop_machine);

struct smp_call_on_cpu_struct {
	struct work_struct work;
	struct completion done;
	int (*func)(void *data);
	void *data;
	int ret;
};

static void smp_call_on_cpu_callback(struct work_struct *work)
{
	struct smp_call_on_cpu_struct *sscs = container_of(work, struct smp_call_on_cpu_struct, work);

	sscs->ret = sscs->func(sscs->data);
	complete(&sscs->done);
}

int smp_call_on_cpu(unsigned int cpu, int (*func)(void *), void *par, bool phys)
{
	struct smp_call_on_cpu_struct sscs = { .func = func, .data = par };

	if (cpu >= nr_cpu_ids || !cpu_online(cpu))
		return -ENXIO;
	init_completion(&sscs.done);
	INIT_WORK_ONSTACK(&sscs.work, smp_call_on_cpu_callback);
	queue_work_on(cpu, system_wq, &sscs.work);
	wait_for_completion(&sscs.done);
	return sscs.ret;
}
EXPORT_SYMBOL_GPL(smp_call_on_cpu);

/* Calls func on this processor if mask has it, else on the first that mask has. */
int smp_call_function_any(const struct cpumask *mask, smp_call_func_t func, void *info, int wait)
{
	unsigned int cpu = get_cpu();
	int ret;

	if (!cpumask_test_cpu(cpu, mask)) {
		for_each_cpu(cpu, mask)
			if (cpu_online(cpu))
				break;
	}
	ret = smp_call_function_single(cpu, func, info, wait);
	put_cpu();
	return ret;
}
EXPORT_SYMBOL_GPL(smp_call_function_any);

struct work_for_cpu {
	struct work_struct work;
	long (*fn)(void *);
	void *arg;
	long ret;
};

static void work_for_cpu_fn(struct work_struct *work)
{
	struct work_for_cpu *wfc = container_of(work, struct work_for_cpu, work);

	wfc->ret = wfc->fn(wfc->arg);
}

long work_on_cpu_key(int cpu, long (*fn)(void *), void *arg, struct lock_class_key *key)
{
	struct work_for_cpu wfc = { .fn = fn, .arg = arg };

	INIT_WORK_ONSTACK(&wfc.work, work_for_cpu_fn);
	queue_work_on(cpu, system_wq, &wfc.work);
	flush_work(&wfc.work);
	return wfc.ret;
}
EXPORT_SYMBOL_GPL(work_on_cpu_key);

long work_on_cpu_safe_key(int cpu, long (*fn)(void *), void *arg, struct lock_class_key *key)
{
	long ret = -ENODEV;

	cpus_read_lock();
	if (cpu_online(cpu))
		ret = work_on_cpu_key(cpu, fn, arg, key);
	cpus_read_unlock();
	return ret;
}
EXPORT_SYMBOL_GPL(work_on_cpu_safe_key);

#if GUEST_LINUX >= 601 && GUEST_LINUX < 612 /* of others the numbers of the states are not known */
/* What is called when a processor comes or goes: they come at boot only, so that startup
 * runs when it is registered, and teardown when it is removed, on each processor. */
struct cpuhp_step {
	const char *name;
	int (*startup)(unsigned int cpu), (*teardown)(unsigned int cpu);
};

static struct cpuhp_step cpuhp_hp_states[CPUHP_ONLINE];
static DEFINE_MUTEX(cpuhp_state_mutex);

struct cpuhp_cpu_state {
	int (*fn)(unsigned int cpu);
	int result;
	struct completion done;
};

static int cpuhp_thread_fun(void *data)
{
	struct cpuhp_cpu_state *st = data;

	st->result = st->fn(raw_smp_processor_id());
	complete(&st->done);
	return 0;
}

/* States before CPUHP_AP_OFFLINE run on the processor that registers them, as on Linux. */
static noinline int cpuhp_issue_call(int cpu, int state, int (*fn)(unsigned int cpu))
{
	struct cpuhp_cpu_state st = { .fn = fn };
	struct task_struct *t;

	if (!fn)
		return 0;
	if (state < CPUHP_AP_OFFLINE)
		return fn(cpu);
	init_completion(&st.done);
	t = kthread_create_on_cpu(cpuhp_thread_fun, &st, cpu, "cpuhp/%u");
	if (IS_ERR(t))
		return PTR_ERR(t);
	wake_up_process(t);
	wait_for_completion(&st.done);
	return st.result;
}

static int cpuhp_reserve_state(enum cpuhp_state state)
{
	int at = state, end = state;

	if (state == CPUHP_AP_ONLINE_DYN)
		end = CPUHP_AP_ONLINE_DYN_END;
	else if (state == CPUHP_BP_PREPARE_DYN)
		end = CPUHP_BP_PREPARE_DYN_END;
	for (; at <= end; at++)
		if (!cpuhp_hp_states[at].name)
			return at;
	return state == end ? -EBUSY : -ENOSPC;
}

/* Returns the number of a state that was asked for by a range, or 0. */
int __cpuhp_setup_state_cpuslocked(enum cpuhp_state state, const char *name, bool invoke,
				   int (*startup)(unsigned int cpu), int (*teardown)(unsigned int cpu), bool multi_instance)
{
	bool range = state == CPUHP_AP_ONLINE_DYN || state == CPUHP_BP_PREPARE_DYN;
	int cpu, failed = nr_cpu_ids, ret = 0;

	if (state <= CPUHP_OFFLINE || state >= CPUHP_ONLINE || !name)
		return -EINVAL;
	mutex_lock(&cpuhp_state_mutex);
	state = ret = cpuhp_reserve_state(state);
	if (ret < 0)
		goto out;
	cpuhp_hp_states[state] = (struct cpuhp_step){ name, startup, teardown };
	ret = 0;
	if (invoke && startup)
		for_each_online_cpu(cpu) {
			ret = cpuhp_issue_call(cpu, state, startup);
			if (ret) {
				failed = cpu;
				break;
			}
		}
	if (ret) {
		for_each_online_cpu(cpu)
			if (cpu < failed)
				cpuhp_issue_call(cpu, state, teardown);
		cpuhp_hp_states[state] = (struct cpuhp_step){};
	}
out:
	mutex_unlock(&cpuhp_state_mutex);
	return !ret && range ? state : ret;
}
EXPORT_SYMBOL(__cpuhp_setup_state_cpuslocked);

int __cpuhp_setup_state(enum cpuhp_state state, const char *name, bool invoke,
			int (*startup)(unsigned int cpu), int (*teardown)(unsigned int cpu), bool multi_instance)
{
	int ret;

	cpus_read_lock();
	ret = __cpuhp_setup_state_cpuslocked(state, name, invoke, startup, teardown, multi_instance);
	cpus_read_unlock();
	return ret;
}
EXPORT_SYMBOL(__cpuhp_setup_state);

void __cpuhp_remove_state_cpuslocked(enum cpuhp_state state, bool invoke)
{
	int cpu;

	BUG_ON(state <= CPUHP_OFFLINE || state >= CPUHP_ONLINE);
	mutex_lock(&cpuhp_state_mutex);
	if (invoke && cpuhp_hp_states[state].name)
		for_each_online_cpu(cpu)
			cpuhp_issue_call(cpu, state, cpuhp_hp_states[state].teardown);
	cpuhp_hp_states[state] = (struct cpuhp_step){};
	mutex_unlock(&cpuhp_state_mutex);
}
EXPORT_SYMBOL(__cpuhp_remove_state_cpuslocked);

void __cpuhp_remove_state(enum cpuhp_state state, bool invoke)
{
	cpus_read_lock();
	__cpuhp_remove_state_cpuslocked(state, invoke);
	cpus_read_unlock();
}
EXPORT_SYMBOL(__cpuhp_remove_state);

#endif
