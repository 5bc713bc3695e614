// SPDX-License-Identifier: MIT
/* kin: devices of a class and of a parent, their simple attributes, a character device that is
 * added with its device, sets of objects, and dumps in a seq_file. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/cdev.h>
#include <linux/device.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/rculist.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

static struct class *class;
static struct device *parent;
static struct device own;
static struct cdev cdev;
static dev_t first;
static int number = 5;
static unsigned long mask = 0x1f;
static bool flag;

static DEVICE_INT_ATTR(number, 0644, number);
static DEVICE_ULONG_ATTR(mask, 0644, mask);
static DEVICE_BOOL_ATTR(flag, 0644, flag);

struct item {
	int n;
	struct list_head list;
};
static LIST_HEAD(items);

static void *start(struct seq_file *m, loff_t *pos)
{
	rcu_read_lock();
	return seq_list_start_head_rcu(&items, *pos);
}

static void *next(struct seq_file *m, void *v, loff_t *pos)
{
	return seq_list_next_rcu(v, &items, pos);
}

static void stop(struct seq_file *m, void *v)
{
	rcu_read_unlock();
}

static int show(struct seq_file *m, void *v)
{
	if (v == &items)
		seq_hex_dump(m, "dump ", DUMP_PREFIX_OFFSET, 16, 2, "abcdefghijklmnopqrstuvwxyz", 26, true);
	else
		seq_printf(m, "item %d\n", list_entry(v, struct item, list)->n);
	return 0;
}

static const struct seq_operations seq = { .start = start, .next = next, .stop = stop, .show = show };

static ssize_t blob_read(struct file *f, struct kobject *k, struct bin_attribute *a, char *buf, loff_t off, size_t n)
{
	return memory_read_from_buffer(buf, n, &off, "binary", 6);
}

static const struct bin_attribute blob = { .attr = { .name = "blob", .mode = 0444 }, .size = 6, .read = blob_read };

static ssize_t own_read(struct file *f, char __user *buf, size_t n, loff_t *pos)
{
	return simple_read_from_buffer(buf, n, pos, "own\n", 4);
}

static const struct file_operations fops = { .owner = THIS_MODULE, .read = own_read };

static int name_of(struct device *dev, void *data)
{
	pr_info("%s %s\n", (char *)data, dev_name(dev));
	return 0;
}

static int second(struct device *dev, void *data)
{
	return !strcmp(dev_name(dev), "kin1") ? 12 : 0;
}

static int same(struct device *dev, void *data)
{
	return !strcmp(dev_name(dev), data);
}

static void own_release(struct device *dev)
{
	pr_info("release %s\n", dev_name(dev));
}

static void found(const char *how, struct device *dev)
{
	pr_info("%s %s\n", how, dev ? dev_name(dev) : "none");
	put_device(dev);
}

static void sets(void)
{
	struct kset *set = kset_create_and_add("kin_set", NULL, kernel_kobj);
	struct kobject *a = kobject_create_and_add("kin_a", &set->kobj), *found;
	char *path = kobject_get_path(a, GFP_KERNEL);

	pr_info("path %s\n", path);
	kfree(path);
	found = kset_find_obj(set, "kin_a");
	pr_info("not a member %d", !found);
	kobject_put(a);
	a = kzalloc(sizeof(*a), GFP_KERNEL);
	a->kset = set;
	kobject_init_and_add(a, set->kobj.ktype, NULL, "kin_b");
	found = kset_find_obj(set, "kin_b");
	pr_cont(", member %d, none %d\n", found == a, !kset_find_obj(set, "kin_c"));
	pr_info("live %d, null %d\n", kobject_get_unless_zero(a) == a, !kobject_get_unless_zero(NULL));
	kobject_put(a);
	kobject_put(a);
	kobject_del(a);
	kset_unregister(set);
}

static int __init kin_init(void)
{
	dev_t last;
	int i, ret;

	alloc_chrdev_region(&first, 0, 4, "kin");
	last = first + 2;
	class = class_create(THIS_MODULE, "kin");
	parent = device_create(class, NULL, 0, NULL, "kins");
	for (i = 0; i < 3; i++)
		device_create(class, parent, first + i, NULL, "kin%d", i);
	pr_info("children %d\n", device_for_each_child(parent, "child", name_of));
	pr_info("stopped %d\n", device_for_each_child(parent, NULL, second));
	pr_info("class %d\n", class_for_each_device(class, NULL, "member", name_of));
	found("child", device_find_child(parent, "kin2", same));
	found("child", device_find_child(parent, "kin9", same));
	found("by name", class_find_device_by_name(class, "kin1"));
	found("by number", class_find_device_by_devt(class, last));
	ret = device_create_file(parent, &dev_attr_number.attr);
	ret |= device_create_file(parent, &dev_attr_mask.attr);
	ret |= device_create_file(parent, &dev_attr_flag.attr);
	ret |= device_create_bin_file(parent, &blob);
	pr_info("files %d\n", ret);
	device_initialize(&own);
	own.class = class;
	own.devt = first + 3;
	own.release = own_release;
	dev_set_name(&own, "kin_own");
	cdev_init(&cdev, &fops);
	cdev.owner = THIS_MODULE;
	pr_info("added %d\n", cdev_device_add(&cdev, &own));
	for (i = 0; i < 3; i++) {
		struct item *it = kzalloc(sizeof(*it), GFP_KERNEL);

		it->n = i;
		list_add_tail_rcu(&it->list, &items);
	}
	proc_create_seq("kin_items", 0444, NULL, &seq);
	sets();
	return 0;
}

static void __exit kin_exit(void)
{
	struct item *it, *n;
	int i;

	remove_proc_entry("kin_items", NULL);
	list_for_each_entry_safe(it, n, &items, list)
		kfree(it);
	cdev_device_del(&cdev, &own);
	put_device(&own);
	device_remove_bin_file(parent, &blob);
	for (i = 0; i < 3; i++)
		device_destroy(class, first + i);
	device_unregister(parent);
	class_destroy(class);
	unregister_chrdev_region(first, 4);
}

module_init(kin_init);
module_exit(kin_exit);
MODULE_LICENSE("GPL");
