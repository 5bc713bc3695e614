/* ratelimit.h: messages that are left out when there are too many. */
#ifndef _LINUX_RATELIMIT_H
#define _LINUX_RATELIMIT_H
#include <linux/ktime.h>
#include <linux/printk.h>
#include <linux/spinlock.h>
struct ratelimit_state {
	raw_spinlock_t lock;
	int interval;		/* jiffies */
	int burst;
	int printed;
	int missed;
	unsigned long begin;
	unsigned long flags;
};
#define RATELIMIT_MSG_ON_RELEASE 1	/* who has the state says how many were missed */
#define DEFAULT_RATELIMIT_INTERVAL (5 * HZ)
#define DEFAULT_RATELIMIT_BURST 10
#define RATELIMIT_STATE_INIT(name, ival, n) { .lock = __RAW_SPIN_LOCK_UNLOCKED, .interval = (ival), .burst = (n) }
#define DEFINE_RATELIMIT_STATE(name, ival, n) struct ratelimit_state name = RATELIMIT_STATE_INIT(name, ival, n)
static inline void ratelimit_state_init(struct ratelimit_state *rs, int interval, int burst)
{
	*rs = (struct ratelimit_state)RATELIMIT_STATE_INIT(rs, interval, burst);
}
int ___ratelimit(struct ratelimit_state *rs, const char *func);
#define __ratelimit(state) ___ratelimit(state, __func__)
#define printk_ratelimited(fmt, ...) ({ \
	static DEFINE_RATELIMIT_STATE(__rs, DEFAULT_RATELIMIT_INTERVAL, DEFAULT_RATELIMIT_BURST); \
	if (__ratelimit(&__rs)) \
		printk(fmt, ##__VA_ARGS__); })
#define pr_err_ratelimited(fmt, ...) printk_ratelimited(KERN_ERR pr_fmt(fmt), ##__VA_ARGS__)
#define pr_warn_ratelimited(fmt, ...) printk_ratelimited(KERN_WARNING pr_fmt(fmt), ##__VA_ARGS__)
#define pr_notice_ratelimited(fmt, ...) printk_ratelimited(KERN_NOTICE pr_fmt(fmt), ##__VA_ARGS__)
#define pr_info_ratelimited(fmt, ...) printk_ratelimited(KERN_INFO pr_fmt(fmt), ##__VA_ARGS__)
#endif
