/* idle.c: the idle loop, which halts until the next interrupt. */
#include "sched.h"
#include <linux/irqflags.h>
#include <linux/interrupt.h>
#include <trace/events/power.h>

void tick_nohz_idle_stop_tick(void);
void tick_nohz_idle_exit(void);
void rcu_idle_enter(void);
void rcu_idle_exit(void);
void pv_native_safe_halt(void);
void schedule_idle(void);
void flush_smp_call_function_queue(void);

struct task_struct *pick_next_task_idle(struct rq *rq)
{
	set_next_task_idle(rq, rq->idle, true);
	return rq->idle;
}

noinline void set_next_task_idle(struct rq *rq, struct task_struct *next, bool first)
{
	rq->idle_stamp = rq->clock;
}

#if GUEST_LINUX >= 612
#define __cpuidle noinstr
#else
#define __cpuidle noinline
#endif

/* The hlt is in a function that takes no probe: stepped with interrupts off it would
 * never end. */
__cpuidle void default_idle(void)
{
	pv_native_safe_halt();
	__asm__ __volatile__("cli" : : : "memory");
}

__cpuidle void arch_cpu_idle(void)
{
	default_idle();
}

static noinline void cpuidle_idle_call(void)
{
	if (need_resched()) {
		local_irq_enable();
		return;
	}
	trace_cpu_idle(1, smp_processor_id());
	rcu_idle_enter();
	arch_cpu_idle();
	rcu_idle_exit();
	trace_cpu_idle(PWR_EVENT_EXIT, smp_processor_id());
	local_irq_enable();
}

static noinline void do_idle(void)
{
	while (!need_resched()) {
		local_irq_disable();
		tick_nohz_idle_stop_tick();
		cpuidle_idle_call();
	}
	tick_nohz_idle_exit();
	flush_smp_call_function_queue();
	schedule_idle();
}

void cpu_startup_entry(int state)
{
	for (;;)
		do_idle();
}
