/* panic.c: panic. */
#include <linux/sched.h>
#include <linux/notifier.h>
#include <asm/host.h>

struct atomic_notifier_head panic_notifier_list;
EXPORT_SYMBOL(panic_notifier_list);

void panic(const char *fmt, ...)
{
	static char buf[256];
	va_list args;
	int len;

	local_irq_disable();
	va_start(args, fmt);
	len = vscnprintf(buf, sizeof(buf), fmt, args);
	va_end(args);
	if (len && buf[len - 1] == '\n')
		len--;
	if (hypercall2(HC_PANIC_BEGIN, buf, len))
		dump_stack();
	atomic_notifier_call_chain(&panic_notifier_list, 0, buf);
	hypercall2(HC_PANIC, buf, len);
	for (;;)
		__asm__ __volatile__("cli; hlt");
}
EXPORT_SYMBOL(panic);

notrace void refcount_warn_saturate(refcount_t *r, int t)
{
	refcount_set(r, (int)0xc0000000);
	WARN_ONCE(1, "refcount_t: misuse; leaking memory.\n");
}
EXPORT_SYMBOL(refcount_warn_saturate);

/* The first lines of a WARN() with a text of its own; its ud2 makes the others. */
void __warn_printk(const char *fmt, ...)
{
	va_list args;

	pr_warn("------------[ cut here ]------------\n");
	va_start(args, fmt);
	vprintk(fmt, args);
	va_end(args);
}
EXPORT_SYMBOL(__warn_printk);
