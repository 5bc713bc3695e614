// A thermometer that shows the value stored last, in thousandths of a degree.
#include <linux/device.h>
#include <linux/kstrtox.h>

static int temp1;

static ssize_t name_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n", (const char *)dev_get_drvdata(dev));
}
DEVICE_ATTR_RO(name);

static ssize_t temp1_input_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", temp1);
}

static ssize_t temp1_input_store(struct device *dev, struct device_attribute *attr, const char *buf, size_t count)
{
	int err = kstrtoint(buf, 10, &temp1);

	return err ? err : (ssize_t)count;
}
DEVICE_ATTR_RW(temp1_input);

static struct attribute *hwmon_attrs[] = { &dev_attr_name.attr, &dev_attr_temp1_input.attr, NULL };
static const struct attribute_group hwmon_group = { .attrs = hwmon_attrs };
static const struct attribute_group *hwmon_groups[] = { &hwmon_group, NULL };

static struct device hwmon = { .init_name = "hwmon0", .groups = hwmon_groups, .driver_data = "acpitz" };

static int __init hwmon_init(void)
{
	return device_register(&hwmon);
}
device_initcall(hwmon_init);
