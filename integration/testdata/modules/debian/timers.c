// SPDX-License-Identifier: MIT
/* timers uses both kinds of timers. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/jiffies.h>
#include <linux/module.h>
#include <linux/timer.h>

static DECLARE_COMPLETION(fired);
static DECLARE_COMPLETION(rang);
static struct timer_list timer;
static struct hrtimer hrtimer;
static int ticks;
static unsigned long armed;

static void fire(struct timer_list *t)
{
	pr_info("timer: %s, in softirq %d, not early %d\n", t == &timer ? "ours" : "another", in_softirq() != 0,
		time_after_eq(jiffies, armed + 2));
	complete(&fired);
}

static enum hrtimer_restart ring(struct hrtimer *t)
{
	if (++ticks < 3) {
		hrtimer_forward_now(t, ms_to_ktime(5));
		return HRTIMER_RESTART;
	}
	pr_info("hrtimer: %d ticks, in interrupt %d\n", ticks, in_hardirq() != 0);
	complete(&rang);
	return HRTIMER_NORESTART;
}

static int __init timers_init(void)
{
	timer_setup(&timer, fire, 0);
	armed = jiffies;
	mod_timer(&timer, armed + 2);
	pr_info("fired: %d\n", wait_for_completion_timeout(&fired, 10 * HZ) > 0);
	pr_info("pending %d\n", timer_pending(&timer));
	pr_info("deleted %d\n", del_timer(&timer));
	mod_timer(&timer, jiffies + 1000 * HZ);
	pr_info("pending %d\n", timer_pending(&timer));
	pr_info("deleted %d\n", del_timer_sync(&timer));
	hrtimer_init(&hrtimer, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	hrtimer.function = ring;
	hrtimer_start(&hrtimer, ms_to_ktime(5), HRTIMER_MODE_REL);
	pr_info("rang: %d\n", wait_for_completion_timeout(&rang, 10 * HZ) > 0);
	udelay(10);
	mdelay(1);
	pr_info("jiffies of a second %lu, of 8 ms %lu\n", msecs_to_jiffies(1000), msecs_to_jiffies(8));
	return 0;
}

static void __exit timers_exit(void)
{
	pr_info("cancelled: %d\n", hrtimer_cancel(&hrtimer));
	del_timer_sync(&timer);
}

module_init(timers_init);
module_exit(timers_exit);
MODULE_LICENSE("Dual MIT/GPL");
