// Objects in /sys/kernel: attributes, a group, a binary attribute, a link, an object of a type of its own.
#include <linux/kobject.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysfs.h>

static struct kobject *top;
static int number = 4;
static char bytes[10] = "0123456789";

static ssize_t number_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s/%s: %d\n", kobject_name(kobj), attr->attr.name, number);
}

static ssize_t number_store(struct kobject *kobj, struct kobj_attribute *attr, const char *buf, size_t count)
{
	int err = kstrtoint(buf, 0, &number);

	pr_info("kobjects: store of %zu: %d\n", count, err);
	return err ? err : count;
}

static ssize_t full_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	memset(buf, 'x', PAGE_SIZE - 1);
	buf[PAGE_SIZE - 2] = '\n';
	return PAGE_SIZE - 1;
}

static ssize_t parts_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	int i, at = 0;

	for (i = 0; i < 5; i++)
		at += sysfs_emit_at(buf, at, "%d ", i * i);
	return at + sysfs_emit_at(buf, at, "\n");
}

static struct kobj_attribute number_attr = __ATTR(number, 0664, number_show, number_store);
static struct kobj_attribute full_attr = __ATTR(full, 0444, full_show, NULL);
static struct kobj_attribute parts_attr = __ATTR(parts, 0444, parts_show, NULL);
static struct kobj_attribute hidden_attr = __ATTR(hidden, 0444, parts_show, NULL);
static struct attribute *attrs[] = {&number_attr.attr, &full_attr.attr, &parts_attr.attr, &hidden_attr.attr, NULL};

static umode_t visible(struct kobject *kobj, struct attribute *attr, int i)
{
	return attr == &hidden_attr.attr ? 0 : attr->mode;
}

static const struct attribute_group group = {.attrs = attrs, .is_visible = visible};
static struct attribute *inner[] = {&number_attr.attr, NULL};
static const struct attribute_group named = {.name = "named", .attrs = inner};

static ssize_t bytes_read(struct file *f, struct kobject *kobj, struct bin_attribute *a, char *buf, loff_t off, size_t count)
{
	memcpy(buf, bytes + off, count);
	return count;
}

static ssize_t bytes_write(struct file *f, struct kobject *kobj, struct bin_attribute *a, char *buf, loff_t off, size_t count)
{
	pr_info("kobjects: %zu bytes at %lld\n", count, off);
	memcpy(bytes + off, buf, count);
	return count;
}

static BIN_ATTR_RW(bytes, sizeof(bytes));

struct thing {
	struct kobject kobj;
	int id;
};

static ssize_t thing_show(struct kobject *kobj, struct attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s of thing %d\n", attr->name, container_of(kobj, struct thing, kobj)->id);
}

static void thing_release(struct kobject *kobj)
{
	pr_info("kobjects: thing %d is freed\n", container_of(kobj, struct thing, kobj)->id);
	kfree(container_of(kobj, struct thing, kobj));
}

static const struct sysfs_ops thing_ops = {.show = thing_show};
static struct attribute size = {.name = "size", .mode = 0644}, color = {.name = "color", .mode = 0444};
static struct attribute *thing_attrs[] = {&size, &color, NULL};
ATTRIBUTE_GROUPS(thing);
static struct kobj_type thing_type = {.release = thing_release, .sysfs_ops = &thing_ops, .default_groups = thing_groups};
static struct thing *thing;

static int __init kobjects_init(void)
{
	int err;

	top = kobject_create_and_add("kobjects", kernel_kobj);
	if (!top)
		return -ENOMEM;
	err = sysfs_create_group(top, &group) ?: sysfs_create_group(top, &named) ?: sysfs_create_bin_file(top, &bin_attr_bytes);
	thing = kzalloc(sizeof(*thing), GFP_KERNEL);
	thing->id = 5;
	err = err ?: kobject_init_and_add(&thing->kobj, &thing_type, top, "thing%d", thing->id);
	return err ?: sysfs_create_link(top, &thing->kobj, "link");
}

static void __exit kobjects_exit(void)
{
	sysfs_remove_link(top, "link");
	kobject_put(&thing->kobj);
	kobject_put(top);
	pr_info("kobjects: gone\n");
}

module_init(kobjects_init);
module_exit(kobjects_exit);
MODULE_LICENSE("GPL");
