// The directories of sysfs to which modules add theirs.
#include <linux/kernel.h>
#include <linux/kobject.h>
#include <linux/hostfs.h>
#include <linux/namei.h>

static const struct kobj_type root_ktype = { .sysfs_ops = &kobj_sysfs_ops };
static struct kobject kernel_root, class_root, devices_root, virtual_root, dev_root, char_root, bus_root;
static struct kset module_root = { .list = LIST_HEAD_INIT(module_root.list) };
struct kset *module_kset;
struct kobject *sysfs_dev_char_kobj, *devices_kobj, *bus_kobj;

static struct kobject *__init root_object(struct kobject *kobj, const char *name, struct kobject *parent)
{
	kobject_init(kobj, &root_ktype);
	if (kobject_add(kobj, parent, "%s", name))
		panic("cannot make %s in sysfs", name);
	return kobj;
}

// sysfs_init is called when sysfs is mounted and has its directory kernel.
void __init sysfs_init(void)
{
	struct path path;

	kobject_init(&kernel_root, &root_ktype);
	if (kobject_set_name(&kernel_root, "kernel") || kern_path("/sys/kernel", LOOKUP_DIRECTORY, &path))
		panic("no /sys/kernel");
	kernel_root.sd = path.dentry;
	kernel_root.state_in_sysfs = 1;
	kernel_kobj = &kernel_root;
	spin_lock_init(&module_root.list_lock);
	module_kset = &module_root;
	module_kobj = root_object(&module_root.kobj, "module", NULL);
	bus_kobj = root_object(&bus_root, "bus", NULL);
	class_kobj = root_object(&class_root, "class", NULL);
	devices_kobj = root_object(&devices_root, "devices", NULL);
	virtual_kobj = root_object(&virtual_root, "virtual", &devices_root);
	root_object(&dev_root, "dev", NULL);
	sysfs_dev_char_kobj = root_object(&char_root, "char", &dev_root);
}
