/* minmax.h: the smaller and the larger of numbers. */
#ifndef _LINUX_MINMAX_H
#define _LINUX_MINMAX_H
#include <linux/kernel.h>
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define MIN_T(type, a, b) MIN((type)(a), (type)(b))
#define MAX_T(type, a, b) MAX((type)(a), (type)(b))
#define umin(x, y) min((u64)(x), (u64)(y))
#define umax(x, y) max((u64)(x), (u64)(y))
#define clamp_val(val, lo, hi) clamp_t(__typeof__(val), val, lo, hi)
#define min_not_zero(x, y) ({ __typeof__(x) __a = (x); __typeof__(y) __b = (y); __a == 0 ? __b : (__b == 0 ? __a : min(__a, __b)); })
static inline bool in_range64(u64 val, u64 start, u64 len) { return val - start < len; }
static inline bool in_range32(u32 val, u32 start, u32 len) { return val - start < len; }
#define in_range(val, start, len) in_range64(val, start, len)
#endif
