/* atomic.h: atomic counters. */
#ifndef _LINUX_ATOMIC_H
#define _LINUX_ATOMIC_H
#include <linux/types.h>
#include <asm/alternative.h>
#define ATOMIC_INIT(i) { (i) }
#define ATOMIC64_INIT(i) { (i) }
#define ATOMIC_LONG_INIT(i) { (i) }
#define smp_mb() __asm__ __volatile__("lock; addl $0,-4(%%rsp)" : : : "memory", "cc")
#define mb() __asm__ __volatile__("mfence" : : : "memory")
#define rmb() __asm__ __volatile__("lfence" : : : "memory")
#define wmb() __asm__ __volatile__("sfence" : : : "memory")
#define smp_rmb() barrier()
#define smp_wmb() barrier()
#define smp_mb__before_atomic() barrier()
#define smp_mb__after_atomic() barrier()
#define smp_mb__after_spinlock() barrier()
#define smp_store_release(p, v) do { barrier(); WRITE_ONCE(*(p), v); } while (0)
#define smp_load_acquire(p) ({ __typeof__(*(p)) ___p = READ_ONCE(*(p)); barrier(); ___p; })
#define smp_store_mb(var, v) do { (void)xchg(&(var), v); } while (0)

#define __ATOMIC_OPS(name, type, ctype, sfx) \
static __always_inline ctype name##_read(const type *v) { return READ_ONCE(v->counter); } \
static __always_inline void name##_set(type *v, ctype i) { WRITE_ONCE(v->counter, i); } \
static __always_inline void name##_add(ctype i, type *v) \
{ __asm__ __volatile__(LOCK_PREFIX "add" sfx " %1,%0" : "+m"(v->counter) : "er"(i) : "memory", "cc"); } \
static __always_inline void name##_sub(ctype i, type *v) \
{ __asm__ __volatile__(LOCK_PREFIX "sub" sfx " %1,%0" : "+m"(v->counter) : "er"(i) : "memory", "cc"); } \
static __always_inline void name##_inc(type *v) \
{ __asm__ __volatile__(LOCK_PREFIX "inc" sfx " %0" : "+m"(v->counter) : : "memory", "cc"); } \
static __always_inline void name##_dec(type *v) \
{ __asm__ __volatile__(LOCK_PREFIX "dec" sfx " %0" : "+m"(v->counter) : : "memory", "cc"); } \
static __always_inline bool name##_dec_and_test(type *v) \
{ bool c; __asm__ __volatile__(LOCK_PREFIX "dec" sfx " %0" : "+m"(v->counter), "=@cce"(c) : : "memory"); return c; } \
static __always_inline bool name##_inc_and_test(type *v) \
{ bool c; __asm__ __volatile__(LOCK_PREFIX "inc" sfx " %0" : "+m"(v->counter), "=@cce"(c) : : "memory"); return c; } \
static __always_inline bool name##_sub_and_test(ctype i, type *v) \
{ bool c; __asm__ __volatile__(LOCK_PREFIX "sub" sfx " %2,%0" : "+m"(v->counter), "=@cce"(c) : "er"(i) : "memory"); return c; } \
static __always_inline ctype name##_fetch_add(ctype i, type *v) \
{ __asm__ __volatile__(LOCK_PREFIX "xadd" sfx " %0,%1" : "+r"(i), "+m"(v->counter) : : "memory", "cc"); return i; } \
static __always_inline ctype name##_add_return(ctype i, type *v) { return i + name##_fetch_add(i, v); } \
static __always_inline ctype name##_sub_return(ctype i, type *v) { return name##_add_return(-i, v); } \
static __always_inline ctype name##_inc_return(type *v) { return name##_add_return(1, v); } \
static __always_inline ctype name##_dec_return(type *v) { return name##_add_return(-1, v); } \
static __always_inline ctype name##_xchg(type *v, ctype n) \
{ __asm__ __volatile__("xchg" sfx " %0,%1" : "+r"(n), "+m"(v->counter) : : "memory"); return n; } \
static __always_inline ctype name##_cmpxchg(type *v, ctype o, ctype n) \
{ __asm__ __volatile__(LOCK_PREFIX "cmpxchg" sfx " %2,%1" : "+a"(o), "+m"(v->counter) : "r"(n) : "memory", "cc"); return o; } \
static __always_inline bool name##_try_cmpxchg(type *v, ctype *o, ctype n) \
{ ctype c = name##_cmpxchg(v, *o, n); if (c == *o) return true; *o = c; return false; } \
static __always_inline bool name##_add_unless(type *v, ctype a, ctype u) \
{ ctype c = name##_read(v); do { if (c == u) return false; } while (!name##_try_cmpxchg(v, &c, c + a)); return true; } \
static __always_inline bool name##_inc_not_zero(type *v) { return name##_add_unless(v, 1, 0); } \
static __always_inline void name##_or(ctype i, type *v) \
{ __asm__ __volatile__(LOCK_PREFIX "or" sfx " %1,%0" : "+m"(v->counter) : "er"(i) : "memory", "cc"); } \
static __always_inline void name##_and(ctype i, type *v) \
{ __asm__ __volatile__(LOCK_PREFIX "and" sfx " %1,%0" : "+m"(v->counter) : "er"(i) : "memory", "cc"); }
__ATOMIC_OPS(atomic, atomic_t, int, "l")
__ATOMIC_OPS(atomic64, atomic64_t, long, "q")
__ATOMIC_OPS(atomic_long, atomic_long_t, long, "q")
#define atomic_read_acquire(v) smp_load_acquire(&(v)->counter)
#define atomic_set_release(v, i) smp_store_release(&(v)->counter, i)
#define atomic_long_try_cmpxchg_acquire atomic_long_try_cmpxchg
#define atomic_long_cmpxchg_release atomic_long_cmpxchg

#define xchg(ptr, v) ({ __typeof__(*(ptr)) __xv = (v); \
	__asm__ __volatile__("xchg %0,%1" : "+r"(__xv), "+m"(*(ptr)) : : "memory"); __xv; })
#define cmpxchg(ptr, o, n) ({ __typeof__(*(ptr)) __o = (o), __n = (n); \
	__asm__ __volatile__(LOCK_PREFIX "cmpxchg %2,%1" : "+a"(__o), "+m"(*(ptr)) : "r"(__n) : "memory", "cc"); __o; })
#define try_cmpxchg(ptr, oldp, n) ({ __typeof__(*(ptr)) __old = *(oldp), __got = cmpxchg(ptr, __old, n); \
	bool __ok = __got == __old; if (!__ok) *(oldp) = __got; __ok; })
#endif
