// Character devices: who has which numbers, and the operations behind each.
#include <linux/cdev.h>
#include <linux/kernel.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/export.h>

// Majors that are given out, from the highest one down.
#define DYN_END 234
#define DYN_EXT_START 511
#define DYN_EXT_END 384

struct char_region {
	struct list_head list; // in the order of major and minor
	unsigned int major, baseminor;
	int count;
	char name[64];
	struct cdev *cdev; // of __register_chrdev
};

static DEFINE_MUTEX(chrdevs_lock);
static LIST_HEAD(chrdevs);
static LIST_HEAD(cdevs);

static bool major_used(unsigned int major)
{
	struct char_region *r;

	list_for_each_entry(r, &chrdevs, list)
		if (r->major == major)
			return true;
	return false;
}

static int find_dynamic_major(void)
{
	int i;

	for (i = 254; i >= DYN_END; i--)
		if (!major_used(i))
			return i;
	for (i = DYN_EXT_START; i >= DYN_EXT_END; i--)
		if (!major_used(i))
			return i;
	return -EBUSY;
}

// place_region returns the entry before which a region belongs, or NULL if it overlaps
// another one.
static struct list_head *place_region(const struct char_region *n)
{
	struct char_region *r;

	list_for_each_entry(r, &chrdevs, list) {
		if (r->major < n->major || (r->major == n->major && r->baseminor + r->count <= n->baseminor))
			continue;
		if (r->major > n->major || n->baseminor + n->count <= r->baseminor)
			return &r->list;
		return NULL;
	}
	return &chrdevs;
}

static noinline struct char_region *__register_chrdev_region(unsigned int major, unsigned int baseminor, int minorct, const char *name)
{
	struct char_region *r;
	struct list_head *at;
	int err = 0;

	if (major > DYN_EXT_START || baseminor > (1U << MINORBITS) - 1 || minorct > (int)((1U << MINORBITS) - baseminor))
		return ERR_PTR(-EINVAL);
	r = kzalloc(sizeof(*r), GFP_KERNEL);
	if (!r)
		return ERR_PTR(-ENOMEM);
	mutex_lock(&chrdevs_lock);
	if (!major) {
		err = find_dynamic_major();
		if (err < 0)
			pr_err("CHRDEV \"%s\" dynamic allocation region is full\n", name);
		else
			major = err;
	}
	r->major = major;
	r->baseminor = baseminor;
	r->count = minorct;
	strscpy(r->name, name, sizeof(r->name));
	at = err < 0 ? NULL : place_region(r);
	if (at)
		list_add_tail(&r->list, at);
	mutex_unlock(&chrdevs_lock);
	if (at)
		return r;
	kfree(r);
	return ERR_PTR(err < 0 ? err : -EBUSY);
}

static struct char_region *take_region(unsigned int major, unsigned int baseminor, int count)
{
	struct char_region *r, *found = NULL;

	mutex_lock(&chrdevs_lock);
	list_for_each_entry(r, &chrdevs, list)
		if (r->major == major && r->baseminor == baseminor && r->count == count) {
			found = r;
			break;
		}
	if (found)
		list_del(&found->list);
	mutex_unlock(&chrdevs_lock);
	return found;
}

int register_chrdev_region(dev_t from, unsigned int count, const char *name)
{
	return PTR_ERR_OR_ZERO(__register_chrdev_region(MAJOR(from), MINOR(from), count, name));
}
EXPORT_SYMBOL(register_chrdev_region);

int alloc_chrdev_region(dev_t *dev, unsigned int baseminor, unsigned int count, const char *name)
{
	struct char_region *r = __register_chrdev_region(0, baseminor, count, name);

	if (IS_ERR(r))
		return PTR_ERR(r);
	*dev = MKDEV(r->major, r->baseminor);
	return 0;
}
EXPORT_SYMBOL(alloc_chrdev_region);

void unregister_chrdev_region(dev_t from, unsigned int count)
{
	kfree(take_region(MAJOR(from), MINOR(from), count));
}
EXPORT_SYMBOL(unregister_chrdev_region);

int __register_chrdev(unsigned int major, unsigned int baseminor, unsigned int count, const char *name, const struct file_operations *fops)
{
	struct char_region *r = __register_chrdev_region(major, baseminor, count, name);
	int err = -ENOMEM;

	if (IS_ERR(r))
		return PTR_ERR(r);
	r->cdev = cdev_alloc();
	if (r->cdev) {
		r->cdev->owner = fops->owner;
		r->cdev->ops = fops;
		kobject_set_name(&r->cdev->kobj, "%s", name);
		err = cdev_add(r->cdev, MKDEV(r->major, baseminor), count);
	}
	if (!err)
		return major ? 0 : (int)r->major;
	if (r->cdev)
		kobject_put(&r->cdev->kobj);
	kfree(take_region(r->major, baseminor, count));
	return err;
}
EXPORT_SYMBOL(__register_chrdev);

