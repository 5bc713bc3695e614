#ifndef _TRACE_TIMER_H
#define _TRACE_TIMER_H
#include <linux/tracepoint.h>
struct timer_list;
struct hrtimer;
DECLARE_TRACE(timer_init, TP_PROTO(struct timer_list *timer), TP_ARGS(timer))
#if GUEST_LINUX >= 612
DECLARE_TRACE(timer_start, TP_PROTO(struct timer_list *timer, unsigned long bucket_expiry), TP_ARGS(timer, bucket_expiry))
#else
DECLARE_TRACE(timer_start, TP_PROTO(struct timer_list *timer, unsigned long expires, unsigned int flags), TP_ARGS(timer, expires, flags))
#endif
DECLARE_TRACE(timer_expire_entry, TP_PROTO(struct timer_list *timer, unsigned long baseclk), TP_ARGS(timer, baseclk))
DECLARE_TRACE(timer_expire_exit, TP_PROTO(struct timer_list *timer), TP_ARGS(timer))
DECLARE_TRACE(timer_cancel, TP_PROTO(struct timer_list *timer), TP_ARGS(timer))
DECLARE_TRACE(hrtimer_init, TP_PROTO(struct hrtimer *hrtimer, clockid_t clockid, int mode), TP_ARGS(hrtimer, clockid, mode))
#if GUEST_LINUX < 601
DECLARE_TRACE(hrtimer_start, TP_PROTO(struct hrtimer *hrtimer, int mode), TP_ARGS(hrtimer, mode))
#else
DECLARE_TRACE(hrtimer_start, TP_PROTO(struct hrtimer *hrtimer, int mode, bool was_armed), TP_ARGS(hrtimer, mode, was_armed))
#endif
DECLARE_TRACE(hrtimer_expire_entry, TP_PROTO(struct hrtimer *hrtimer, ktime_t *now), TP_ARGS(hrtimer, now))
DECLARE_TRACE(hrtimer_expire_exit, TP_PROTO(struct hrtimer *hrtimer), TP_ARGS(hrtimer))
DECLARE_TRACE(hrtimer_cancel, TP_PROTO(struct hrtimer *hrtimer), TP_ARGS(hrtimer))
DECLARE_TRACE(tick_stop, TP_PROTO(int success, int dependency), TP_ARGS(success, dependency))
#endif
