// pr_debug and dev_dbg of modules: they are called only where the branch around them is on,
// as in a module that is built with DEBUG.
#include <linux/dynamic_debug.h>
#include <linux/device.h>
#include <linux/dev_printk.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/sprintf.h>
#include <linux/export.h>

#define PREFIX_SIZE 64

// prefix writes what a place's flags put before its text.
static const char *prefix(const struct _ddebug *d, char *buf)
{
	int n = 0;

	*buf = 0;
	if (d->flags & _DPRINTK_FLAGS_INCL_TID)
		n = in_interrupt() ? scnprintf(buf, PREFIX_SIZE, "<intr> ") : scnprintf(buf, PREFIX_SIZE, "[%d] ", current->pid);
	if (d->flags & _DPRINTK_FLAGS_INCL_MODNAME)
		n += scnprintf(buf + n, PREFIX_SIZE - n, "%s:", d->modname);
	if (d->flags & _DPRINTK_FLAGS_INCL_FUNCNAME)
		n += scnprintf(buf + n, PREFIX_SIZE - n, "%s:", d->function);
	if (d->flags & _DPRINTK_FLAGS_INCL_LINENO)
		n += scnprintf(buf + n, PREFIX_SIZE - n, "%d:", d->lineno);
	if (n && buf[n - 1] == ':')
		scnprintf(buf + n, PREFIX_SIZE - n, " ");
	return buf;
}

void __dynamic_pr_debug(struct _ddebug *descriptor, const char *fmt, ...)
{
	char buf[PREFIX_SIZE];
	va_list args;

	va_start(args, fmt);
	printk(KERN_DEBUG "%s%pV", prefix(descriptor, buf), &(struct va_format){ fmt, &args });
	va_end(args);
}
EXPORT_SYMBOL(__dynamic_pr_debug);

void __dynamic_dev_dbg(struct _ddebug *descriptor, const struct device *dev, const char *fmt, ...)
{
	struct va_format vaf;
	char buf[PREFIX_SIZE];
	va_list args;

	va_start(args, fmt);
	vaf = (struct va_format){ fmt, &args };
	if (dev)
		dev_printk_emit(7, dev, "%s%s %s: %pV", prefix(descriptor, buf), dev_driver_string(dev), dev_name(dev), &vaf);
	else
		printk(KERN_DEBUG "(NULL device *): %pV", &vaf);
	va_end(args);
}
EXPORT_SYMBOL(__dynamic_dev_dbg);
