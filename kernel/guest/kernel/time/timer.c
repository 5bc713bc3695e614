/*
 * timer.c: timers in jiffies. Each CPU has a wheel: levels of 64 slots, each level
 * eight times coarser than the one below. A timer expires at the end of its slot, so
 * it may be late by an eighth of its time.
 */
#include <linux/sched.h>
#include <linux/timer.h>
#include <linux/interrupt.h>
#include <linux/smp.h>
#include <trace/events/timer.h>

#define LVL_BITS 6
#define LVL_SIZE (1UL << LVL_BITS)
#define LVL_MASK (LVL_SIZE - 1)
#define LVL_CLK_SHIFT 3
#define LVL_DEPTH 9
#define LVL_SHIFT(n) ((n) * LVL_CLK_SHIFT)
#define LVL_GRAN(n) (1UL << LVL_SHIFT(n))
#define LVL_START(n) ((LVL_SIZE - 1) << (((n) - 1) * LVL_CLK_SHIFT))
#define LVL_OFFS(n) ((n) * LVL_SIZE)
#define WHEEL_SIZE (LVL_SIZE * LVL_DEPTH)
#define WHEEL_TIMEOUT_CUTOFF LVL_START(LVL_DEPTH)
#define WHEEL_TIMEOUT_MAX (WHEEL_TIMEOUT_CUTOFF - LVL_GRAN(LVL_DEPTH - 1))
#define NEXT_TIMER_MAX_DELTA ((1UL << 30) - 1)

struct timer_base {
	raw_spinlock_t lock;
	struct timer_list *running_timer;
	unsigned long clk, next_expiry;
	unsigned int cpu;
	bool next_expiry_recalc, is_idle;
	unsigned int nr;
	DECLARE_BITMAP(pending_map, WHEEL_SIZE);
	struct hlist_head vectors[WHEEL_SIZE];
} ____cacheline_aligned;
static DEFINE_PER_CPU(struct timer_base, timer_bases);

static unsigned int calc_index(unsigned long expires, unsigned int lvl, unsigned long *bucket_expiry)
{
	expires = (expires >> LVL_SHIFT(lvl)) + 1;
	*bucket_expiry = expires << LVL_SHIFT(lvl);
	return LVL_OFFS(lvl) + (expires & LVL_MASK);
}

/* Returns a timer's slot, and the jiffy at which the slot expires. */
int calc_wheel_index(unsigned long expires, unsigned long clk, unsigned long *bucket_expiry)
{
	unsigned long delta = expires - clk;
	unsigned int lvl;

	if ((long)delta < 0) {
		*bucket_expiry = clk;
		return clk & LVL_MASK;
	}
	for (lvl = 0; lvl < LVL_DEPTH - 1; lvl++)
		if (delta < LVL_START(lvl + 1))
			return calc_index(expires, lvl, bucket_expiry);
	if (delta >= WHEEL_TIMEOUT_CUTOFF)
		expires = clk + WHEEL_TIMEOUT_MAX;
	return calc_index(expires, LVL_DEPTH - 1, bucket_expiry);
}

static unsigned int timer_get_idx(struct timer_list *timer)
{
	return (timer->flags & TIMER_ARRAYMASK) >> TIMER_ARRAYSHIFT;
}


void enqueue_timer(struct timer_base *base, struct timer_list *timer, unsigned int idx, unsigned long bucket_expiry)
{
	hlist_add_head(&timer->entry, base->vectors + idx);
	__set_bit(idx, base->pending_map);
	timer->flags = (timer->flags & ~TIMER_ARRAYMASK) | (idx << TIMER_ARRAYSHIFT);
#if GUEST_LINUX >= 612
	trace_timer_start(timer, bucket_expiry);
#else
	trace_timer_start(timer, timer->expires, timer->flags);
#endif
	base->nr++;
	if (base->nr == 1 || time_before(bucket_expiry, base->next_expiry)) {
		base->next_expiry = bucket_expiry;
		base->next_expiry_recalc = false;
		if (base->is_idle && base->cpu != smp_processor_id())
			smp_send_reschedule(base->cpu);
	}
}

static void internal_add_timer(struct timer_base *base, struct timer_list *timer)
{
	unsigned long bucket_expiry;
	unsigned int idx = calc_wheel_index(timer->expires, base->clk, &bucket_expiry);

	enqueue_timer(base, timer, idx, bucket_expiry);
}

static void detach_timer(struct timer_list *timer, bool clear_pending)
{
	struct hlist_node *entry = &timer->entry;

	trace_timer_cancel(timer);
	__hlist_del(entry);
	if (clear_pending)
		entry->pprev = NULL;
	entry->next = LIST_POISON2;
}

