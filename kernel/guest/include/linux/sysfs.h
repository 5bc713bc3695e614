// sysfs.h: attributes of kernel objects, which are short texts. Layouts are 6.1's.
#ifndef _LINUX_SYSFS_H
#define _LINUX_SYSFS_H

#include <linux/types.h>
#include <linux/compiler.h>

struct kobject;
struct file;
struct vm_area_struct;
struct address_space;

struct attribute {
	const char *name;
	umode_t mode;
};
static_assert(sizeof(struct attribute) == 16, "struct attribute");

struct bin_attribute {
	struct attribute attr;
	size_t size;
	void *private;
	struct address_space *(*f_mapping)(void);
	ssize_t (*read)(struct file *, struct kobject *, struct bin_attribute *, char *, loff_t, size_t);
	ssize_t (*write)(struct file *, struct kobject *, struct bin_attribute *, char *, loff_t, size_t);
	int (*mmap)(struct file *, struct kobject *, struct bin_attribute *, struct vm_area_struct *);
};
static_assert(sizeof(struct bin_attribute) == 64, "struct bin_attribute");

struct attribute_group {
	const char *name;
	umode_t (*is_visible)(struct kobject *, struct attribute *, int);
	umode_t (*is_bin_visible)(struct kobject *, struct bin_attribute *, int);
	struct attribute **attrs;
	struct bin_attribute **bin_attrs;
};
static_assert(sizeof(struct attribute_group) == 40, "struct attribute_group");

struct sysfs_ops {
	ssize_t (*show)(struct kobject *, struct attribute *, char *);
	ssize_t (*store)(struct kobject *, struct attribute *, const char *, size_t);
};

int sysfs_create_dir_ns(struct kobject *kobj, const void *ns);
void sysfs_remove_dir(struct kobject *kobj);
int sysfs_create_file_ns(struct kobject *kobj, const struct attribute *attr, const void *ns);
void sysfs_remove_file_ns(struct kobject *kobj, const struct attribute *attr, const void *ns);
int sysfs_create_files(struct kobject *kobj, const struct attribute *const *ptr);
void sysfs_remove_files(struct kobject *kobj, const struct attribute *const *ptr);
int sysfs_create_bin_file(struct kobject *kobj, const struct bin_attribute *attr);
void sysfs_remove_bin_file(struct kobject *kobj, const struct bin_attribute *attr);
int sysfs_create_group(struct kobject *kobj, const struct attribute_group *grp);
int sysfs_create_groups(struct kobject *kobj, const struct attribute_group **groups);
void sysfs_remove_group(struct kobject *kobj, const struct attribute_group *grp);
void sysfs_remove_groups(struct kobject *kobj, const struct attribute_group **groups);
int sysfs_create_link(struct kobject *kobj, struct kobject *target, const char *name);
void sysfs_remove_link(struct kobject *kobj, const char *name);
void sysfs_notify(struct kobject *kobj, const char *dir, const char *attr);
// sysfs_emit writes a text to an attribute's page and returns its length.
int sysfs_emit(char *buf, const char *fmt, ...);
int sysfs_emit_at(char *buf, int at, const char *fmt, ...);

#endif
