// dev_printk and its family: lines of the log that begin with a device's driver and name,
// and whose records say which device it is.
#include <linux/device.h>
#include <linux/dev_printk.h>
#include <linux/cdev.h>
#include <linux/string.h>
#include <linux/sprintf.h>
#include <linux/export.h>

const char *dev_driver_string(const struct device *dev)
{
	if (dev->driver)
		return dev->driver->name;
	if (dev->bus)
		return dev->bus->name;
	return dev->class ? dev->class->name : "";
}
EXPORT_SYMBOL(dev_driver_string);

// describe says which device it is, if it has a class or a bus.
static void describe(const struct device *dev, struct dev_printk_info *info)
{
	const char *subsystem = dev->class ? dev->class->name : dev->bus ? dev->bus->name : NULL;

	memset(info, 0, sizeof(*info));
	if (!subsystem)
		return;
	strscpy(info->subsystem, subsystem, sizeof(info->subsystem));
	if (MAJOR(dev->devt))
		snprintf(info->device, sizeof(info->device), "%c%u:%u", strcmp(subsystem, "block") ? 'c' : 'b',
			 MAJOR(dev->devt), MINOR(dev->devt));
	else
		snprintf(info->device, sizeof(info->device), "+%s:%s", subsystem, dev_name(dev));
}

int dev_vprintk_emit(int level, const struct device *dev, const char *fmt, va_list args)
{
	struct dev_printk_info info;

	describe(dev, &info);
	return vprintk_emit(0, level, &info, fmt, args);
}
EXPORT_SYMBOL(dev_vprintk_emit);

int dev_printk_emit(int level, const struct device *dev, const char *fmt, ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
	n = dev_vprintk_emit(level, dev, fmt, args);
	va_end(args);
	return n;
}
EXPORT_SYMBOL(dev_printk_emit);

static void print(const char *level, const struct device *dev, struct va_format *vaf)
{
	if (dev)
		dev_printk_emit(level[1] - '0', dev, "%s %s: %pV", dev_driver_string(dev), dev_name(dev), vaf);
	else
		printk("%s(NULL device *): %pV", level, vaf);
}

void _dev_printk(const char *level, const struct device *dev, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	print(level, dev, &(struct va_format){ fmt, &args });
	va_end(args);
}
EXPORT_SYMBOL(_dev_printk);

#define DEV_PRINTK(func, level)						\
void func(const struct device *dev, const char *fmt, ...)		\
{									\
	va_list args;							\
									\
	va_start(args, fmt);						\
	print(level, dev, &(struct va_format){ fmt, &args });		\
	va_end(args);							\
}									\
EXPORT_SYMBOL(func)

DEV_PRINTK(_dev_emerg, KERN_EMERG);
DEV_PRINTK(_dev_alert, KERN_ALERT);
DEV_PRINTK(_dev_crit, KERN_CRIT);
DEV_PRINTK(_dev_err, KERN_ERR);
DEV_PRINTK(_dev_warn, KERN_WARNING);
DEV_PRINTK(_dev_notice, KERN_NOTICE);
DEV_PRINTK(_dev_info, KERN_INFO);

// dev_err_probe says why a probe failed, and returns err. What is only put off is not
// said.
int dev_err_probe(const struct device *dev, int err, const char *fmt, ...)
{
	struct va_format vaf;
	va_list args;

	va_start(args, fmt);
	vaf = (struct va_format){ fmt, &args };
	if (err != -EPROBE_DEFER)
		_dev_err(dev, "error %pe: %pV", ERR_PTR(err), &vaf);
	va_end(args);
	return err;
}
EXPORT_SYMBOL_GPL(dev_err_probe);
