/* kernel.h: arithmetic and common macros. */
#ifndef _LINUX_KERNEL_H
#define _LINUX_KERNEL_H
#include <linux/types.h>
#include <linux/errno.h>
#include <linux/err.h>
#include <linux/list.h>
#include <linux/printk.h>
#include <linux/bug.h>
#include <linux/bitops.h>
#include <linux/export.h>
#include <linux/init.h>
#include <linux/kprobes.h>
#include <linux/math.h>
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define min(x, y) ({ __typeof__(x) __x = (x); __typeof__(y) __y = (y); __x < __y ? __x : __y; })
#define max(x, y) ({ __typeof__(x) __x = (x); __typeof__(y) __y = (y); __x > __y ? __x : __y; })
#define min_t(t, x, y) ({ t __x = (x); t __y = (y); __x < __y ? __x : __y; })
#define max_t(t, x, y) ({ t __x = (x); t __y = (y); __x > __y ? __x : __y; })
#define min3(x, y, z) min(min(x, y), z)
#define max3(x, y, z) max(max(x, y), z)
#define clamp(v, lo, hi) min(max(v, lo), hi)
#define clamp_t(t, v, lo, hi) min_t(t, max_t(t, v, lo), hi)
#define swap(a, b) do { __typeof__(a) __tmp = (a); (a) = (b); (b) = __tmp; } while (0)
#define upper_32_bits(n) ((u32)((u64)(n) >> 32))
#define lower_32_bits(n) ((u32)(n))
#define PTR_ALIGN(p, a) ((__typeof__(p))ALIGN((unsigned long)(p), (a)))
#define ALIGN(x, a) (((x) + ((__typeof__(x))(a) - 1)) & ~((__typeof__(x))(a) - 1))
#define ALIGN_DOWN(x, a) ((x) & ~((__typeof__(x))(a) - 1))
#define IS_ALIGNED(x, a) (((x) & ((__typeof__(x))(a) - 1)) == 0)
#define is_power_of_2(n) ((n) != 0 && (((n) & ((n) - 1)) == 0))
#define is_signed_type(type) (((type)(-1)) < (type)1)
#define u64_to_user_ptr(x) ((void __user *)(unsigned long)(x))
#define __ALIGN_MASK(x, mask) (((x) + (mask)) & ~(mask))
extern const char hex_asc[], hex_asc_upper[];
#define hex_asc_lo(x) hex_asc[((x) & 0x0f)]
#define hex_asc_hi(x) hex_asc[((x) & 0xf0) >> 4]
void panic(const char *fmt, ...) __noreturn __cold __printf(1, 2);
int vsnprintf(char *buf, size_t size, const char *fmt, __builtin_va_list args);
int vscnprintf(char *buf, size_t size, const char *fmt, __builtin_va_list args);
int snprintf(char *buf, size_t size, const char *fmt, ...) __printf(3, 4);
int scnprintf(char *buf, size_t size, const char *fmt, ...) __printf(3, 4);
int sprintf(char *buf, const char *fmt, ...) __printf(2, 3);
int vsprintf(char *buf, const char *fmt, __builtin_va_list args);
#define might_sleep() do { might_resched(); } while (0)
#define might_fault() do { } while (0)
int __cond_resched(void);
#define might_resched() static_call0(might_resched)
#include <linux/static_call.h>
#ifdef MODULE
#include <linux/trace_printk.h>
#endif
typedef __builtin_va_list va_list;
#define va_start(v, l) __builtin_va_start(v, l)
#define va_end(v) __builtin_va_end(v)
#define va_arg(v, l) __builtin_va_arg(v, l)
#define va_copy(d, s) __builtin_va_copy(d, s)
DECLARE_STATIC_CALL(might_resched, __cond_resched);
#ifdef MODULE
#define hex_asc_upper_lo(x) hex_asc_upper[((x) & 0x0f)]
#define hex_asc_upper_hi(x) hex_asc_upper[((x) & 0xf0) >> 4]
#define upper_16_bits(n) ((u16)((n) >> 16))
#define lower_16_bits(n) ((u16)((n) & 0xffff))
#define REPEAT_BYTE(x) ((~0ul / 0xff) * (x))
#define STACK_MAGIC 0xdeadbeef
#define CONCATENATE(a, b) __CONCATENATE(a, b)
#define __CONCATENATE(a, b) a##b
#define PTR_IF(cond, ptr) ((cond) ? (ptr) : NULL)
#define might_sleep_if(cond) do { if (cond) might_sleep(); } while (0)
#define cant_sleep() do { } while (0)
#define cant_migrate() do { } while (0)
#define sched_annotate_sleep() do { } while (0)
#define non_block_start() do { } while (0)
#define non_block_end() do { } while (0)
static inline char *hex_byte_pack(char *buf, u8 byte)
{
	*buf++ = hex_asc_hi(byte);
	*buf++ = hex_asc_lo(byte);
	return buf;
}
static inline char *hex_byte_pack_upper(char *buf, u8 byte)
{
	*buf++ = hex_asc_upper_hi(byte);
	*buf++ = hex_asc_upper_lo(byte);
	return buf;
}
#endif
#endif
