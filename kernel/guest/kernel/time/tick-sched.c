/* tick-sched.c: the tick, 250 times a second on busy CPUs, none on idle ones. */
#include <linux/sched.h>
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <asm/traps.h>
#include <trace/events/timer.h>

struct tick_sched {
	struct hrtimer sched_timer;
	bool tick_stopped, running;
};
static DEFINE_PER_CPU(struct tick_sched, tick_cpu_sched);
static raw_spinlock_t jiffies_lock = __RAW_SPIN_LOCK_UNLOCKED;
static ktime_t last_jiffies_update;

void calc_global_load(void);
void run_local_timers(void);
unsigned long get_next_timer_jiffy(bool idle);

/* Updates jiffies. Any CPU may call it. */
noinline void tick_do_update_jiffies64(ktime_t now)
{
	s64 delta;

	if (now < READ_ONCE(last_jiffies_update) + TICK_NSEC)
		return;
	raw_spin_lock(&jiffies_lock);
	delta = now - last_jiffies_update;
	if (delta >= TICK_NSEC) {
		u64 ticks = delta / TICK_NSEC;

		last_jiffies_update += ticks * TICK_NSEC;
		jiffies += ticks;
	}
	raw_spin_unlock(&jiffies_lock);
	calc_global_load();
}

noinline void tick_sched_do_timer(struct tick_sched *ts, ktime_t now)
{
	tick_do_update_jiffies64(now);
}

noinline void account_system_time(struct task_struct *p, int hardirq_offset, u64 cputime)
{
	p->utimescaled += cputime;
}

noinline void account_process_tick(struct task_struct *p, int user_tick)
{
	if (!is_idle_task(p))
		account_system_time(p, HARDIRQ_OFFSET, TICK_NSEC);
}

/* Per-task work of a tick. */
noinline void update_process_times(int user_tick)
{
	struct task_struct *p = current;

	account_process_tick(p, user_tick);
	run_local_timers();
	rcu_sched_clock_irq(user_tick);
	scheduler_tick();
}

noinline void tick_sched_handle(struct tick_sched *ts, struct pt_regs *regs)
{
	update_process_times(0);
}

enum hrtimer_restart tick_sched_timer(struct hrtimer *timer)
{
	struct tick_sched *ts = container_of(timer, struct tick_sched, sched_timer);
	ktime_t now = ktime_get();

	tick_sched_do_timer(ts, now);
	tick_sched_handle(ts, NULL);
	if (ts->tick_stopped)
		return HRTIMER_NORESTART;
	hrtimer_forward(timer, now, TICK_NSEC);
	return HRTIMER_RESTART;
}

void tick_setup_cpu(void)
{
	struct tick_sched *ts = this_cpu_ptr(&tick_cpu_sched);

	hrtimer_init(&ts->sched_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	ts->sched_timer.function = tick_sched_timer;
	if (!last_jiffies_update)
		last_jiffies_update = ktime_get();
	ts->running = true;
	hrtimer_start(&ts->sched_timer, ktime_get() + TICK_NSEC, HRTIMER_MODE_ABS);
}

/* Time of the wheel's jiffy. */
static ktime_t jiffy_to_ktime(unsigned long j)
{
	return last_jiffies_update + (long)(j - jiffies) * TICK_NSEC;
}

/* Called before a halt: sets the next interrupt to the first timer instead of the
 * tick. */
void tick_nohz_idle_stop_tick(void)
{
	struct tick_sched *ts = this_cpu_ptr(&tick_cpu_sched);
	unsigned long next;

	if (!ts->running)
		return;
	next = get_next_timer_jiffy(true);
	if (!ts->tick_stopped)
		trace_tick_stop(1, 0);
	ts->tick_stopped = true;
	if (next)
		hrtimer_start(&ts->sched_timer, jiffy_to_ktime(next), HRTIMER_MODE_ABS);
	else
		hrtimer_cancel(&ts->sched_timer);
}

/* Called in an interrupt of an idle CPU. */
void tick_irq_enter(void)
{
	tick_do_update_jiffies64(ktime_get());
}

void tick_nohz_idle_exit(void)
{
	struct tick_sched *ts = this_cpu_ptr(&tick_cpu_sched);
	unsigned long flags;

	if (!ts->running || !ts->tick_stopped)
		return;
	local_irq_save(flags);
	tick_do_update_jiffies64(ktime_get());
	get_next_timer_jiffy(false);
	ts->tick_stopped = false;
	hrtimer_start(&ts->sched_timer, last_jiffies_update + TICK_NSEC, HRTIMER_MODE_ABS);
	local_irq_restore(flags);
}
