// cdev.h: character devices. Layouts are 6.1's.
#ifndef _LINUX_CDEV_H
#define _LINUX_CDEV_H

#include <linux/fs.h>
#include <linux/kobject.h>

#define MINORBITS 20
#define MAJOR(dev) ((unsigned int)((dev) >> MINORBITS))
#define MINOR(dev) ((unsigned int)((dev) & ((1U << MINORBITS) - 1)))
#define MKDEV(ma, mi) (((ma) << MINORBITS) | (mi))

struct cdev {
	struct kobject kobj;
	struct module *owner;
	const struct file_operations *ops;
	struct list_head list;
	dev_t dev;
	unsigned int count;
};
static_assert(sizeof(struct cdev) == 104, "struct cdev");

extern const struct file_operations def_chr_fops;
void cdev_init(struct cdev *cdev, const struct file_operations *fops);
int cdev_add(struct cdev *p, dev_t dev, unsigned int count);
void cdev_del(struct cdev *p);
void cdev_put(struct cdev *p);
struct cdev *cdev_alloc(void);
int __register_chrdev(unsigned int major, unsigned int baseminor, unsigned int count, const char *name, const struct file_operations *fops);
void __unregister_chrdev(unsigned int major, unsigned int baseminor, unsigned int count, const char *name);

void cdev_set_parent(struct cdev *p, struct kobject *kobj);
#endif
