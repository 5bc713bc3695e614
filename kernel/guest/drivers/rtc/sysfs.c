// The real-time clock shows the machine's wall clock.
#include <linux/device.h>
#include <linux/timeconv.h>

static struct tm now(void)
{
	struct tm tm;

	time64_to_tm(ktime_get_real_seconds(), 0, &tm);
	return tm;
}

static ssize_t name_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "rtc_kprobefs %s\n", dev_name(dev));
}
DEVICE_ATTR_RO(name);

static ssize_t date_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct tm tm = now();

	return sysfs_emit(buf, "%04ld-%02d-%02d\n", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday);
}
DEVICE_ATTR_RO(date);

static ssize_t time_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct tm tm = now();

	return sysfs_emit(buf, "%02d:%02d:%02d\n", tm.tm_hour, tm.tm_min, tm.tm_sec);
}
DEVICE_ATTR_RO(time);

static ssize_t since_epoch_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%lld\n", ktime_get_real_seconds());
}
DEVICE_ATTR_RO(since_epoch);

static struct attribute *rtc_attrs[] = {
	&dev_attr_name.attr, &dev_attr_date.attr, &dev_attr_time.attr, &dev_attr_since_epoch.attr, NULL,
};
static const struct attribute_group rtc_group = { .attrs = rtc_attrs };
static const struct attribute_group *rtc_groups[] = { &rtc_group, NULL };

static struct device rtc = { .init_name = "rtc0", .groups = rtc_groups };

static int __init rtc_init(void)
{
	return device_register(&rtc);
}
device_initcall(rtc_init);
