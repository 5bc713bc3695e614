// Misc devices: character devices that share major 10.
#include <linux/cdev.h>
#include <linux/device.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/export.h>

#define MISC_MAJOR 10
#define MISC_DYNAMIC_MINOR 255
#define DYNAMIC_MINORS 128

struct miscdevice {
	int minor;
	const char *name;
	const struct file_operations *fops;
	struct list_head list;
	struct device *parent, *this_device;
	const struct attribute_group **groups;
	const char *nodename;
	umode_t mode;
};
static_assert(sizeof(struct miscdevice) == 80, "struct miscdevice");

static LIST_HEAD(misc_list);
static DEFINE_MUTEX(misc_mtx);
static struct class *misc_class;

static struct miscdevice *find_minor(int minor)
{
	struct miscdevice *c;

	list_for_each_entry(c, &misc_list, list)
		if (c->minor == minor)
			return c;
	return NULL;
}

static __noipa int misc_open(struct inode *inode, struct file *file)
{
	const struct file_operations *fops;
	struct miscdevice *c;
	int err = -ENODEV;

	mutex_lock(&misc_mtx);
	c = find_minor(MINOR(inode->i_rdev));
	fops = c ? fops_get(c->fops) : NULL;
	if (fops) {
		file->private_data = c;
		replace_fops(file, fops);
		err = fops->open ? fops->open(inode, file) : 0;
	}
	mutex_unlock(&misc_mtx);
	return err;
}

static const struct file_operations misc_fops = {
	.open = misc_open,
	.llseek = noop_llseek,
};

// take_minor chooses a minor number: the highest free one for those who ask for any.
static int take_minor(struct miscdevice *misc)
{
	int minor;

	if (misc->minor != MISC_DYNAMIC_MINOR)
		return find_minor(misc->minor) ? -EBUSY : misc->minor;
	for (minor = DYNAMIC_MINORS - 1; minor >= 0; minor--)
		if (!find_minor(minor))
			return minor;
	return -EBUSY;
}

int misc_register(struct miscdevice *misc)
{
	bool dynamic = misc->minor == MISC_DYNAMIC_MINOR;
	int minor, err = 0;

	INIT_LIST_HEAD(&misc->list);
	mutex_lock(&misc_mtx);
	minor = take_minor(misc);
	if (minor < 0) {
		mutex_unlock(&misc_mtx);
		return minor;
	}
	misc->minor = minor;
	misc->this_device = device_create_with_groups(misc_class, misc->parent, MKDEV(MISC_MAJOR, minor), misc, misc->groups, "%s", misc->name);
	if (IS_ERR(misc->this_device)) {
		err = PTR_ERR(misc->this_device);
		if (dynamic)
			misc->minor = MISC_DYNAMIC_MINOR;
	} else {
		list_add(&misc->list, &misc_list);
	}
	mutex_unlock(&misc_mtx);
	return err;
}
EXPORT_SYMBOL(misc_register);

void misc_deregister(struct miscdevice *misc)
{
	if (WARN_ON(list_empty(&misc->list)))
		return;
	mutex_lock(&misc_mtx);
	list_del_init(&misc->list);
	device_destroy(misc_class, MKDEV(MISC_MAJOR, misc->minor));
	mutex_unlock(&misc_mtx);
}
EXPORT_SYMBOL(misc_deregister);

static char *misc_devnode(struct device *dev, umode_t *mode)
{
	struct miscdevice *c = dev_get_drvdata(dev);

	if (mode && c->mode)
		*mode = c->mode;
	return c->nodename ? kstrdup(c->nodename, GFP_KERNEL) : NULL;
}

static int misc_show(struct seq_file *f, void *v)
{
	struct miscdevice *c;

	mutex_lock(&misc_mtx);
	list_for_each_entry(c, &misc_list, list)
		seq_printf(f, "%3i %s\n", c->minor, c->name ? c->name : "");
	mutex_unlock(&misc_mtx);
	return 0;
}

static int __init misc_init(void)
{
	misc_class = __class_create(NULL, "misc", NULL);
	if (IS_ERR(misc_class))
		return PTR_ERR(misc_class);
	misc_class->devnode = misc_devnode;
	if (__register_chrdev(MISC_MAJOR, 0, 256, "misc", &misc_fops))
		return -EIO;
	return proc_create_single_data("misc", 0, NULL, misc_show, NULL) ? 0 : -ENOMEM;
}
fs_initcall(misc_init);
