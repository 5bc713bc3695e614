/* bitops.h: single bits of long words. */
#ifndef _LINUX_BITOPS_H
#define _LINUX_BITOPS_H
#include <linux/types.h>
#include <asm/alternative.h>
#define BIT(n) (1UL << (n))
#define BIT_ULL(n) (1ULL << (n))
#define BIT_MASK(nr) (1UL << ((nr) % 64))
#define BIT_WORD(nr) ((nr) / 64)
#define GENMASK(h, l) (((~0UL) << (l)) & (~0UL >> (63 - (h))))
#define __BITADDR(nr, addr) (((volatile unsigned long *)(addr))[(nr) >> 6])
static __always_inline void set_bit(long nr, volatile unsigned long *a)
{ __asm__ __volatile__(LOCK_PREFIX "btsq %1,%0" : "+m"(__BITADDR(nr, a)) : "r"(nr & 63) : "memory", "cc"); }
static __always_inline void clear_bit(long nr, volatile unsigned long *a)
{ __asm__ __volatile__(LOCK_PREFIX "btrq %1,%0" : "+m"(__BITADDR(nr, a)) : "r"(nr & 63) : "memory", "cc"); }
static __always_inline void change_bit(long nr, volatile unsigned long *a)
{ __asm__ __volatile__(LOCK_PREFIX "btcq %1,%0" : "+m"(__BITADDR(nr, a)) : "r"(nr & 63) : "memory", "cc"); }
static __always_inline bool test_and_set_bit(long nr, volatile unsigned long *a)
{ bool c; __asm__ __volatile__(LOCK_PREFIX "btsq %2,%0" : "+m"(__BITADDR(nr, a)), "=@ccc"(c) : "r"(nr & 63) : "memory"); return c; }
static __always_inline bool test_and_clear_bit(long nr, volatile unsigned long *a)
{ bool c; __asm__ __volatile__(LOCK_PREFIX "btrq %2,%0" : "+m"(__BITADDR(nr, a)), "=@ccc"(c) : "r"(nr & 63) : "memory"); return c; }
static __always_inline void __set_bit(long nr, volatile unsigned long *a) { __BITADDR(nr, a) |= BIT_MASK(nr); }
static __always_inline void __clear_bit(long nr, volatile unsigned long *a) { __BITADDR(nr, a) &= ~BIT_MASK(nr); }
static __always_inline void __change_bit(long nr, volatile unsigned long *a) { __BITADDR(nr, a) ^= BIT_MASK(nr); }
static __always_inline bool __test_and_set_bit(long nr, volatile unsigned long *a)
{ bool c = __BITADDR(nr, a) & BIT_MASK(nr); __BITADDR(nr, a) |= BIT_MASK(nr); return c; }
static __always_inline bool __test_and_clear_bit(long nr, volatile unsigned long *a)
{ bool c = __BITADDR(nr, a) & BIT_MASK(nr); __BITADDR(nr, a) &= ~BIT_MASK(nr); return c; }
static __always_inline bool test_bit(long nr, const volatile unsigned long *a)
{ return (__BITADDR(nr, a) >> (nr & 63)) & 1; }
static __always_inline unsigned long __ffs(unsigned long w) { return __builtin_ctzl(w); }
static __always_inline unsigned long ffz(unsigned long w) { return __builtin_ctzl(~w); }
static __always_inline unsigned long __fls(unsigned long w) { return 63 - __builtin_clzl(w); }
static __always_inline int ffs(int x) { return __builtin_ffs(x); }
static __always_inline int fls(unsigned int x) { return x ? 32 - __builtin_clz(x) : 0; }
static __always_inline int fls64(u64 x) { return x ? 64 - __builtin_clzll(x) : 0; }
/* Constants of constants, so that they can be the size of an array. */
#define ilog2(n) (__builtin_constant_p(n) ? ((n) < 2 ? 0 : 63 - __builtin_clzll(n)) : fls64(n) - 1)
#define roundup_pow_of_two(n) \
	((n) <= 1 ? 1UL : 1UL << (__builtin_constant_p(n) ? 64 - __builtin_clzll((n) - 1) : fls64((n) - 1)))
static inline u64 rol64(u64 w, unsigned int s) { return (w << (s & 63)) | (w >> ((-s) & 63)); }
static inline u64 ror64(u64 w, unsigned int s) { return (w >> (s & 63)) | (w << ((-s) & 63)); }
static inline u32 rol32(u32 w, unsigned int s) { return (w << (s & 31)) | (w >> ((-s) & 31)); }
static inline u32 ror32(u32 w, unsigned int s) { return (w >> (s & 31)) | (w << ((-s) & 31)); }
static inline u16 rol16(u16 w, unsigned int s) { return (w << (s & 15)) | (w >> ((-s) & 15)); }
static inline u8 rol8(u8 w, unsigned int s) { return (w << (s & 7)) | (w >> ((-s) & 7)); }
static inline s32 sign_extend32(u32 v, int i) { u8 s = 31 - i; return (s32)(v << s) >> s; }
static inline s64 sign_extend64(u64 v, int i) { u8 s = 63 - i; return (s64)(v << s) >> s; }
#ifdef MODULE
#define BITS_PER_TYPE(type) (sizeof(type) * 8)
#define BITS_TO_BYTES(nr) (((nr) + 7) / 8)
#define BITS_TO_U32(nr) (((nr) + 31) / 32)
#define BITS_TO_U64(nr) (((nr) + 63) / 64)
#define BYTES_TO_BITS(nb) ((nb) * 8)
static inline u16 ror16(u16 w, unsigned int s) { return (w >> (s & 15)) | (w << ((-s) & 15)); }
static inline u8 ror8(u8 w, unsigned int s) { return (w >> (s & 7)) | (w << ((-s) & 7)); }
static inline unsigned int fls_long(unsigned long l) { return fls64(l); }
static inline int get_count_order(unsigned int n) { return n ? fls(n - 1) : -1; }
static inline int get_count_order_long(unsigned long n) { return n ? (int)fls_long(n - 1) : -1; }
static inline int get_bitmask_order(unsigned int n) { return fls(n); }
#define assign_bit(nr, a, value) ((value) ? set_bit(nr, a) : clear_bit(nr, a))
#define set_mask_bits(ptr, mask, bits) ({ __typeof__(ptr) __p = (ptr); __typeof__(*__p) __o, __n; \
	do { __o = READ_ONCE(*__p); __n = (__o & ~(mask)) | (bits); } while (cmpxchg(__p, __o, __n) != __o); __o; })
#endif
#endif
