/* ktime.h, jiffies.h: nanoseconds since boot, and ticks of HZ = 250. */
#ifndef _LINUX_KTIME_H
#define _LINUX_KTIME_H
#include <linux/types.h>
#define HZ 250
#define NSEC_PER_SEC 1000000000L
#define NSEC_PER_MSEC 1000000L
#define NSEC_PER_USEC 1000L
#define USEC_PER_SEC 1000000L
#define MSEC_PER_SEC 1000L
#define TICK_NSEC (NSEC_PER_SEC / HZ)
#define INITIAL_JIFFIES ((unsigned long)(unsigned int)(-300 * HZ))
#define MAX_JIFFY_OFFSET ((LONG_MAX >> 1) - 1)
#define KTIME_MAX ((s64)~(1ULL << 63))
#define NSEC_PER_JIFFY TICK_NSEC
extern unsigned long volatile jiffies;
#define jiffies_64 (*(volatile u64 *)&jiffies)
static inline u64 get_jiffies_64(void) { return jiffies; }
#define time_after(a, b) ((long)((b) - (a)) < 0)
#define time_before(a, b) time_after(b, a)
#define time_after_eq(a, b) ((long)((a) - (b)) >= 0)
#define time_before_eq(a, b) time_after_eq(b, a)
struct timespec64 { time64_t tv_sec; long tv_nsec; };
int get_timespec64(struct timespec64 *ts, const void __user *uts);

static inline bool timespec64_valid(const struct timespec64 *ts)
{
	return ts->tv_sec >= 0 && (unsigned long)ts->tv_nsec < NSEC_PER_SEC;
}
struct tm { int tm_sec, tm_min, tm_hour, tm_mday, tm_mon; long tm_year; int tm_wday, tm_yday; };
struct __kernel_timespec { long long tv_sec, tv_nsec; };
ktime_t ktime_get(void);
ktime_t ktime_get_with_offset(int offs);
u64 ktime_get_real_ns(void);
time64_t ktime_get_real_seconds(void);
void ktime_get_real_ts64(struct timespec64 *ts);
void ktime_get_coarse_real_ts64(struct timespec64 *ts);
u64 sched_clock(void);
u64 local_clock(void);
static inline u64 ktime_get_ns(void) { return ktime_get(); }
#define ktime_to_ns(kt) (kt)
#define ns_to_ktime(ns) ((ktime_t)(ns))
#define ktime_add_ns(kt, ns) ((kt) + (ns))
#define ktime_add(a, b) ((a) + (b))
#define ktime_sub(a, b) ((a) - (b))
static inline ktime_t ktime_set(s64 secs, unsigned long ns) { return secs * NSEC_PER_SEC + ns; }
static inline ktime_t ms_to_ktime(u64 ms) { return ms * NSEC_PER_MSEC; }
struct timespec64 ns_to_timespec64(s64 nsec);
static inline s64 timespec64_to_ns(const struct timespec64 *ts) { return ts->tv_sec * NSEC_PER_SEC + ts->tv_nsec; }
unsigned int jiffies_to_msecs(unsigned long j);
unsigned int jiffies_to_usecs(unsigned long j);
unsigned long __msecs_to_jiffies(unsigned int m);
unsigned long __usecs_to_jiffies(unsigned int u);
#define msecs_to_jiffies(m) __msecs_to_jiffies(m)
#define usecs_to_jiffies(u) __usecs_to_jiffies(u)
u64 jiffies_to_clock_t_u64(unsigned long x);
clock_t jiffies_to_clock_t(unsigned long x);
unsigned long clock_t_to_jiffies(unsigned long x);
unsigned long timespec64_to_jiffies(const struct timespec64 *value);
void jiffies_to_timespec64(unsigned long j, struct timespec64 *value);
u64 nsecs_to_jiffies64(u64 n);
unsigned long nsecs_to_jiffies(u64 n);
unsigned long round_jiffies(unsigned long j);
ktime_t ktime_get_raw(void);
time64_t ktime_get_seconds(void);
void ktime_get_ts64(struct timespec64 *ts);
struct timespec64 timespec64_add_safe(const struct timespec64 lhs, const struct timespec64 rhs);
void ktime_get_raw_ts64(struct timespec64 *ts);
void ktime_get_coarse_ts64(struct timespec64 *ts);
u64 ktime_get_mono_fast_ns(void);
u64 ktime_get_raw_fast_ns(void);
u64 ktime_get_real_fast_ns(void);
u64 ktime_get_boot_fast_ns(void);
enum tk_offsets { TK_OFFS_REAL, TK_OFFS_BOOT, TK_OFFS_TAI, TK_OFFS_MAX };
static inline ktime_t ktime_get_real(void) { return ktime_get_with_offset(TK_OFFS_REAL); }
static inline ktime_t ktime_get_boottime(void) { return ktime_get_with_offset(TK_OFFS_BOOT); }
static inline u64 ktime_get_boottime_ns(void) { return ktime_get_boottime(); }
static inline u64 ktime_get_raw_ns(void) { return ktime_get_raw(); }
#define ktime_sub_ns(kt, ns) ((kt) - (ns))
#define ktime_add_us(kt, us) ((kt) + (us) * NSEC_PER_USEC)
#define ktime_add_ms(kt, ms) ((kt) + (ms) * NSEC_PER_MSEC)
static inline s64 ktime_to_us(ktime_t kt) { return kt / NSEC_PER_USEC; }
static inline s64 ktime_to_ms(ktime_t kt) { return kt / NSEC_PER_MSEC; }
static inline s64 ktime_us_delta(ktime_t later, ktime_t earlier) { return ktime_to_us(later - earlier); }
static inline s64 ktime_ms_delta(ktime_t later, ktime_t earlier) { return ktime_to_ms(later - earlier); }
static inline int ktime_compare(ktime_t a, ktime_t b) { return a < b ? -1 : a > b; }
static inline bool ktime_after(ktime_t a, ktime_t b) { return a > b; }
static inline bool ktime_before(ktime_t a, ktime_t b) { return a < b; }
static inline ktime_t us_to_ktime(u64 us) { return us * NSEC_PER_USEC; }
static inline ktime_t timespec64_to_ktime(struct timespec64 ts) { return ktime_set(ts.tv_sec, ts.tv_nsec); }
#define ktime_to_timespec64(kt) ns_to_timespec64(kt)
#endif