noinline int detach_if_pending(struct timer_list *timer, struct timer_base *base, bool clear_pending)
{
	unsigned int idx = timer_get_idx(timer);

	if (!timer_pending(timer))
		return 0;
	detach_timer(timer, clear_pending);
	base->nr--;
	if (hlist_empty(base->vectors + idx)) {
		__clear_bit(idx, base->pending_map);
		base->next_expiry_recalc = true;
	}
	return 1;
}

static struct timer_base *get_timer_base(u32 tflags)
{
	return per_cpu_ptr(&timer_bases, tflags & TIMER_CPUMASK);
}

/* Locks the timer's base, which may change meanwhile. */
struct timer_base *lock_timer_base(struct timer_list *timer, unsigned long *flags)
{
	for (;;) {
		u32 tf = READ_ONCE(timer->flags);
		struct timer_base *base = get_timer_base(tf);

		if (!(tf & TIMER_MIGRATING)) {
			raw_spin_lock_irqsave(&base->lock, *flags);
			if ((timer->flags & (TIMER_CPUMASK | TIMER_MIGRATING)) == (tf & TIMER_CPUMASK))
				return base;
			raw_spin_unlock_irqrestore(&base->lock, *flags);
		}
		cpu_relax();
	}
}

/* Advances the clock of an idle base, but not past its next timer. */
static void forward_timer_base(struct timer_base *base)
{
	unsigned long now = READ_ONCE(jiffies);

	if (time_before_eq(now, base->clk))
		return;
	if (!base->nr || time_after(base->next_expiry, now))
		base->clk = now;
	else if (time_after(base->next_expiry, base->clk))
		base->clk = base->next_expiry;
}

static notrace int __mod_timer(struct timer_list *timer, unsigned long expires, bool pending_only)
{
	struct timer_base *base, *new_base;
	unsigned long flags;
	int ret;

	base = lock_timer_base(timer, &flags);
	if (!timer->function) { /* shut down */
		raw_spin_unlock_irqrestore(&base->lock, flags);
		return 0;
	}
	ret = detach_if_pending(timer, base, false);
	if (!ret && pending_only)
		goto out_unlock;
	new_base = timer->flags & TIMER_PINNED ? base : this_cpu_ptr(&timer_bases);
	if (base != new_base && base->running_timer != timer) {
		timer->flags |= TIMER_MIGRATING;
		raw_spin_unlock(&base->lock);
		base = new_base;
		raw_spin_lock(&base->lock);
		WRITE_ONCE(timer->flags, (timer->flags & ~(TIMER_CPUMASK | TIMER_MIGRATING)) | base->cpu);
	}
	forward_timer_base(base);
	timer->expires = expires;
	internal_add_timer(base, timer);
out_unlock:
	raw_spin_unlock_irqrestore(&base->lock, flags);
	return ret;
}

/* Sets when the timer expires; reports whether it was pending. */
int mod_timer(struct timer_list *timer, unsigned long expires)
{
	return __mod_timer(timer, expires, false);
}
EXPORT_SYMBOL(mod_timer);

int mod_timer_pending(struct timer_list *timer, unsigned long expires)
{
	return __mod_timer(timer, expires, true);
}
EXPORT_SYMBOL(mod_timer_pending);

void add_timer(struct timer_list *timer)
{
	BUG_ON(timer_pending(timer));
	__mod_timer(timer, timer->expires, false);
}
EXPORT_SYMBOL(add_timer);

void add_timer_on(struct timer_list *timer, int cpu)
{
	struct timer_base *base = per_cpu_ptr(&timer_bases, cpu);
	unsigned long flags;

	BUG_ON(timer_pending(timer));
	if (!timer->function) /* shut down */
		return;
	raw_spin_lock_irqsave(&base->lock, flags);
	WRITE_ONCE(timer->flags, (timer->flags & ~TIMER_CPUMASK) | cpu);
	forward_timer_base(base);
	internal_add_timer(base, timer);
	raw_spin_unlock_irqrestore(&base->lock, flags);
}
EXPORT_SYMBOL(add_timer_on);

/* Returns whether the timer was pending. Its function may still be running. */
int timer_delete(struct timer_list *timer)
{
	struct timer_base *base;
	unsigned long flags;
	int ret = 0;

	if (timer_pending(timer)) {
		base = lock_timer_base(timer, &flags);
		ret = detach_if_pending(timer, base, true);
		raw_spin_unlock_irqrestore(&base->lock, flags);
	}
	return ret;
}
EXPORT_SYMBOL(timer_delete);

