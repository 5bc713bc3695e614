/* trace_printk.h: what modules write to the trace buffer. */
#pragma once
#include <linux/compiler.h>

int __trace_bprintk(unsigned long ip, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int __trace_printk(unsigned long ip, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int __trace_bputs(unsigned long ip, const char *str);
int __trace_puts(unsigned long ip, const char *str, int size);
void tracing_on(void);
void tracing_off(void);
int tracing_is_on(void);

/* Constant texts are kept in a section: their entries have an address only. */
#define __trace_text(text)	({ static const char *__text __attribute__((__used__, section("__trace_printk_fmt"))) = \
					__builtin_constant_p(text) ? (text) : (const char *)0; __text; })

#define trace_puts(str)		({ __builtin_constant_p(str) ? __trace_bputs(_THIS_IP_, __trace_text(str)) : \
					__trace_puts(_THIS_IP_, str, __builtin_strlen(str)); })

/* Without arguments fmt is a text, in which percent signs mean nothing. */
#define trace_printk(fmt, ...)	__trace_printk_##__VA_OPT__(some)(fmt __VA_OPT__(,) __VA_ARGS__)
#define __trace_printk_(fmt)	trace_puts(fmt)
#define __trace_printk_some(fmt, ...) \
	({ __builtin_constant_p(fmt) ? __trace_bprintk(_THIS_IP_, __trace_text(fmt), __VA_ARGS__) : \
				       __trace_printk(_THIS_IP_, fmt, __VA_ARGS__); })
