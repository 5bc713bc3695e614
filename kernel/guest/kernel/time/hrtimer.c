/*
 * hrtimer.c: timers of nanosecond resolution. Each CPU has a list sorted by expiry,
 * and its timer interrupt is set to the first one. The tick is one of these timers.
 */
#include <linux/sched.h>
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/uaccess.h>
#include <linux/syscalls.h>
#include <linux/host.h>
#include <linux/string.h>
#include <asm/host.h>
#include <trace/events/timer.h>

struct hrtimer_clock_base {
	raw_spinlock_t lock;
	unsigned int cpu;
	struct hrtimer *running;
	struct list_head active;	/* by expiry */
	ktime_t next_event;		/* time for which the hardware is armed, 0 if disarmed */
	unsigned long __pad;
	ktime_t (*get_time)(void);	/* called by modules (hrtimer_cb_get_time): offset 48, as in 6.1 */
};
static_assert(offsetof(struct hrtimer_clock_base, get_time) == 48, "struct hrtimer_clock_base");
static DEFINE_PER_CPU(struct hrtimer_clock_base, hrtimer_bases);

static struct hrtimer *first_hrtimer(struct hrtimer_clock_base *base)
{
	return list_first_entry_or_null(&base->active, struct hrtimer, node.node);
}

noinline void __hrtimer_init(struct hrtimer *timer, clockid_t clock_id, enum hrtimer_mode mode)
{
	memset(timer, 0, sizeof(*timer));
	INIT_LIST_HEAD(&timer->node.node);
	timer->base = this_cpu_ptr(&hrtimer_bases);
}

void hrtimer_init(struct hrtimer *timer, clockid_t clock_id, enum hrtimer_mode mode)
{
	trace_hrtimer_init(timer, clock_id, mode);
	__hrtimer_init(timer, clock_id, mode);
}
EXPORT_SYMBOL(hrtimer_init);

static noinline void tick_program_event(struct hrtimer_clock_base *base, ktime_t expires)
{
	if (base->next_event == expires)
		return;
	base->next_event = expires;
	hypercall1(HC_SET_TIMER, expires);
}

/* Arms this CPU's timer for its first hrtimer. */
noinline void hrtimer_reprogram(struct hrtimer_clock_base *base)
{
	struct hrtimer *t = first_hrtimer(base);

	tick_program_event(base, t ? t->node.expires : 0);
}

/* Returns whether the timer became the first one. */
bool enqueue_hrtimer(struct hrtimer *timer, struct hrtimer_clock_base *base, enum hrtimer_mode mode, bool was_armed)
{
	struct hrtimer *pos;

#if GUEST_LINUX < 601
	trace_hrtimer_start(timer, mode);
#else
	trace_hrtimer_start(timer, mode, was_armed);
#endif
	list_for_each_entry(pos, &base->active, node.node)
		if (timer->node.expires < pos->node.expires)
			break;
	list_add_tail(&timer->node.node, &pos->node.node);
	timer->state = HRTIMER_STATE_ENQUEUED;
	return first_hrtimer(base) == timer;
}

static noinline void __remove_hrtimer(struct hrtimer *timer, struct hrtimer_clock_base *base, u8 newstate)
{
	if (!(timer->state & HRTIMER_STATE_ENQUEUED))
		return;
	list_del_init(&timer->node.node);
	timer->state = newstate;
}

/* Returns whether the timer was queued. */
static bool remove_hrtimer(struct hrtimer *timer, struct hrtimer_clock_base *base)
{
	if (!(timer->state & HRTIMER_STATE_ENQUEUED))
		return false;
	trace_hrtimer_cancel(timer);
	__remove_hrtimer(timer, base, HRTIMER_STATE_INACTIVE);
	return true;
}

static struct hrtimer_clock_base *lock_hrtimer_base(struct hrtimer *timer, unsigned long *flags)
{
	for (;;) {
		struct hrtimer_clock_base *base = READ_ONCE(timer->base);

		raw_spin_lock_irqsave(&base->lock, *flags);
		if (base == timer->base)
			return base;
		raw_spin_unlock_irqrestore(&base->lock, *flags);
	}
}

