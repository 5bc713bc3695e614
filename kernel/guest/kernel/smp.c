/* smp.c: functions called on another CPU. */
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/interrupt.h>
#include <linux/smp.h>
#if GUEST_LINUX >= 612
#include <trace/events/csd.h>
#endif

#define CSD_FLAG_LOCK 1
struct call_single_data { struct llist_node node; unsigned int flags; smp_call_func_t func; void *info; };
static DEFINE_PER_CPU(struct llist_head, call_single_queue);
static DEFINE_PER_CPU(struct call_single_data, csd_data);
void native_send_call_func_single_ipi(int cpu);

static void csd_lock_wait(struct call_single_data *csd)
{
	while (smp_load_acquire(&csd->flags) & CSD_FLAG_LOCK)
		cpu_relax();
}

noinline void __smp_call_single_queue(int cpu, struct llist_node *node)
{
#if GUEST_LINUX >= 612
	struct call_single_data *csd = llist_entry(node, struct call_single_data, node);

	trace_csd_queue_cpu(cpu, _RET_IP_, csd->func, csd);
#endif
	if (llist_add(node, &per_cpu(call_single_queue, cpu))) {
#if GUEST_LINUX >= 612
		trace_ipi_send_cpu(cpu, _RET_IP_, generic_smp_call_function_single_interrupt);
#endif
		native_send_call_func_single_ipi(cpu);
	}
}

/* Calls csd's function. 6.12 traces it. */
static __always_inline void csd_do_func(smp_call_func_t func, void *info, struct call_single_data *csd)
{
#if GUEST_LINUX >= 612
	trace_csd_function_entry(func, csd);
	func(info);
	trace_csd_function_exit(func, csd);
#else
	func(info);
#endif
}

/* Runs functions requested by other CPUs. Interrupts are off. */
void flush_smp_call_function_queue(void)
{
	struct llist_node *n, *next;
	unsigned long flags;

	local_irq_save(flags);
	n = llist_reverse_order(llist_del_all(this_cpu_ptr(&call_single_queue)));
	for (; n; n = next) {
		struct call_single_data *csd = llist_entry(n, struct call_single_data, node);

		next = n->next;
		csd_do_func(csd->func, csd->info, csd);
		smp_store_release(&csd->flags, 0);
	}
	local_irq_restore(flags);
}

void generic_smp_call_function_single_interrupt(void)
{
	flush_smp_call_function_queue();
	irq_work_run();
}

static noinline int generic_exec_single(int cpu, struct call_single_data *csd)
{
	if (cpu == smp_processor_id()) {
		unsigned long flags;

		local_irq_save(flags);
		csd_do_func(csd->func, csd->info, NULL);
		local_irq_restore(flags);
		csd->flags = 0;
		return 0;
	}
	if ((unsigned int)cpu >= nr_cpu_ids || !cpu_online(cpu))
		return -ENXIO;
	__smp_call_single_queue(cpu, &csd->node);
	return 0;
}

/* Calls func on cpu in an interrupt. Returns -ENXIO if the CPU is not online. */
int smp_call_function_single(int cpu, smp_call_func_t func, void *info, int wait)
{
	struct call_single_data csd_stack = { .flags = CSD_FLAG_LOCK, .func = func, .info = info };
	struct call_single_data *csd = &csd_stack;
	int err;

	preempt_disable();
	if (!wait) {
		csd = this_cpu_ptr(&csd_data);
		csd_lock_wait(csd);
		*csd = csd_stack;
	}
	err = generic_exec_single(cpu, csd);
	if (!err && wait)
		csd_lock_wait(csd);
	else if (err)
		csd->flags = 0;
	preempt_enable();
	return err;
}
EXPORT_SYMBOL(smp_call_function_single);

void smp_call_function_many(const struct cpumask *mask, smp_call_func_t func, void *info, bool wait)
{
	unsigned int cpu;

	for_each_cpu(cpu, mask)
		if (cpu != smp_processor_id())
			smp_call_function_single(cpu, func, info, wait);
}
EXPORT_SYMBOL(smp_call_function_many);

void on_each_cpu(smp_call_func_t func, void *info, int wait)
{
	unsigned long flags;

	preempt_disable();
	smp_call_function_many(cpu_online_mask, func, info, wait);
	local_irq_save(flags);
	csd_do_func(func, info, NULL);
	local_irq_restore(flags);
	preempt_enable();
}

void smp_call_function(smp_call_func_t func, void *info, int wait)
{
	preempt_disable();
	smp_call_function_many(cpu_online_mask, func, info, wait);
	preempt_enable();
}
EXPORT_SYMBOL(smp_call_function);

/* Calls func on the online CPUs of mask for which cond, if there is one, says so. */
void on_each_cpu_cond_mask(bool (*cond)(int cpu, void *info), smp_call_func_t func, void *info, bool wait,
			   const struct cpumask *mask)
{
	unsigned long flags;
	unsigned int cpu;

	preempt_disable();
	for_each_online_cpu(cpu) {
		if (!cpumask_test_cpu(cpu, mask) || (cond && !cond(cpu, info)))
			continue;
		if (cpu != smp_processor_id()) {
			smp_call_function_single(cpu, func, info, wait);
			continue;
		}
		local_irq_save(flags);
		csd_do_func(func, info, NULL);
		local_irq_restore(flags);
	}
	preempt_enable();
}
EXPORT_SYMBOL(on_each_cpu_cond_mask);
