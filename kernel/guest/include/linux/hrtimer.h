/* hrtimer.h: functions called at a nanosecond, from the timer interrupt. */
#ifndef _LINUX_HRTIMER_H
#define _LINUX_HRTIMER_H
#include <linux/ktime.h>
#include <linux/list.h>
struct rb_node_hr { unsigned long __rb_parent_color; void *rb_right, *rb_left; };
struct timerqueue_node { struct list_head node; long __pad; ktime_t expires; };
enum hrtimer_restart { HRTIMER_NORESTART, HRTIMER_RESTART };
enum hrtimer_mode {
	HRTIMER_MODE_ABS, HRTIMER_MODE_REL, HRTIMER_MODE_PINNED, HRTIMER_MODE_ABS_PINNED = HRTIMER_MODE_PINNED,
	HRTIMER_MODE_REL_PINNED, HRTIMER_MODE_SOFT, HRTIMER_MODE_ABS_SOFT = HRTIMER_MODE_SOFT, HRTIMER_MODE_REL_SOFT,
	HRTIMER_MODE_ABS_PINNED_SOFT, HRTIMER_MODE_REL_PINNED_SOFT, HRTIMER_MODE_HARD,
	HRTIMER_MODE_ABS_HARD = HRTIMER_MODE_HARD, HRTIMER_MODE_REL_HARD, HRTIMER_MODE_ABS_PINNED_HARD,
	HRTIMER_MODE_REL_PINNED_HARD
};
#define CLOCK_REALTIME 0
#define CLOCK_MONOTONIC 1
#define CLOCK_BOOTTIME 7
#define HRTIMER_STATE_INACTIVE 0
#define HRTIMER_STATE_ENQUEUED 1
struct hrtimer_clock_base;
struct hrtimer {
	struct timerqueue_node node;
	ktime_t _softexpires;
	enum hrtimer_restart (*function)(struct hrtimer *);
	struct hrtimer_clock_base *base;
	u8 state, is_rel, is_soft, is_hard;
};
static_assert(sizeof(struct hrtimer) == 64, "struct hrtimer");
struct hrtimer_sleeper { struct hrtimer timer; struct task_struct *task; };
void hrtimer_init(struct hrtimer *timer, clockid_t clock_id, enum hrtimer_mode mode);
void hrtimer_start_range_ns(struct hrtimer *timer, ktime_t tim, u64 delta_ns, const enum hrtimer_mode mode);
#define hrtimer_start(t, tim, mode) hrtimer_start_range_ns(t, tim, 0, mode)
int hrtimer_cancel(struct hrtimer *timer);
int hrtimer_try_to_cancel(struct hrtimer *timer);
u64 hrtimer_forward(struct hrtimer *timer, ktime_t now, ktime_t interval);
bool hrtimer_active(const struct hrtimer *timer);
long hrtimer_nanosleep(ktime_t rqtp, const enum hrtimer_mode mode, const clockid_t clockid);
int schedule_hrtimeout_range_clock(ktime_t *expires, u64 delta, const enum hrtimer_mode mode, clockid_t clock_id);
int schedule_hrtimeout_range(ktime_t *expires, u64 delta, const enum hrtimer_mode mode);
int schedule_hrtimeout(ktime_t *expires, const enum hrtimer_mode mode);
void hrtimer_interrupt(void);
static inline u64 hrtimer_forward_now(struct hrtimer *timer, ktime_t interval) { return hrtimer_forward(timer, ktime_get(), interval); }
static inline void hrtimer_set_expires(struct hrtimer *timer, ktime_t time) { timer->node.expires = time; timer->_softexpires = time; }
static inline ktime_t hrtimer_get_expires(const struct hrtimer *timer) { return timer->node.expires; }
#define hrtimer_restart(t) hrtimer_start(t, hrtimer_get_expires(t), HRTIMER_MODE_ABS)
#endif