/* tim is absolute, or relative to now with HRTIMER_MODE_REL. */
void hrtimer_start_range_ns(struct hrtimer *timer, ktime_t tim, u64 delta_ns, const enum hrtimer_mode mode)
{
	struct hrtimer_clock_base *base, *here;
	unsigned long flags;
	bool was_armed;

	base = lock_hrtimer_base(timer, &flags);
	was_armed = remove_hrtimer(timer, base);
	here = this_cpu_ptr(&hrtimer_bases);
	if (base != here && base->running != timer) {
		timer->base = here;
		raw_spin_unlock(&base->lock);
		raw_spin_lock(&here->lock);
		base = here;
	}
	if (mode & HRTIMER_MODE_REL)
		tim += ktime_get();
	timer->_softexpires = tim;
	timer->node.expires = tim + delta_ns;
	if (enqueue_hrtimer(timer, base, mode, was_armed) && base == here)
		hrtimer_reprogram(base);
	raw_spin_unlock_irqrestore(&base->lock, flags);
}
EXPORT_SYMBOL(hrtimer_start_range_ns);

/* Returns 1 if the timer was active, 0 if not, -1 if its function is running. */
int hrtimer_try_to_cancel(struct hrtimer *timer)
{
	struct hrtimer_clock_base *base;
	unsigned long flags;
	int ret = -1;

	base = lock_hrtimer_base(timer, &flags);
	if (base->running != timer)
		ret = remove_hrtimer(timer, base);
	raw_spin_unlock_irqrestore(&base->lock, flags);
	return ret;
}
EXPORT_SYMBOL(hrtimer_try_to_cancel);

int hrtimer_cancel(struct hrtimer *timer)
{
	int ret;

	while ((ret = hrtimer_try_to_cancel(timer)) < 0)
		cpu_relax();
	return ret;
}
EXPORT_SYMBOL(hrtimer_cancel);

bool hrtimer_active(const struct hrtimer *timer)
{
	return timer->state != HRTIMER_STATE_INACTIVE || timer->base->running == timer;
}
EXPORT_SYMBOL(hrtimer_active);

/* Advances the expiry past now by whole intervals and returns their number. */
u64 hrtimer_forward(struct hrtimer *timer, ktime_t now, ktime_t interval)
{
	s64 delta = now - timer->node.expires;
	u64 orun = 1;

	if (delta < 0)
		return 0;
	if (delta >= interval)
		orun = delta / interval + 1;
	timer->node.expires += orun * interval;
	timer->_softexpires = timer->node.expires;
	return orun;
}
EXPORT_SYMBOL(hrtimer_forward);

static void __run_hrtimer(struct hrtimer_clock_base *base, struct hrtimer *timer, ktime_t *now)
{
	enum hrtimer_restart restart;

	trace_hrtimer_cancel(timer);
	base->running = timer;
	__remove_hrtimer(timer, base, HRTIMER_STATE_INACTIVE);
	raw_spin_unlock(&base->lock);
	trace_hrtimer_expire_entry(timer, now);
	restart = timer->function(timer);
	trace_hrtimer_expire_exit(timer);
	raw_spin_lock(&base->lock);
	if (restart != HRTIMER_NORESTART && !(timer->state & HRTIMER_STATE_ENQUEUED))
		enqueue_hrtimer(timer, base, HRTIMER_MODE_ABS, false);
	base->running = NULL;
}

static noinline void __hrtimer_run_queues(struct hrtimer_clock_base *base, ktime_t now)
{
	struct hrtimer *timer;

	while ((timer = first_hrtimer(base)) && timer->node.expires <= now)
		__run_hrtimer(base, timer, &now);
}

/* The CPU's timer interrupt. */
void hrtimer_interrupt(void)
{
	struct hrtimer_clock_base *base = this_cpu_ptr(&hrtimer_bases);

	raw_spin_lock(&base->lock);
	base->next_event = 0;
	__hrtimer_run_queues(base, ktime_get());
	hrtimer_reprogram(base);
	raw_spin_unlock(&base->lock);
}

static enum hrtimer_restart hrtimer_wakeup(struct hrtimer *timer)
{
	struct hrtimer_sleeper *t = container_of(timer, struct hrtimer_sleeper, timer);
	struct task_struct *task = t->task;

	t->task = NULL;
	if (task)
		wake_up_process(task);
	return HRTIMER_NORESTART;
}