/* Returns -1 while the function is running. */
int try_to_del_timer_sync(struct timer_list *timer)
{
	struct timer_base *base;
	unsigned long flags;
	int ret = -1;

	base = lock_timer_base(timer, &flags);
	if (base->running_timer != timer)
		ret = detach_if_pending(timer, base, true);
	raw_spin_unlock_irqrestore(&base->lock, flags);
	return ret;
}
EXPORT_SYMBOL(try_to_del_timer_sync);

noinline int timer_delete_sync(struct timer_list *timer)
{
	int ret;

	while ((ret = try_to_del_timer_sync(timer)) < 0)
		cpu_relax();
	return ret;
}
EXPORT_SYMBOL(timer_delete_sync);

/* Ends a timer for good: it cannot be started again before it is initialized. */
int timer_shutdown_sync(struct timer_list *timer)
{
	int ret;

	while ((ret = try_to_del_timer_sync(timer)) < 0)
		cpu_relax();
	timer->function = NULL;
	return ret;
}
EXPORT_SYMBOL_GPL(timer_shutdown_sync);

void init_timer_key(struct timer_list *timer, void (*func)(struct timer_list *), unsigned int flags,
		    const char *name, struct lock_class_key *key)
{
	timer->entry.pprev = NULL;
	timer->function = func;
	timer->flags = flags | smp_processor_id();
	trace_timer_init(timer);
}
EXPORT_SYMBOL(init_timer_key);

void call_timer_fn(struct timer_list *timer, void (*fn)(struct timer_list *), unsigned long baseclk)
{
	int count = preempt_count();

	trace_timer_expire_entry(timer, baseclk);
	fn(timer);
	trace_timer_expire_exit(timer);
	if (count != preempt_count())
		WARN_ONCE(1, "timer: %pS preempt leak\n", fn);
}

static void expire_timers(struct timer_base *base, struct hlist_head *head)
{
	while (!hlist_empty(head)) {
		struct timer_list *timer = hlist_entry(head->first, struct timer_list, entry);
		void (*fn)(struct timer_list *) = timer->function;

		base->running_timer = timer;
		detach_timer(timer, true);
		base->nr--;
		raw_spin_unlock_irq(&base->lock);
		call_timer_fn(timer, fn, base->clk - 1);
		raw_spin_lock_irq(&base->lock);
		base->running_timer = NULL;
	}
}

/* Collects the slots of all levels that expire at base->clk. */
static int collect_expired_timers(struct timer_base *base, struct hlist_head *heads)
{
	unsigned long clk = base->clk;
	int i, levels = 0;

	for (i = 0; i < LVL_DEPTH; i++) {
		unsigned int idx = (clk & LVL_MASK) + i * LVL_SIZE;

		if (test_bit(idx, base->pending_map)) {
			__clear_bit(idx, base->pending_map);
			heads[levels] = base->vectors[idx];
			if (heads[levels].first)
				heads[levels].first->pprev = &heads[levels].first;
			base->vectors[idx].first = NULL;
			levels++;
		}
		if (clk & ((1UL << LVL_CLK_SHIFT) - 1))
			break;
		clk >>= LVL_CLK_SHIFT;
	}
	return levels;
}

/* Returns the distance from offset+start to the first slot with timers, or -1. */
static int next_pending_bucket(struct timer_base *base, unsigned int offset, unsigned int clk)
{
	unsigned int i;

	for (i = 0; i < LVL_SIZE; i++)
		if (test_bit(offset + ((clk + i) & LVL_MASK), base->pending_map))
			return i;
	return -1;
}

/* Returns the first jiffy at which a slot with timers expires. */
unsigned long __next_timer_interrupt(struct timer_base *base)
{
	unsigned long clk = base->clk, next = base->clk + NEXT_TIMER_MAX_DELTA, adj;
	unsigned int lvl;

	for (lvl = 0; lvl < LVL_DEPTH; lvl++) {
		int pos = next_pending_bucket(base, lvl * LVL_SIZE, clk & LVL_MASK);
		unsigned long lvl_clk = clk & ((1UL << LVL_CLK_SHIFT) - 1);

		if (pos >= 0) {
			unsigned long tmp = (clk + pos) << LVL_SHIFT(lvl);

			if (time_before(tmp, next))
				next = tmp;
		}
		adj = lvl_clk ? 1 : 0;
		clk = (clk >> LVL_CLK_SHIFT) + adj;
	}
	base->next_expiry_recalc = false;
	return next;
}

static noinline notrace void __run_timers(struct timer_base *base)
{
	struct hlist_head heads[LVL_DEPTH];
	int levels;

	if (!base->nr)
		return;
	raw_spin_lock_irq(&base->lock);
	while (base->nr && time_after_eq(jiffies, base->next_expiry)) {
		base->clk = base->next_expiry;
		levels = collect_expired_timers(base, heads);
		base->clk++;
		while (levels--)
			expire_timers(base, heads + levels);
		base->next_expiry = __next_timer_interrupt(base);
	}
	raw_spin_unlock_irq(&base->lock);
}

