// SPDX-License-Identifier: MIT
/* speaks prints in all the ways that are not just printk: for devices, once, seldom, in parts. */
#define DEBUG
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/device.h>
#include <linux/kdev_t.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/printk.h>
#include <linux/ratelimit.h>

asmlinkage int vprintk_default(const char *fmt, va_list args);

static void bare_release(struct device *dev)
{
}

static struct device bare = { .init_name = "speaks-bare", .release = bare_release };

static noinline void emit(int facility, int level, const struct dev_printk_info *info, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vprintk_emit(facility, level, info, fmt, args);
	va_end(args);
}

static noinline void plain(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vprintk_default(fmt, args);
	va_end(args);
}

static void devices(struct device *dev)
{
	dev_emerg(dev, "emerg %d\n", 0);
	dev_alert(dev, "alert %d\n", 1);
	dev_crit(dev, "crit %d\n", 2);
	dev_err(dev, "err %d\n", 3);
	dev_warn(dev, "warn %d\n", 4);
	dev_notice(dev, "notice %d\n", 5);
	dev_info(dev, "info %d\n", 6);
	dev_dbg(dev, "dbg %d\n", 7);
	dev_printk(KERN_NOTICE, dev, "printk %s\n", "notice");
	pr_info("probe: %d\n", dev_err_probe(dev, -ENOENT, "no %s\n", "file"));
	if (dev)
		pr_info("driver string: '%s'\n", dev_driver_string(dev));
}

static void levels(void)
{
	struct dev_printk_info info = { "a subsystem", "a \\device\n" };
	u8 bytes[40];
	int i;

	for (i = 0; i < 3; i++) {
		pr_info_once("once\n");
		pr_warn_ratelimited("limited %d\n", i);
		printk_ratelimit();
	}
	pr_emerg("emerg\n");
	pr_alert("alert\n");
	pr_crit("crit\n");
	pr_err("err\n");
	pr_notice("notice\n");
	pr_debug("debug\n");
	printk("speaks: no level\n");
	printk(KERN_DEFAULT "speaks: default\n");
	printk(KERN_ERR KERN_INFO "speaks: two levels\n");
	pr_info("part one");
	pr_cont(", part two");
	pr_cont(", %s\n", "end");
	pr_info("two\nlines\n");
	pr_info("tab\tescape\e back\\slash \x80\xff\n");
	emit(0, 3, NULL, "speaks: emit 3\n");
	emit(0, -1, NULL, KERN_NOTICE "speaks: emit with its level\n");
	emit(0, 3, NULL, KERN_NOTICE "speaks: emit with two levels\n");
	emit(0, 5, &info, "speaks: emit with a device\n");
	emit(3, 5, NULL, "speaks: emit of a facility\n");
	plain(KERN_WARNING "speaks: plain %d\n", 1);
	for (i = 0; i < 40; i++)
		bytes[i] = i * 7;
	print_hex_dump(KERN_INFO, "speaks: ", DUMP_PREFIX_OFFSET, 16, 1, bytes, 40, true);
	print_hex_dump(KERN_INFO, "speaks: ", DUMP_PREFIX_NONE, 32, 4, bytes, 40, false);
	print_hex_dump(KERN_INFO, "speaks: ", DUMP_PREFIX_NONE, 16, 8, bytes, 24, true);
	print_hex_dump_bytes("speaks: ", DUMP_PREFIX_OFFSET, bytes, 5);
	print_hex_dump_debug("speaks: ", DUMP_PREFIX_NONE, 16, 2, bytes, 9, false);
}

static int __init speaks_init(void)
{
	struct class *class = class_create(THIS_MODULE, "speaks_class");
	struct device *dev = device_create(class, NULL, MKDEV(0, 0), NULL, "speaks%d", 1);
	struct device *numbered = device_create(class, NULL, MKDEV(240, 7), NULL, "speaks-numbered");

	levels();
	devices(NULL);
	devices(dev);
	dev_info(numbered, "numbered\n");
	pr_info("registered: %d\n", device_register(&bare));
	devices(&bare);
	device_unregister(&bare);
	device_unregister(numbered);
	device_unregister(dev);
	class_destroy(class);
	return 0;
}

static void __exit speaks_exit(void)
{
}

module_init(speaks_init);
module_exit(speaks_exit);
MODULE_LICENSE("Dual MIT/GPL");
