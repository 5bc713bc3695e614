/*
 * trace_printk.c: what modules print into the trace buffer. An entry goes to the machine
 * by HC_TRACEPOINT, with one of TRACE_PRINTK_* in the tracepoint's place; it begins with
 * space for struct trace_entry.
 */
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/sprintf.h>
#include <linux/string.h>
#include <asm/host.h>

#define TRACE_BUF_SIZE 1024

struct print_entry {
	u64 ent, ip;
	union {
		struct {
			const char *fmt;
			u32 bin[TRACE_BUF_SIZE / sizeof(u32)];
		};
		char text[TRACE_BUF_SIZE];
	};
};

/* The formats of modules, which stay when the modules go. */
struct trace_bprintk_fmt {
	struct list_head list;
	const char *fmt;
};
static LIST_HEAD(trace_bprintk_fmt_list);
static DEFINE_MUTEX(btrace_mutex);

static notrace void commit(int kind, struct print_entry *e, size_t len)
{
	hypercall3(HC_TRACEPOINT, kind, e, offsetof(struct print_entry, text) + len);
}

static notrace int trace_vbprintk(unsigned long ip, const char *fmt, va_list args)
{
	struct print_entry e = { .ip = ip, .fmt = fmt };
	int words;

	if (!fmt)
		return 0;
	words = vbin_printf(e.bin, TRACE_BUF_SIZE / sizeof(u32), fmt, args);
	if (words < 0 || words > TRACE_BUF_SIZE / (int)sizeof(u32))
		return words;
	commit(TRACE_PRINTK_BINARY, &e, sizeof(e.fmt) + words * sizeof(u32));
	return words;
}

notrace int __trace_bprintk(unsigned long ip, const char *fmt, ...)
{
	va_list args;
	int ret;

	va_start(args, fmt);
	ret = trace_vbprintk(ip, fmt, args);
	va_end(args);
	return ret;
}
EXPORT_SYMBOL_GPL(__trace_bprintk);

notrace int __ftrace_vbprintk(unsigned long ip, const char *fmt, va_list ap)
{
	return trace_vbprintk(ip, fmt, ap);
}
EXPORT_SYMBOL_GPL(__ftrace_vbprintk);

static notrace int trace_vprintk(unsigned long ip, const char *fmt, va_list args)
{
	struct print_entry e = { .ip = ip };
	int n = vscnprintf(e.text, sizeof(e.text), fmt, args);

	commit(TRACE_PRINTK_TEXT, &e, n + 1);
	return n;
}

notrace int __trace_printk(unsigned long ip, const char *fmt, ...)
{
	va_list args;
	int ret;

	va_start(args, fmt);
	ret = trace_vprintk(ip, fmt, args);
	va_end(args);
	return ret;
}
EXPORT_SYMBOL_GPL(__trace_printk);

notrace int __ftrace_vprintk(unsigned long ip, const char *fmt, va_list ap)
{
	return trace_vprintk(ip, fmt, ap);
}
EXPORT_SYMBOL_GPL(__ftrace_vprintk);

/* Prints size bytes, and a newline if they do not end with one. */
notrace int __trace_puts(unsigned long ip, const char *str, int size)
{
	struct print_entry e = { .ip = ip };
	int n = size < 0 ? 0 : min(size, TRACE_BUF_SIZE - 2);

	memcpy(e.text, str, n);
	if (!n || e.text[n - 1] != '\n')
		e.text[n++] = '\n';
	commit(TRACE_PRINTK_TEXT, &e, n + 1);
	return size;
}
EXPORT_SYMBOL_GPL(__trace_puts);

notrace int __trace_bputs(unsigned long ip, const char *str)
{
	struct print_entry e = { .ip = ip, .fmt = str };

	commit(TRACE_PRINTK_STRING, &e, sizeof(e.fmt));
	return 1;
}
EXPORT_SYMBOL_GPL(__trace_bputs);

/* Switches the recording, or asks whether it is on. */
static notrace u64 recording(int what)
{
	u64 record[] = { 0, 0 };

	hypercall3(HC_TRACEPOINT, what, record, sizeof(record));
	return READ_ONCE(record[1]);
}

notrace void tracing_on(void)
{
	recording(TRACE_ON);
}
EXPORT_SYMBOL_GPL(tracing_on);

notrace void tracing_off(void)
{
	recording(TRACE_OFF);
}
EXPORT_SYMBOL_GPL(tracing_off);

notrace int tracing_is_on(void)
{
	return recording(TRACE_IS_ON);
}
EXPORT_SYMBOL_GPL(tracing_is_on);

static void trace_printk_notice(void)
{
	static bool said;

	if (said)
		return;
	said = true;
	pr_warn("\n");
	pr_warn("**********************************************************\n");
	pr_warn("**   NOTICE NOTICE NOTICE NOTICE NOTICE NOTICE NOTICE   **\n");
	pr_warn("**                                                      **\n");
	pr_warn("** trace_printk() being used. Allocating extra memory.  **\n");
	pr_warn("**                                                      **\n");
	pr_warn("** This means that this is a DEBUG kernel and it is     **\n");
	pr_warn("** unsafe for production use.                           **\n");
	pr_warn("**                                                      **\n");
	pr_warn("** If you see this message and you are not debugging    **\n");
	pr_warn("** the kernel, report this immediately to your vendor!  **\n");
	pr_warn("**                                                      **\n");
	pr_warn("**   NOTICE NOTICE NOTICE NOTICE NOTICE NOTICE NOTICE   **\n");
	pr_warn("**********************************************************\n");
}

/* Returns a copy of fmt that stays, or NULL. The machine has the text as well, because it
 * makes lines of the entries. */
static const char *hold_format(const char *fmt)
{
	struct trace_bprintk_fmt *f;
	struct print_entry e;
	size_t n;

	list_for_each_entry(f, &trace_bprintk_fmt_list, list)
		if (!strcmp(f->fmt, fmt))
			return f->fmt;
	f = kmalloc(sizeof(*f), GFP_KERNEL);
	if (!f)
		return NULL;
	f->fmt = kstrdup(fmt, GFP_KERNEL);
	if (!f->fmt) {
		kfree(f);
		return NULL;
	}
	list_add(&f->list, &trace_bprintk_fmt_list);
	e.ip = (u64)f->fmt;
	n = min(strlen(fmt), (size_t)TRACE_BUF_SIZE - 1);
	memcpy(e.text, fmt, n);
	commit(TRACE_PRINTK_FORMAT, &e, n);
	return f->fmt;
}

/* Replaces the formats of a module that comes by copies that stay. */
void hold_module_trace_bprintk_format(const char **start, const char **end)
{
	if (start == end)
		return;
	trace_printk_notice();
	mutex_lock(&btrace_mutex);
	for (; start < end; start++)
		if (*start)	/* a format that is not constant has none */
			*start = hold_format(*start);
	mutex_unlock(&btrace_mutex);
}
