/*
 * tracepoint.h: tracepoints. A site is a nop. For the first listener the machine,
 * which writes all text, changes it into a jump to the call. What is called is a static
 * call: the one listener, or __traceiter_NAME, which calls all.
 */
#ifndef _LINUX_TRACEPOINT_H
#define _LINUX_TRACEPOINT_H
#include <linux/export.h>
#include <linux/jump_label.h>
#include <linux/preempt.h>
#include <linux/static_call.h>
struct module;
struct notifier_block;
struct tracepoint_func { void *func, *data; int prio; };
struct tracepoint {
	const char *name;
	struct static_key key;
	struct static_call_key *static_call_key;
	void *static_call_tramp, *iterator;
	int (*regfunc)(void);
	void (*unregfunc)(void);
	struct tracepoint_func *funcs;	/* the probes of modules, up to one without func */
#ifndef MODULE
	/* Of the kernel's own: the machine's listeners, and what it lets the sites call. */
	void *event, *stub;
	void *probes;		/* the function for funcs alone; NULL if there are none */
	unsigned int users;	/* TP_EVENT, TP_STUB */
#endif
};
static_assert(offsetof(struct tracepoint, key) == 8 && offsetof(struct tracepoint, static_call_key) == 24 &&
	      offsetof(struct tracepoint, funcs) == 64, "6.1's struct tracepoint");
