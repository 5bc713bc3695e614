// A misc device and a character device of a class: open, read, write, llseek, poll, ioctl.
#include <linux/cdev.h>
#include <linux/device.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

struct pair {
	u32 in;
	u64 out;
};

#define DEV_NONE _IO('k', 0x10)
#define DEV_SET _IOW('k', 0x11, u32)
#define DEV_GET _IOR('k', 0x12, u32)
#define DEV_BOTH _IOWR('k', 0x13, struct pair)
#define DEV_BAD _IO('k', 0x14)

static u32 value = 7;

static int dev_open(struct inode *inode, struct file *file)
{
	pr_info("devices: open of a %s\n", file->private_data ? "misc device" : "cdev");
	return 0;
}

static ssize_t dev_read(struct file *file, char __user *buf, size_t count, loff_t *pos)
{
	char text[16];

	return simple_read_from_buffer(buf, count, pos, text, sprintf(text, "%u\n", value));
}

static ssize_t dev_write(struct file *file, const char __user *buf, size_t count, loff_t *pos)
{
	int err = kstrtou32_from_user(buf, count, 0, &value);

	return err ? err : count;
}

static long dev_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct pair p;

	switch (cmd) {
	case DEV_NONE:
		return arg + 1;
	case DEV_SET:
		return get_user(value, (u32 __user *)arg);
	case DEV_GET:
		return put_user(value, (u32 __user *)arg);
	case DEV_BOTH:
		if (copy_from_user(&p, (void __user *)arg, sizeof(p)))
			return -EFAULT;
		p.out = (u64)p.in << 32 | value;
		return copy_to_user((void __user *)arg, &p, sizeof(p)) ? -EFAULT : 0;
	case DEV_BAD:
		return -EBADRQC;
	}
	return -ENOTTY;
}

static const struct file_operations fops = {
	.owner = THIS_MODULE, .open = dev_open, .read = dev_read, .write = dev_write, .unlocked_ioctl = dev_ioctl, .llseek = default_llseek,
};

static struct miscdevice misc = {.minor = MISC_DYNAMIC_MINOR, .name = "hf_misc", .fops = &fops, .mode = 0640};
static struct miscdevice taken = {.minor = MISC_DYNAMIC_MINOR, .name = "hf_misc", .fops = &fops};
static struct class *class;
static struct cdev cdev;
static dev_t first;

static ssize_t color_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s is %s\n", dev_name(dev), (char *)dev_get_drvdata(dev));
}
static DEVICE_ATTR_RO(color);

static int __init devices_init(void)
{
	struct device *dev;
	int err = misc_register(&misc);

	if (err)
		return err;
	pr_info("devices: twice: %d\n", misc_register(&taken));
	err = alloc_chrdev_region(&first, 0, 2, "hf_char");
	if (err)
		return err;
	cdev_init(&cdev, &fops);
	cdev.owner = THIS_MODULE;
	err = cdev_add(&cdev, first, 2);
	if (err)
		return err;
	class = class_create(THIS_MODULE, "hf_class");
	if (IS_ERR(class))
		return PTR_ERR(class);
	dev = device_create(class, NULL, first + 1, "green", "hf_char%d", 1);
	if (IS_ERR(dev))
		return PTR_ERR(dev);
	return device_create_file(dev, &dev_attr_color);
}

static void __exit devices_exit(void)
{
	device_destroy(class, first + 1);
	class_destroy(class);
	cdev_del(&cdev);
	unregister_chrdev_region(first, 2);
	misc_deregister(&misc);
}

module_init(devices_init);
module_exit(devices_exit);
MODULE_LICENSE("GPL");
