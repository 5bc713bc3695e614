#ifndef _LINUX_MATH_H
#define _LINUX_MATH_H
#include <linux/types.h>
#define DIV_ROUND_UP(n, d) (((n) + (d) - 1) / (d))
#define DIV_ROUND_UP_ULL(n, d) DIV_ROUND_UP((unsigned long long)(n), (d))
#define DIV_ROUND_CLOSEST(x, d) (((x) + ((d) / 2)) / (d))
#define roundup(x, y) ((((x) + ((y) - 1)) / (y)) * (y))
#define rounddown(x, y) ((x) - ((x) % (y)))
#define round_up(x, y) ((((x) - 1) | ((__typeof__(x))((y) - 1))) + 1)
#define round_down(x, y) ((x) & ~((__typeof__(x))((y) - 1)))
#define abs(x) ({ __typeof__(x) __a = (x); __a < 0 ? -__a : __a; })
#define do_div(n, base) ({ u32 __b = (base); u32 __r = (u64)(n) % __b; (n) = (u64)(n) / __b; __r; })
static inline u64 div_u64_rem(u64 n, u32 d, u32 *r) { *r = n % d; return n / d; }
static inline s64 div_s64_rem(s64 n, s32 d, s32 *r) { *r = n % d; return n / d; }
static inline u64 div64_u64_rem(u64 n, u64 d, u64 *r) { *r = n % d; return n / d; }
static inline u64 div64_u64(u64 n, u64 d) { return n / d; }
static inline s64 div64_s64(s64 n, s64 d) { return n / d; }
static inline u64 div_u64(u64 n, u32 d) { return n / d; }
static inline s64 div_s64(s64 n, s32 d) { return n / d; }
static inline u64 mul_u32_u32(u32 a, u32 b) { return (u64)a * b; }
static inline u64 mul_u64_u32_shr(u64 a, u32 m, unsigned int s) { return (u64)(((unsigned __int128)a * m) >> s); }
static inline u64 mul_u64_u64_shr(u64 a, u64 m, unsigned int s) { return (u64)(((unsigned __int128)a * m) >> s); }
#endif
