/* irq.c: interrupts from the timer, from other CPUs, and from the host when tasks are
 * to be woken up. */
#include <linux/sched.h>
#include <linux/interrupt.h>
#include <linux/irq.h>
#include <linux/smp.h>
#include <linux/hrtimer.h>
#include <linux/jump_label.h>
#include <linux/host.h>
#include <asm/traps.h>
#include <asm/host.h>
#include <trace/events/irq.h>

DEFINE_PER_CPU(unsigned int, irq_stat_timer);
DEFINE_PER_CPU(unsigned int, irq_stat_resched);
DEFINE_STATIC_KEY_FALSE(sk_dynamic_irqentry_exit_cond_resched);

void scheduler_ipi(void)
{
	if (test_thread_flag(TIF_NEED_RESCHED))
		set_preempt_need_resched();
}

bool rcu_preempt_depth(void);
void preempt_schedule_irq(void);

void raw_irqentry_exit_cond_resched(void)
{
	if (!preempt_count() && need_resched() && !rcu_preempt_depth())
		preempt_schedule_irq();
}

/*
 * With preempt=voluntary, Debian's default, interrupts do not switch tasks. Here they
 * switch away a task that keeps its CPU from others for too long, since it would
 * block the whole machine. Not one that is in its last __schedule(), with a preempt count
 * that it has spoilt: that would come back.
 */
void dynamic_irqentry_exit_cond_resched(void)
{
	if (!static_branch_unlikely(&sk_dynamic_irqentry_exit_cond_resched) &&
	    (!current->overran || READ_ONCE(current->__state) == TASK_DEAD))
		return;
	raw_irqentry_exit_cond_resched();
}

noinstr irqentry_state_t irqentry_enter(struct pt_regs *regs)
{
	irqentry_state_t ret = { .exit_rcu = is_idle_task(current) };

	return ret;
}

noinstr void irqentry_exit(struct pt_regs *regs, irqentry_state_t state)
{
	if (!(regs->flags & X86_EFLAGS_IF) || state.exit_rcu)
		return;
	dynamic_irqentry_exit_cond_resched();
}

DEFINE_IDTENTRY_SYSVEC(sysvec_apic_timer_interrupt)
{
	trace_local_timer_entry(LOCAL_TIMER_VECTOR);
	this_cpu_inc(irq_stat_timer);
	hrtimer_interrupt();
	trace_local_timer_exit(LOCAL_TIMER_VECTOR);
}

DEFINE_IDTENTRY_SYSVEC(sysvec_reschedule_ipi)
{
	trace_reschedule_entry(RESCHEDULE_VECTOR);
	this_cpu_inc(irq_stat_resched);
	scheduler_ipi();
	trace_reschedule_exit(RESCHEDULE_VECTOR);
}

DEFINE_IDTENTRY_SYSVEC(sysvec_call_function_single)
{
	trace_call_function_single_entry(CALL_FUNCTION_SINGLE_VECTOR);
	generic_smp_call_function_single_interrupt();
	trace_call_function_single_exit(CALL_FUNCTION_SINGLE_VECTOR);
}

/* A task that stands for a thread of the host is put on the CPU that stands for the
 * thread's. If it is running already, it is not moved. */
static __always_inline void host_place(struct task_struct *p)
{
	struct host_call *call = READ_ONCE(p->host_call);
	unsigned long flags, cpus = call ? READ_ONCE(call->cpus) & cpu_online_mask->bits[0] : 0;

	if (!cpus)
		return;
	raw_spin_lock_irqsave(&p->pi_lock, flags);
	if (!p->on_rq) {
		p->cpus_mask.bits[0] = cpus;
		p->nr_cpus_allowed = cpumask_weight(&p->cpus_mask);
		p->wake_cpu = call->cpu;
	}
	raw_spin_unlock_irqrestore(&p->pi_lock, flags);
}

/* kvm_async_pf_task_wake: wake up the tasks that the host names. */
void kvm_async_pf_task_wake(void)
{
	unsigned long woken;

	while ((woken = hypercall0(HC_POP_WAKE))) {
		struct task_struct *p = (struct task_struct *)(woken & ~(unsigned long)WAKE_BITS);

		if (woken & WAKE_BITS) {
			host_interrupt(p, woken & WAKE_KILL);
			continue;
		}
		host_place(p);
		wake_up_process(p);
	}
}

DEFINE_IDTENTRY_SYSVEC(sysvec_kvm_asyncpf_interrupt)
{
	kvm_async_pf_task_wake();
}

DEFINE_IDTENTRY_IRQ(common_interrupt)
{
	handle_edge_irq(irq_to_desc(vector_to_irq(vector)));
}

DEFINE_IDTENTRY_SYSVEC(sysvec_reboot)
{
	for (;;)
		__asm__ __volatile__("cli; hlt");
}

DEFINE_IDTENTRY(spurious_interrupt) { }

void native_smp_send_reschedule(int cpu)
{
	hypercall2(HC_SEND_IPI, cpu, RESCHEDULE_VECTOR);
}

void native_send_call_func_single_ipi(int cpu)
{
	hypercall2(HC_SEND_IPI, cpu, CALL_FUNCTION_SINGLE_VECTOR);
}

#if GUEST_LINUX < 612
void smp_send_reschedule(int cpu)
{
	native_smp_send_reschedule(cpu);
}
#endif
