/* uaccess.h: copying between kernel and user addresses; a fault ends the copy. */
#ifndef _LINUX_UACCESS_H
#define _LINUX_UACCESS_H
#include <linux/types.h>
#include <linux/mm.h>
#define access_ok(addr, size) ((unsigned long)(size) <= TASK_SIZE_MAX && (unsigned long)(addr) <= TASK_SIZE_MAX - (unsigned long)(size))
/* Both return the number of bytes not copied. */
unsigned long _copy_from_user(void *to, const void __user *from, unsigned long n);
unsigned long _copy_to_user(void __user *to, const void *from, unsigned long n);
unsigned long copy_user_generic(void *to, const void *from, unsigned long n);
unsigned long clear_user(void __user *to, unsigned long n);
void __check_object_size(const void *ptr, unsigned long n, bool to_user) __attribute__((__access__(__none__, 1)));
#define check_object_size(p, n, u) do { if (!__builtin_constant_p(n)) __check_object_size(p, n, u); } while (0)
static __always_inline unsigned long copy_from_user(void *to, const void __user *from, unsigned long n)
{ check_object_size(to, n, false); return _copy_from_user(to, from, n); }
static __always_inline unsigned long copy_to_user(void __user *to, const void *from, unsigned long n)
{ check_object_size(from, n, true); return _copy_to_user(to, from, n); }
#define __copy_to_user(to, from, n) copy_user_generic((void *)(to), from, n)
#define __copy_from_user(to, from, n) copy_user_generic(to, (const void *)(from), n)
long strncpy_from_user(char *dst, const char __user *src, long count);
long strnlen_user(const char __user *str, long n);
long copy_from_kernel_nofault(void *dst, const void *src, size_t size);
long strncpy_from_kernel_nofault(char *dst, const void *unsafe_addr, long count);
/* get_user/put_user: assembly, pointer in rax (rcx for put), value in rdx (rax), error in eax (ecx). */
#define get_user(x, ptr) ({ int __ret_gu; unsigned long __val_gu; \
	__asm__ __volatile__("call __get_user_%P4" : "=a"(__ret_gu), "=d"(__val_gu), "+r"(__gu_sp) \
		: "0"(ptr), "i"(sizeof(*(ptr))) : "memory", "cc"); \
	(x) = (__typeof__(*(ptr)))__val_gu; __ret_gu; })
#define put_user(x, ptr) ({ int __ret_pu; __typeof__(*(ptr)) __val_pu = (x); \
	__asm__ __volatile__("call __put_user_%P4" : "=c"(__ret_pu), "+r"(__gu_sp) \
		: "0"(ptr), "a"(__val_pu), "i"(sizeof(*(ptr))) : "rbx", "memory", "cc"); __ret_pu; })
register unsigned long __gu_sp __asm__("rsp");
long copy_from_user_nofault(void *dst, const void __user *src, size_t size);
long copy_to_user_nofault(void __user *dst, const void *src, size_t size);
#define get_kernel_nofault(val, ptr) ({ const __typeof__(val) *__gk_ptr = (ptr); \
	copy_from_kernel_nofault(&(val), __gk_ptr, sizeof(val)); })
#endif
