/*
 * tracepoint.h: tracepoints. A site is a nop. For the first listener the machine,
 * which writes all text, changes it into a jump to the call.
 */
#ifndef _LINUX_TRACEPOINT_H
#define _LINUX_TRACEPOINT_H
#include <linux/jump_label.h>
#ifdef KERNEL_6_12
#include <linux/preempt.h>
#endif
#ifdef KERNEL_6_12
/*
 * A site calls func, which the machine sets: the event, the stub (where an fprobe may
 * be), or __traceiter_NAME, which calls both depending on users.
 */
struct tracepoint {
	const char *name;
	struct static_key key;		/* 8, as in 6.12 */
	void *func, *event, *stub, *iter;	/* 24: the machine uses these offsets */
	unsigned int users;		/* 56 */
};
static_assert(offsetof(struct tracepoint, func) == 24 && offsetof(struct tracepoint, users) == 56, "tracepoint");
#define TP_EVENT 1
#define TP_STUB 2
#else
struct tracepoint {
	const char *name;
	struct static_key key;		/* 8, as in 6.1 */
};
#endif
static_assert(offsetof(struct tracepoint, key) == 8, "tracepoint");
#define TP_PROTO(args...) args
#define TP_ARGS(args...) args
#ifdef KERNEL_6_12
#define __DECLARE_TRACE(name, called, proto, args) \
	extern struct tracepoint __tracepoint_##name; \
	void trace_event_raw_event_##name(void *__data, proto); \
	int __traceiter_##name(void *__data, proto); \
	void __probestub_##name(void *__data, proto); \
	static __always_inline void trace_##name(proto) \
	{ \
		if (unlikely(arch_static_branch(&__tracepoint_##name.key, false))) { \
			preempt_disable_notrace(); \
			((__typeof__(&__probestub_##name))READ_ONCE(__tracepoint_##name.func))(NULL, args); \
			preempt_enable_notrace(); \
		} \
	} \
	__DEFINE_TRACE(name, called, TP_PROTO(proto), TP_ARGS(args))
#ifdef CREATE_TRACE_POINTS
#define __DEFINE_TRACE(_name, called, proto, args) \
	void __probestub_##_name(void *__data, proto) \
	{ \
	} \
	int __traceiter_##_name(void *__data, proto) \
	{ \
		unsigned int users = READ_ONCE(__tracepoint_##_name.users); \
		if (users & TP_EVENT) \
			trace_event_raw_event_##_name(__data, args); \
		if (users & TP_STUB) \
			((__typeof__(&__probestub_##_name))READ_ONCE(__tracepoint_##_name.stub))(__data, args); \
		return 0; \
	} \
	struct tracepoint __tracepoint_##_name = { \
		.name = #_name, .event = &called##_name, .stub = &__probestub_##_name, .iter = &__traceiter_##_name, \
	};
#else
#define __DEFINE_TRACE(name, called, proto, args)
#endif
#define DECLARE_TRACE(name, proto, args) __DECLARE_TRACE(name, trace_event_raw_event_, TP_PROTO(proto), TP_ARGS(args))
#define DECLARE_TRACE_ITER(name, proto, args) __DECLARE_TRACE(name, __traceiter_, TP_PROTO(proto), TP_ARGS(args))
#else
/* trace_NAME(args) is the site. A single listener, the event, is called directly, as
 * by 6.1's static calls. */
#define __DECLARE_TRACE(name, func, proto, args) \
	extern struct tracepoint __tracepoint_##name; \
	void trace_event_raw_event_##name(void *__data, proto); \
	static __always_inline void trace_##name(proto) \
	{ \
		if (unlikely(arch_static_branch(&__tracepoint_##name.key, false))) \
			func##name(NULL, args); \
	}
#define DECLARE_TRACE(name, proto, args) __DECLARE_TRACE(name, trace_event_raw_event_, TP_PROTO(proto), TP_ARGS(args))
/* Tracepoints that 6.1's tracer also uses to record the names of tasks. */
#define DECLARE_TRACE_ITER(name, proto, args) \
	int __traceiter_##name(void *__data, proto); \
	__DECLARE_TRACE(name, __traceiter_, TP_PROTO(proto), TP_ARGS(args))
#endif
#endif
