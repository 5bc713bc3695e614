/* compiler.h: attributes of functions and accesses. */
#ifndef _LINUX_COMPILER_H
#define _LINUX_COMPILER_H

#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)
#define barrier()	__asm__ __volatile__("" : : : "memory")
#define __always_inline	inline __attribute__((__always_inline__))
#define noinline	__attribute__((__noinline__))
/* Keeps the compiler from making .constprop or .isra copies of a function. */
#define __noclone	__attribute__((__noclone__))
#define __noipa		__attribute__((__noipa__))
#define __noreturn	__attribute__((__noreturn__))
#define __packed	__attribute__((__packed__))
#define __aligned(x)	__attribute__((__aligned__(x)))
#define ____cacheline_aligned	__aligned(64)
#define __section(s)	__attribute__((__section__(s)))
#define __used		__attribute__((__used__))
#define __weak		__attribute__((__weak__))
#define __must_check	__attribute__((__warn_unused_result__))
#define __maybe_unused	__attribute__((__unused__))
#define __cold		__attribute__((__cold__))
#define __pure		__attribute__((__pure__))
#define __attribute_const__ __attribute__((__const__))
#define __malloc	__attribute__((__malloc__))
#define __printf(a, b)	__attribute__((__format__(printf, a, b)))
#define fallthrough	__attribute__((__fallthrough__))
#define __no_stack_protector __attribute__((__optimize__("no-stack-protector")))

/* Functions without an fentry site. */
#define notrace		__attribute__((__no_instrument_function__))
/* Functions that have none in Debian's 5.10 only, or in the later kernels only. */
#if GUEST_LINUX < 601
#define notrace_before_6_1 notrace
#define notrace_since_6_1
#else
#define notrace_before_6_1
#define notrace_since_6_1 notrace
#endif
/* Text that runs before the kernel's state is consistent: not probeable. */
#define noinstr		noinline notrace __attribute__((__no_stack_protector__)) __section(".noinstr.text")
/* __kprobes text. It is empty in 6.1, but has bounds. */
#ifdef MODULE
#define __kprobes	__section(".kprobes.text")
#else
#define __kprobes	notrace __section(".kprobes.text")
#endif
#define nokprobe_inline	__always_inline
#define __visible	__attribute__((__externally_visible__))
#define asmlinkage

#define __user
#define __kernel
#define __percpu
#define __iomem
#define __rcu
#define __force
#define __bitwise
#define __must_hold(x)
#define __acquires(x)
#define __releases(x)

#define READ_ONCE(x)	(*(const volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, v) (*(volatile __typeof__(x) *)&(x) = (v))
#define unreachable()	__builtin_unreachable()
#define _RET_IP_	((unsigned long)__builtin_return_address(0))
#define _THIS_IP_	({ __label__ __here; __here: (unsigned long)&&__here; })

#define offsetof(t, m)	__builtin_offsetof(t, m)
#define sizeof_field(t, m) sizeof(((t *)0)->m)
#define static_assert	_Static_assert
#define BUILD_BUG_ON(c)	_Static_assert(!(c), #c)
#define __same_type(a, b) __builtin_types_compatible_p(__typeof__(a), __typeof__(b))
#define OPTIMIZER_HIDE_VAR(v) __asm__("" : "=r"(v) : "0"(v))
#define __stringify_1(x...) #x
#define __stringify(x...) __stringify_1(x)
#define ___PASTE(a, b)	a##b
#define __PASTE(a, b)	___PASTE(a, b)
#define __UNIQUE_ID(p)	__PASTE(__PASTE(__UNIQUE_ID_, p), __COUNTER__)

#endif