#ifdef MODULE
static_assert(sizeof(struct tracepoint) == 72, "6.1's struct tracepoint");
#else
static_assert(offsetof(struct tracepoint, users) == 96, "the machine uses these offsets");
#endif
#define TP_EVENT 1
#define TP_STUB 2
#define TP_RAW 4
#define TRACEPOINT_DEFAULT_PRIO 10
struct tp_module { struct list_head list; struct module *mod; };
int tracepoint_probe_register(struct tracepoint *tp, void *probe, void *data);
int tracepoint_probe_register_prio(struct tracepoint *tp, void *probe, void *data, int prio);
int tracepoint_probe_register_prio_may_exist(struct tracepoint *tp, void *probe, void *data, int prio);
int tracepoint_probe_unregister(struct tracepoint *tp, void *probe, void *data);
void for_each_kernel_tracepoint(void (*fct)(struct tracepoint *tp, void *priv), void *priv);
int register_tracepoint_module_notifier(struct notifier_block *nb);
int unregister_tracepoint_module_notifier(struct notifier_block *nb);
#define TP_PROTO(args...) args
#define TP_ARGS(args...) args
#define __DECLARE_TRACEPOINT(name, proto, args) \
	extern struct tracepoint __tracepoint_##name; \
	int __traceiter_##name(void *__data, proto); \
	DECLARE_STATIC_CALL(tp_func_##name, __traceiter_##name); \
	static __always_inline void trace_##name(proto) \
	{ \
		if (unlikely(arch_static_branch(&__tracepoint_##name.key, false))) { \
			struct tracepoint_func *__funcs; \
			preempt_disable_notrace(); \
			__funcs = READ_ONCE(__tracepoint_##name.funcs); \
			__SCT__tp_func_##name(__funcs ? __funcs->data : NULL, args); \
			preempt_enable_notrace(); \
		} \
	}
#define __DEFINE_TRACEPOINT(_name, members...) \
	DEFINE_STATIC_CALL(tp_func_##_name, __traceiter_##_name); \
	struct tracepoint __tracepoint_##_name __section(".data..tracepoints") = { \
		.name = #_name, .static_call_key = &__SCK__tp_func_##_name, .static_call_tramp = __SCT__tp_func_##_name, \
		.iterator = __traceiter_##_name, members \
	}; \
	__asm__(".pushsection __tracepoints_ptrs,\"a\"\n\t.balign 4\n\t.long __tracepoint_" #_name " - .\n.popsection\n");
#define __TRACE_CALL_FUNCS(name, proto, args) do { \
	struct tracepoint_func *__f = READ_ONCE(__tracepoint_##name.funcs); \
	for (; __f && __f->func; __f++) \
		((void (*)(void *, proto))__f->func)(__f->data, args); \
} while (0)
#define EXPORT_TRACEPOINT_SYMBOL(name) \
	EXPORT_SYMBOL(__tracepoint_##name); \
	EXPORT_SYMBOL(__traceiter_##name); \
	EXPORT_SYMBOL(__SCK__tp_func_##name); \
	EXPORT_SYMBOL(__SCT__tp_func_##name)
#define EXPORT_TRACEPOINT_SYMBOL_GPL EXPORT_TRACEPOINT_SYMBOL

#ifdef MODULE
#include <linux/srcu.h>
extern struct srcu_struct tracepoint_srcu;
static inline void tracepoint_synchronize_unregister(void)
{
	synchronize_srcu(&tracepoint_srcu);
	synchronize_rcu();
}
#define DECLARE_TRACE(name, proto, args) \
	__DECLARE_TRACEPOINT(name, TP_PROTO(proto), TP_ARGS(args)) \
	static inline int register_trace_##name(void (*probe)(void *__data, proto), void *data) \
	{ \
		return tracepoint_probe_register(&__tracepoint_##name, (void *)probe, data); \
	} \
	static inline int register_trace_prio_##name(void (*probe)(void *__data, proto), void *data, int prio) \
	{ \
		return tracepoint_probe_register_prio(&__tracepoint_##name, (void *)probe, data, prio); \
	} \
	static inline int unregister_trace_##name(void (*probe)(void *__data, proto), void *data) \
	{ \
		return tracepoint_probe_unregister(&__tracepoint_##name, (void *)probe, data); \
	} \
	static inline bool trace_##name##_enabled(void) \
	{ \
		return arch_static_branch(&__tracepoint_##name.key, false); \
	}
#define DECLARE_TRACE_ITER DECLARE_TRACE
#define DEFINE_TRACE_FN(_name, _reg, _unreg, proto, args) \
	int __traceiter_##_name(void *__data, proto) \
	{ \
		__TRACE_CALL_FUNCS(_name, TP_PROTO(proto), TP_ARGS(args)); \
		return 0; \
	} \
	__DEFINE_TRACEPOINT(_name, .regfunc = _reg, .unregfunc = _unreg)
#define DEFINE_TRACE(name, proto, args) DEFINE_TRACE_FN(name, NULL, NULL, TP_PROTO(proto), TP_ARGS(args))
#else
/* The tracer's event is called as a single listener directly, but DECLARE_TRACE_ITER is
 * for those that the tracer also uses to record the names of tasks. */
#define DECLARE_TRACE(name, proto, args) __DECLARE_TRACE(name, trace_event_raw_event_, TP_PROTO(proto), TP_ARGS(args))
#define DECLARE_TRACE_ITER(name, proto, args) __DECLARE_TRACE(name, __traceiter_, TP_PROTO(proto), TP_ARGS(args))
#define __DECLARE_TRACE(name, called, proto, args) \
	void trace_event_raw_event_##name(void *__data, proto); \
	__DECLARE_TRACEPOINT(name, TP_PROTO(proto), TP_ARGS(args)) \
	__DEFINE_TRACE(name, called, TP_PROTO(proto), TP_ARGS(args))
#ifndef CREATE_TRACE_POINTS
#define __DEFINE_TRACE(name, called, proto, args)
#else
#if GUEST_LINUX >= 612
#define __DEFINE_STUB(name, proto) \
	void __probestub_##name(void *__data, proto); \
	void __probestub_##name(void *__data, proto) \
	{ \
	}
#define __STUB(name) (&__probestub_##name)
#define __CALL_STUB(name, args) \
	if (users & TP_STUB) \
		((__typeof__(&__probestub_##name))READ_ONCE(__tracepoint_##name.stub))(__data, args)
#else
#define __DEFINE_STUB(name, proto)
#define __STUB(name) NULL
#define __CALL_STUB(name, args) do { } while (0)
#endif
/* What programs of raw tracepoints get: the arguments, each as a number of its size. */
#define __RAW_ARG(x) ((u64)__builtin_choose_expr(sizeof(x) == 1, (u8)(unsigned long)(x), \
		      __builtin_choose_expr(sizeof(x) == 2, (u16)(unsigned long)(x), \
		      __builtin_choose_expr(sizeof(x) == 4, (u32)(unsigned long)(x), (u64)(x)))))
#define __RAW_ARGS1(a) __RAW_ARG(a)
#define __RAW_ARGS2(a, b...) __RAW_ARG(a), __RAW_ARGS1(b)
#define __RAW_ARGS3(a, b...) __RAW_ARG(a), __RAW_ARGS2(b)
#define __RAW_ARGS4(a, b...) __RAW_ARG(a), __RAW_ARGS3(b)
#define __RAW_ARGS5(a, b...) __RAW_ARG(a), __RAW_ARGS4(b)
#define __RAW_ARGS6(a, b...) __RAW_ARG(a), __RAW_ARGS5(b)
#define __RAW_ARGS7(a, b...) __RAW_ARG(a), __RAW_ARGS6(b)
#define __RAW_ARGS8(a, b...) __RAW_ARG(a), __RAW_ARGS7(b)
#define __RAW_ARGS_OF(_1, _2, _3, _4, _5, _6, _7, _8, which, ...) which
#define __RAW_ARGS(args...) \
	__RAW_ARGS_OF(args, __RAW_ARGS8, __RAW_ARGS7, __RAW_ARGS6, __RAW_ARGS5, __RAW_ARGS4, __RAW_ARGS3, __RAW_ARGS2, __RAW_ARGS1)(args)
/* The type tells BTF the arguments of the tracepoint. */
#define __DEFINE_TRACE(_name, called, proto, args) \
	typedef void (*btf_trace_##_name)(void *__data, proto); \
	__DEFINE_STUB(_name, TP_PROTO(proto)) \
	int __traceiter_##_name(void *__data, proto) \
	{ \
		unsigned int users = READ_ONCE(__tracepoint_##_name.users); \
		if (users & TP_EVENT) \
			trace_event_raw_event_##_name(__data, args); \
		if (users & TP_RAW) { \
			u64 __raw[] = { __RAW_ARGS(args) }; \
			hypercall3(HC_RAW_TRACEPOINT, &__tracepoint_##_name, __raw, sizeof(__raw)); \
		} \
		__CALL_STUB(_name, TP_ARGS(args)); \
		__TRACE_CALL_FUNCS(_name, TP_PROTO(proto), TP_ARGS(args)); \
		return 0; \
	} \
	__DEFINE_TRACEPOINT(_name, .event = &called##_name, .stub = __STUB(_name))
#endif
#endif
#endif