/* Returns 0 on expiry, and -ERESTART_RESTARTBLOCK on a signal. */
static __noipa int do_nanosleep(struct hrtimer_sleeper *t, enum hrtimer_mode mode)
{
	int ret;

	if (host_mirrors()) {
		t->task = NULL; /* the host wakes it */
		hrtimer_start(&t->timer, t->timer.node.expires, mode);
		ret = host_made();
		hrtimer_cancel(&t->timer);
		return ret;
	}
	do {
		set_current_state(TASK_INTERRUPTIBLE);
		hrtimer_start(&t->timer, t->timer.node.expires, mode);
		if (t->task)
			schedule();
		hrtimer_cancel(&t->timer);
		mode = HRTIMER_MODE_ABS;
	} while (t->task && !signal_pending(current));
	__set_current_state(TASK_RUNNING);
	return t->task ? -ERESTART_RESTARTBLOCK : 0;
}

/* Sleeps until a time, or for ever if there is none. Returns 0 when it has come, -EINTR if the
 * task was woken before. In a mirrored call the host wakes it. */
noinline __noclone int schedule_hrtimeout_range_clock(ktime_t *expires, u64 delta, const enum hrtimer_mode mode, clockid_t clock_id)
{
	struct hrtimer_sleeper t = { .task = current };
	bool woken = false;

	if (expires && !*expires) {
		__set_current_state(TASK_RUNNING);
		return 0;
	}
	if (expires) {
		hrtimer_init(&t.timer, clock_id, mode);
		t.timer.function = hrtimer_wakeup;
		if (host_mirrors())
			t.task = NULL;
		hrtimer_start_range_ns(&t.timer, *expires, delta, mode);
	}
	if (host_mirrors())
		woken = host_made();	/* otherwise the call returns 0 */
	else if (t.task)
		schedule();
	if (expires)
		hrtimer_cancel(&t.timer);
	__set_current_state(TASK_RUNNING);
	return expires && !t.task && !woken ? 0 : -EINTR;
}
EXPORT_SYMBOL_GPL(schedule_hrtimeout_range_clock);

int schedule_hrtimeout_range(ktime_t *expires, u64 delta, const enum hrtimer_mode mode)
{
	return schedule_hrtimeout_range_clock(expires, delta, mode, CLOCK_MONOTONIC);
}
EXPORT_SYMBOL_GPL(schedule_hrtimeout_range);

int schedule_hrtimeout(ktime_t *expires, const enum hrtimer_mode mode)
{
	return schedule_hrtimeout_range(expires, 0, mode);
}
EXPORT_SYMBOL_GPL(schedule_hrtimeout);

/* Sleeps at least min microseconds, whatever wakes the task. */
void usleep_range_state(unsigned long min, unsigned long max, unsigned int state)
{
	struct hrtimer_sleeper t;
	ktime_t end = ktime_get() + min * NSEC_PER_USEC;

	hrtimer_init(&t.timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	t.timer.function = hrtimer_wakeup;
	t.task = current;
	while (t.task) {
		set_current_state(state);
		hrtimer_start(&t.timer, end, HRTIMER_MODE_ABS);
		if (t.task)
			schedule();
	}
	hrtimer_cancel(&t.timer);
	__set_current_state(TASK_RUNNING);
}
EXPORT_SYMBOL(usleep_range_state);

noinline __noclone void hrtimer_init_sleeper(struct hrtimer_sleeper *sl, clockid_t clock_id, enum hrtimer_mode mode)
{
	hrtimer_init(&sl->timer, clock_id, mode);
	sl->timer.function = hrtimer_wakeup;
	sl->task = current;
}

noinline long hrtimer_nanosleep(ktime_t rqtp, const enum hrtimer_mode mode, const clockid_t clockid)
{
	struct hrtimer_sleeper t;

	hrtimer_init_sleeper(&t, clockid, mode);
	t.timer.node.expires = rqtp;
	return do_nanosleep(&t, mode);
}

SYSCALL_DEFINE2(nanosleep, struct timespec64 __user *, rqtp, struct timespec64 __user *, rmtp)
{
	struct timespec64 tu;

	if (get_timespec64(&tu, rqtp))
		return -EFAULT;
	if (!timespec64_valid(&tu))
		return -EINVAL;
	return hrtimer_nanosleep(timespec64_to_ns(&tu), HRTIMER_MODE_REL, CLOCK_MONOTONIC);
}

void __init hrtimers_init(void)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		struct hrtimer_clock_base *base = per_cpu_ptr(&hrtimer_bases, cpu);

		base->get_time = ktime_get;
		base->cpu = cpu;
		raw_spin_lock_init(&base->lock);
		INIT_LIST_HEAD(&base->active);
	}
}