void __unregister_chrdev(unsigned int major, unsigned int baseminor, unsigned int count, const char *name)
{
	struct char_region *r = take_region(major, baseminor, count);

	if (r && r->cdev)
		cdev_del(r->cdev);
	kfree(r);
}
EXPORT_SYMBOL(__unregister_chrdev);

static void cdev_default_release(struct kobject *kobj)
{
	kobject_put(kobj->parent);
}

static void cdev_dynamic_release(struct kobject *kobj)
{
	kobject_put(kobj->parent);
	kfree(container_of(kobj, struct cdev, kobj));
}

static const struct kobj_type ktype_cdev_default = { .release = cdev_default_release };
static const struct kobj_type ktype_cdev_dynamic = { .release = cdev_dynamic_release };

noinline struct cdev *cdev_alloc(void)
{
	struct cdev *p = kzalloc(sizeof(*p), GFP_KERNEL);

	if (p) {
		INIT_LIST_HEAD(&p->list);
		kobject_init(&p->kobj, &ktype_cdev_dynamic);
	}
	return p;
}
EXPORT_SYMBOL(cdev_alloc);

void cdev_init(struct cdev *cdev, const struct file_operations *fops)
{
	memset(cdev, 0, sizeof(*cdev));
	INIT_LIST_HEAD(&cdev->list);
	kobject_init(&cdev->kobj, &ktype_cdev_default);
	cdev->ops = fops;
}
EXPORT_SYMBOL(cdev_init);

int cdev_add(struct cdev *p, dev_t dev, unsigned int count)
{
	p->dev = dev;
	p->count = count;
	if (WARN_ON(dev == (dev_t)~0))
		return -EBUSY;
	mutex_lock(&chrdevs_lock);
	list_add(&p->list, &cdevs);
	mutex_unlock(&chrdevs_lock);
	kobject_get(p->kobj.parent);
	return 0;
}
EXPORT_SYMBOL(cdev_add);

void cdev_del(struct cdev *p)
{
	mutex_lock(&chrdevs_lock);
	list_del_init(&p->list);
	mutex_unlock(&chrdevs_lock);
	kobject_put(&p->kobj);
}
EXPORT_SYMBOL(cdev_del);

void cdev_set_parent(struct cdev *p, struct kobject *kobj)
{
	p->kobj.parent = kobj;
}
EXPORT_SYMBOL(cdev_set_parent);

void cdev_put(struct cdev *p)
{
	struct module *owner;

	if (!p)
		return;
	owner = p->owner;
	kobject_put(&p->kobj);
	module_put(owner);
}

// cdev_get returns the device of a number with a reference to it and its module, or NULL.
static struct cdev *cdev_get(dev_t dev)
{
	struct cdev *p, *found = NULL;

	mutex_lock(&chrdevs_lock);
	list_for_each_entry(p, &cdevs, list)
		if (dev >= p->dev && dev - p->dev < p->count) {
			found = p;
			break;
		}
	if (found && !try_module_get(found->owner))
		found = NULL;
	if (found)
		kobject_get(&found->kobj);
	mutex_unlock(&chrdevs_lock);
	return found;
}

// chrdev_open gives the file the device's operations. cdev_put follows its release.
static __noipa int chrdev_open(struct inode *inode, struct file *filp)
{
	struct cdev *p = cdev_get(inode->i_rdev);
	const struct file_operations *fops;
	int err = -ENXIO;

	if (!p)
		return -ENXIO;
	fops = fops_get(p->ops);
	if (!fops)
		goto out;
	replace_fops(filp, fops);
	inode->i_cdev = p;
	err = fops->open ? fops->open(inode, filp) : 0;
	if (!err)
		return 0;
out:
	cdev_put(p);
	return err;
}

const struct file_operations def_chr_fops = {
	.open = chrdev_open,
	.llseek = noop_llseek,
};

static int devinfo_show(struct seq_file *f, void *v)
{
	struct char_region *r;

	seq_puts(f, "Character devices:\n");
	mutex_lock(&chrdevs_lock);
	list_for_each_entry(r, &chrdevs, list)
		seq_printf(f, "%3d %s\n", r->major, r->name);
	mutex_unlock(&chrdevs_lock);
	seq_puts(f, "\nBlock devices:\n");
	return 0;
}

static int __init proc_devices_init(void)
{
	return proc_create_single_data("devices", 0, NULL, devinfo_show, NULL) ? 0 : -ENOMEM;
}
fs_initcall(proc_devices_init);
