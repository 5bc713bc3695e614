/* tasklet.c: functions that run in softirqs, each on one CPU at a time. */
#include <linux/sched.h>
#include <linux/interrupt.h>
#include <linux/percpu.h>
#include <linux/wait.h>

struct tasklet_head {
	struct tasklet_struct *head, *last;
};

static DEFINE_PER_CPU(struct tasklet_head, tasklet_vec);
static DEFINE_PER_CPU(struct tasklet_head, tasklet_hi_vec);
static DECLARE_WAIT_QUEUE_HEAD(tasklet_done);

static void append(struct tasklet_head *list, struct tasklet_struct *t)
{
	t->next = NULL;
	if (list->head)
		list->last->next = t;
	else
		list->head = t;
	list->last = t;
}

static void schedule_on(struct tasklet_struct *t, struct tasklet_head *vec, unsigned int softirq)
{
	unsigned long flags;

	local_irq_save(flags);
	append(this_cpu_ptr(vec), t);
	raise_softirq_irqoff(softirq);
	local_irq_restore(flags);
}

void __tasklet_schedule(struct tasklet_struct *t)
{
	schedule_on(t, &tasklet_vec, TASKLET_SOFTIRQ);
}
EXPORT_SYMBOL(__tasklet_schedule);

void __tasklet_hi_schedule(struct tasklet_struct *t)
{
	schedule_on(t, &tasklet_hi_vec, HI_SOFTIRQ);
}
EXPORT_SYMBOL(__tasklet_hi_schedule);

/* Runs t if it is enabled and does not run elsewhere; reports whether it did. */
static bool run(struct tasklet_struct *t)
{
	bool ran = false;

	if (test_and_set_bit(TASKLET_STATE_RUN, &t->state))
		return false;
	if (!atomic_read(&t->count)) {
		ran = true;
		clear_bit(TASKLET_STATE_SCHED, &t->state);
		if (t->use_callback)
			t->callback(t);
		else
			t->func(t->data);
	}
	tasklet_unlock(t);
	return ran;
}

static void run_list(struct tasklet_head *vec, unsigned int softirq)
{
	struct tasklet_struct *t, *next;
	struct tasklet_head *list;

	local_irq_disable();
	list = this_cpu_ptr(vec);
	t = list->head;
	list->head = NULL;
	local_irq_enable();
	for (; t; t = next) {
		next = t->next;
		if (!run(t))
			schedule_on(t, vec, softirq);
	}
}

static void tasklet_action(struct softirq_action *a)
{
	run_list(&tasklet_vec, TASKLET_SOFTIRQ);
}

static void tasklet_hi_action(struct softirq_action *a)
{
	run_list(&tasklet_hi_vec, HI_SOFTIRQ);
}

void tasklet_setup(struct tasklet_struct *t, void (*callback)(struct tasklet_struct *))
{
	*t = (struct tasklet_struct){ .use_callback = true, .callback = callback };
}
EXPORT_SYMBOL(tasklet_setup);

void tasklet_init(struct tasklet_struct *t, void (*func)(unsigned long), unsigned long data)
{
	*t = (struct tasklet_struct){ .func = func, .data = data };
}
EXPORT_SYMBOL(tasklet_init);

/* Ends a run of t: waiters go on. */
void tasklet_unlock(struct tasklet_struct *t)
{
	clear_bit(TASKLET_STATE_RUN, &t->state);
	wake_up_all(&tasklet_done);
}
EXPORT_SYMBOL_GPL(tasklet_unlock);

void tasklet_unlock_wait(struct tasklet_struct *t)
{
	wait_event(tasklet_done, !test_bit(TASKLET_STATE_RUN, &t->state));
}
EXPORT_SYMBOL_GPL(tasklet_unlock_wait);

void tasklet_unlock_spin_wait(struct tasklet_struct *t)
{
	while (test_bit(TASKLET_STATE_RUN, &t->state))
		cpu_relax();
}
EXPORT_SYMBOL(tasklet_unlock_spin_wait);

/* Waits until t is not scheduled and does not run, and keeps it so that long. */
void tasklet_kill(struct tasklet_struct *t)
{
	if (in_interrupt())
		pr_notice("Attempt to kill tasklet from interrupt\n");
	wait_event(tasklet_done, !test_and_set_bit(TASKLET_STATE_SCHED, &t->state));
	tasklet_unlock_wait(t);
	clear_bit(TASKLET_STATE_SCHED, &t->state);
	wake_up_all(&tasklet_done);
}
EXPORT_SYMBOL(tasklet_kill);

static __init int tasklets_init(void)
{
	open_softirq(TASKLET_SOFTIRQ, tasklet_action);
	open_softirq(HI_SOFTIRQ, tasklet_hi_action);
	return 0;
}
early_initcall(tasklets_init);
