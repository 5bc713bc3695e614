// dev_printk.h: lines of the log that name a device. Layouts are 6.1's.
#ifndef _LINUX_DEV_PRINTK_H
#define _LINUX_DEV_PRINTK_H

#include <linux/printk.h>

struct device;

// A dev_printk_info is what a record of the log says of the device.
struct dev_printk_info {
	char subsystem[16], device[48];
};

int vprintk_emit(int facility, int level, const struct dev_printk_info *dev_info, const char *fmt, __builtin_va_list args);
int vprintk_default(const char *fmt, __builtin_va_list args);
const char *dev_driver_string(const struct device *dev);
int dev_vprintk_emit(int level, const struct device *dev, const char *fmt, __builtin_va_list args);
int dev_printk_emit(int level, const struct device *dev, const char *fmt, ...) __printf(3, 4);
void _dev_printk(const char *level, const struct device *dev, const char *fmt, ...) __printf(3, 4);
void _dev_emerg(const struct device *dev, const char *fmt, ...) __printf(2, 3);
void _dev_alert(const struct device *dev, const char *fmt, ...) __printf(2, 3);
void _dev_crit(const struct device *dev, const char *fmt, ...) __printf(2, 3);
void _dev_err(const struct device *dev, const char *fmt, ...) __printf(2, 3);
void _dev_warn(const struct device *dev, const char *fmt, ...) __printf(2, 3);
void _dev_notice(const struct device *dev, const char *fmt, ...) __printf(2, 3);
void _dev_info(const struct device *dev, const char *fmt, ...) __printf(2, 3);
int dev_err_probe(const struct device *dev, int err, const char *fmt, ...) __printf(3, 4);

#ifndef dev_fmt
#define dev_fmt(fmt) fmt
#endif
#define dev_err_once(dev, fmt, ...) ({ static bool __said; if (!__said) { __said = true; dev_err(dev, fmt, ##__VA_ARGS__); } })
#define dev_printk(level, dev, fmt, ...) _dev_printk(level, dev, fmt, ##__VA_ARGS__)
#define dev_emerg(dev, fmt, ...) _dev_emerg(dev, dev_fmt(fmt), ##__VA_ARGS__)
#define dev_alert(dev, fmt, ...) _dev_alert(dev, dev_fmt(fmt), ##__VA_ARGS__)
#define dev_crit(dev, fmt, ...) _dev_crit(dev, dev_fmt(fmt), ##__VA_ARGS__)
#define dev_err(dev, fmt, ...) _dev_err(dev, dev_fmt(fmt), ##__VA_ARGS__)
#define dev_warn(dev, fmt, ...) _dev_warn(dev, dev_fmt(fmt), ##__VA_ARGS__)
#define dev_notice(dev, fmt, ...) _dev_notice(dev, dev_fmt(fmt), ##__VA_ARGS__)
#define dev_info(dev, fmt, ...) _dev_info(dev, dev_fmt(fmt), ##__VA_ARGS__)

#if defined(MODULE) && !defined(MODULE_BARE)
#define dev_dbg(dev, fmt, ...) dynamic_dev_dbg(dev, dev_fmt(fmt), ##__VA_ARGS__)
#endif
#endif
