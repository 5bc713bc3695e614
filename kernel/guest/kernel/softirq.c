/* softirq.c: softirqs, tasklets and irq_work. */
#include <linux/sched.h>
#include <linux/interrupt.h>
#include <linux/kthread.h>
#include <trace/events/irq.h>

#define MAX_SOFTIRQ_RESTART 10

static struct softirq_action softirq_vec[NR_SOFTIRQS];
void native_send_call_func_single_ipi(int cpu);
DEFINE_PER_CPU(u16, __softirq_pending);
DEFINE_PER_CPU(struct task_struct *, ksoftirqd);
static DEFINE_PER_CPU(struct llist_head, raised_list);
void tick_irq_enter(void);

void open_softirq(int nr, void (*action)(struct softirq_action *))
{
	softirq_vec[nr].action = action;
}

static void wakeup_softirqd(void)
{
	struct task_struct *tsk = this_cpu_read(ksoftirqd);

	if (tsk)
		wake_up_process(tsk);
}

notrace void raise_softirq_irqoff(unsigned int nr)
{
	trace_softirq_raise(nr);
	this_cpu_or(__softirq_pending, 1U << nr);
	if (!in_interrupt())
		wakeup_softirqd();
}

void raise_softirq(unsigned int nr)
{
	unsigned long flags;

	local_irq_save(flags);
	raise_softirq_irqoff(nr);
	local_irq_restore(flags);
}

/* Runs pending softirqs with interrupts on. If new ones are raised meanwhile it
 * repeats this a few times, and then wakes up ksoftirqd. */
asmlinkage void __do_softirq(void)
{
	int restart = MAX_SOFTIRQ_RESTART, nr;
	u16 pending;

	preempt_count_add(SOFTIRQ_OFFSET);
	while ((pending = this_cpu_read(__softirq_pending)) && restart--) {
		this_cpu_write(__softirq_pending, 0);
		local_irq_enable();
		for (; pending; pending &= pending - 1) {
			nr = __ffs(pending);
			trace_softirq_entry(nr);
			softirq_vec[nr].action(&softirq_vec[nr]);
			trace_softirq_exit(nr);
		}
		local_irq_disable();
	}
	if (this_cpu_read(__softirq_pending))
		wakeup_softirqd();
	preempt_count_sub(SOFTIRQ_OFFSET);
}

noinline void do_softirq(void)
{
	unsigned long flags;

	if (in_interrupt())
		return;
	local_irq_save(flags);
	if (this_cpu_read(__softirq_pending))
		__do_softirq();
	local_irq_restore(flags);
}

void irq_enter_rcu(void)
{
	preempt_count_add(HARDIRQ_OFFSET);
	if (is_idle_task(current))
		tick_irq_enter();
}

void irq_exit_rcu(void)
{
	preempt_count_sub(HARDIRQ_OFFSET);
	if (!in_interrupt() && this_cpu_read(__softirq_pending))
		__do_softirq();
}

void __local_bh_disable_ip(unsigned long ip, unsigned int cnt)
{
	preempt_count_add(cnt);
	barrier();
}

void __local_bh_enable_ip(unsigned long ip, unsigned int cnt)
{
	preempt_count_sub(cnt - 1);
	if (unlikely(!in_interrupt() && this_cpu_read(__softirq_pending)))
		do_softirq();
	preempt_count_sub(1);
}
EXPORT_SYMBOL(__local_bh_enable_ip);

static int run_ksoftirqd(void *unused)
{
	while (!kthread_should_stop()) {
		set_current_state(TASK_INTERRUPTIBLE);
		if (!this_cpu_read(__softirq_pending)) {
			schedule();
			continue;
		}
		__set_current_state(TASK_RUNNING);
		local_irq_disable();
		if (this_cpu_read(__softirq_pending))
			__do_softirq();
		local_irq_enable();
		cond_resched();
	}
	return 0;
}

static __init int spawn_ksoftirqd(void)
{
	unsigned int cpu;

	for_each_online_cpu(cpu) {
		struct task_struct *p = kthread_create_on_cpu(run_ksoftirqd, NULL, cpu, "ksoftirqd/%u");

		if (IS_ERR(p))
			return PTR_ERR(p);
		per_cpu(ksoftirqd, cpu) = p;
		wake_up_process(p);
	}
	return 0;
}
early_initcall(spawn_ksoftirqd);

#define IRQ_WORK_PENDING 1
#define IRQ_WORK_BUSY 2

/* Runs func soon on this CPU, in an interrupt that the CPU sends to itself. */
notrace bool irq_work_queue(struct irq_work *work)
{
	int was = atomic_read(&work->flags);

	do {
		if (was & IRQ_WORK_PENDING)
			return false;
	} while (!atomic_try_cmpxchg(&work->flags, &was, was | IRQ_WORK_PENDING | IRQ_WORK_BUSY));
	preempt_disable();
	llist_add(&work->llnode, this_cpu_ptr(&raised_list));
	native_send_call_func_single_ipi(smp_processor_id());
	preempt_enable();
	return true;
}
EXPORT_SYMBOL(irq_work_queue);

/* Waits until work is not queued and does not run. */
notrace void irq_work_sync(struct irq_work *work)
{
	while (atomic_read(&work->flags) & IRQ_WORK_BUSY)
		cpu_relax();
}
EXPORT_SYMBOL_GPL(irq_work_sync);

notrace void irq_work_run(void)
{
	struct llist_node *n = llist_del_all(this_cpu_ptr(&raised_list)), *next;

	for (n = llist_reverse_order(n); n; n = next) {
		struct irq_work *work = llist_entry(n, struct irq_work, llnode);

		int was = IRQ_WORK_BUSY;

		next = n->next;
		atomic_set(&work->flags, IRQ_WORK_BUSY);
		work->func(work);
		atomic_try_cmpxchg(&work->flags, &was, 0);	/* unless it is queued again */
	}
}
EXPORT_SYMBOL_GPL(irq_work_run);
