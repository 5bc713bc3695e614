/* timer.h: functions called at a jiffy, from the timer softirq. */
#ifndef _LINUX_TIMER_H
#define _LINUX_TIMER_H
#include <linux/list.h>
#include <linux/ktime.h>
struct lock_class_key;
struct timer_list {
	struct hlist_node entry;
	unsigned long expires;
	void (*function)(struct timer_list *);
	u32 flags;	/* TIMER_CPUMASK, TIMER_ARRAYMASK */
};
static_assert(sizeof(struct timer_list) == 40, "struct timer_list");
#define TIMER_CPUMASK 0x0003ffff
#define TIMER_MIGRATING 0x00040000
#define TIMER_PINNED 0x00100000
#define TIMER_IRQSAFE 0x00200000
#define TIMER_ARRAYSHIFT 22
#define TIMER_ARRAYMASK 0xffc00000
#define __TIMER_INITIALIZER(fn, fl) { .function = (fn), .flags = (fl) }
#define DEFINE_TIMER(n, fn) struct timer_list n = __TIMER_INITIALIZER(fn, 0)
void init_timer_key(struct timer_list *timer, void (*func)(struct timer_list *), unsigned int flags,
		    const char *name, struct lock_class_key *key);
#define timer_setup(t, cb, fl) init_timer_key((t), (cb), (fl), NULL, NULL)
#define timer_setup_on_stack timer_setup
#define destroy_timer_on_stack(t) do { } while (0)
#define from_timer(var, cb, field) container_of(cb, __typeof__(*var), field)
static inline int timer_pending(const struct timer_list *t) { return t->entry.pprev != NULL; }
void add_timer(struct timer_list *timer);
void add_timer_on(struct timer_list *timer, int cpu);
int mod_timer(struct timer_list *timer, unsigned long expires);
int timer_delete(struct timer_list *timer);
int timer_shutdown_sync(struct timer_list *timer);
int timer_delete_sync(struct timer_list *timer);
#define del_timer(t) timer_delete(t)
#define del_timer_sync(t) timer_delete_sync(t)
void msleep(unsigned int msecs);
long schedule_timeout(long timeout);
long schedule_timeout_interruptible(long timeout);
long schedule_timeout_killable(long timeout);
long schedule_timeout_uninterruptible(long timeout);
int timer_shutdown(struct timer_list *timer);
int timer_reduce(struct timer_list *timer, unsigned long expires);
#endif
