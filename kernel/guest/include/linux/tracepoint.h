/*
 * tracepoint.h: places in the kernel that a tracer may listen to. A site is a
 * nop until the first listener comes: then the machine, which writes all text,
 * makes it a jump to the call.
 */
#ifndef _LINUX_TRACEPOINT_H
#define _LINUX_TRACEPOINT_H
#include <linux/jump_label.h>
struct tracepoint {
	const char *name;
	struct static_key key;		/* 8, as in 6.1 */
};
static_assert(offsetof(struct tracepoint, key) == 8, "tracepoint");
#define TP_PROTO(args...) args
#define TP_ARGS(args...) args
/* trace_NAME(args) is the site. With one listener, the event, it is called directly, as 6.1's static calls do. */
#define __DECLARE_TRACE(name, func, proto, args) \
	extern struct tracepoint __tracepoint_##name; \
	void trace_event_raw_event_##name(void *__data, proto); \
	static __always_inline void trace_##name(proto) \
	{ \
		if (unlikely(arch_static_branch(&__tracepoint_##name.key, false))) \
			func##name(NULL, args); \
	}
#define DECLARE_TRACE(name, proto, args) __DECLARE_TRACE(name, trace_event_raw_event_, TP_PROTO(proto), TP_ARGS(args))
/* Those that 6.1's tracer listens to besides, to learn the names of tasks. */
#define DECLARE_TRACE_ITER(name, proto, args) \
	int __traceiter_##name(void *__data, proto); \
	__DECLARE_TRACE(name, __traceiter_, TP_PROTO(proto), TP_ARGS(args))
#endif