static __used void run_timer_softirq(struct softirq_action *h)
{
	__run_timers(this_cpu_ptr(&timer_bases));
	barrier(); /* no tail call: Linux has a second base, so this is in its stack traces */
}

/* Called in the tick. */
void run_local_timers(void)
{
	struct timer_base *base = this_cpu_ptr(&timer_bases);

	if (base->nr && time_after_eq(jiffies, base->next_expiry))
		raise_softirq(TIMER_SOFTIRQ);
}

/* Returns the next jiffy at which this CPU's wheel has work, or 0. idle tells whether
 * the tick stops. */
unsigned long get_next_timer_jiffy(bool idle)
{
	struct timer_base *base = this_cpu_ptr(&timer_bases);
	unsigned long next = 0;

	raw_spin_lock(&base->lock);
	if (base->next_expiry_recalc)
		base->next_expiry = __next_timer_interrupt(base);
	if (base->nr)
		next = base->next_expiry ?: 1;
	base->is_idle = idle;
	raw_spin_unlock(&base->lock);
	return next;
}

struct process_timer { struct timer_list timer; struct task_struct *task; };

static void process_timeout(struct timer_list *t)
{
	struct process_timer *timeout = from_timer(timeout, t, timer);

	wake_up_process(timeout->task);
}

/* Sleeps in the state that the caller has set, and returns the remaining jiffies. */
noinline signed long schedule_timeout(signed long timeout)
{
	struct process_timer timer;
	unsigned long expire;

	if (timeout == MAX_SCHEDULE_TIMEOUT) {
		schedule();
		return timeout;
	}
	if (timeout < 0) {
		__set_current_state(TASK_RUNNING);
		return 0;
	}
	expire = timeout + jiffies;
	timer.task = current;
	timer_setup_on_stack(&timer.timer, process_timeout, 0);
	__mod_timer(&timer.timer, expire, false);
	schedule();
	del_timer_sync(&timer.timer);
	timeout = expire - jiffies;
	return timeout < 0 ? 0 : timeout;
}
EXPORT_SYMBOL(schedule_timeout);

signed long schedule_timeout_interruptible(signed long timeout)
{
	__set_current_state(TASK_INTERRUPTIBLE);
	return schedule_timeout(timeout);
}
EXPORT_SYMBOL(schedule_timeout_interruptible);

signed long schedule_timeout_killable(signed long timeout)
{
	__set_current_state(TASK_KILLABLE);
	return schedule_timeout(timeout);
}
EXPORT_SYMBOL(schedule_timeout_killable);

signed long schedule_timeout_uninterruptible(signed long timeout)
{
	__set_current_state(TASK_UNINTERRUPTIBLE);
	return schedule_timeout(timeout);
}
EXPORT_SYMBOL(schedule_timeout_uninterruptible);

signed long schedule_timeout_idle(signed long timeout)
{
	__set_current_state(TASK_IDLE);
	return schedule_timeout(timeout);
}
EXPORT_SYMBOL(schedule_timeout_idle);

void msleep(unsigned int msecs)
{
	unsigned long timeout = msecs_to_jiffies(msecs) + 1;

	while (timeout)
		timeout = schedule_timeout_uninterruptible(timeout);
}
EXPORT_SYMBOL(msleep);

/* Returns the remaining milliseconds if interrupted by a signal. */
unsigned long msleep_interruptible(unsigned int msecs)
{
	unsigned long timeout = msecs_to_jiffies(msecs) + 1;

	while (timeout && !signal_pending(current))
		timeout = schedule_timeout_interruptible(timeout);
	return jiffies_to_msecs(timeout);
}
EXPORT_SYMBOL(msleep_interruptible);

void __init init_timers(void)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		struct timer_base *base = per_cpu_ptr(&timer_bases, cpu);

		base->cpu = cpu;
		raw_spin_lock_init(&base->lock);
		base->clk = jiffies;
		base->next_expiry = base->clk + NEXT_TIMER_MAX_DELTA;
	}
	open_softirq(TIMER_SOFTIRQ, run_timer_softirq);
}

int timer_shutdown(struct timer_list *timer)
{
	int ret = timer_delete(timer);

	WRITE_ONCE(timer->function, NULL);
	return ret;
}
EXPORT_SYMBOL_GPL(timer_shutdown);

/* Starts the timer, or makes it expire earlier, never later. */
int timer_reduce(struct timer_list *timer, unsigned long expires)
{
	if (timer_pending(timer) && time_before_eq(timer->expires, expires))
		return 1;
	return __mod_timer(timer, expires, false);
}
EXPORT_SYMBOL(timer_reduce);
