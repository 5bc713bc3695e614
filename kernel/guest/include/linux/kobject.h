// kobject.h: objects with a reference count and a directory in sysfs. Layouts are 6.1's.
#ifndef _LINUX_KOBJECT_H
#define _LINUX_KOBJECT_H

#include <linux/types.h>
#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/refcount.h>
#include <linux/sysfs.h>

struct kset;
struct dentry;

struct kref {
	refcount_t refcount;
};

struct kobj_type {
	void (*release)(struct kobject *kobj);
	const struct sysfs_ops *sysfs_ops;
	const struct attribute_group **default_groups;
	const void *(*child_ns_type)(struct kobject *kobj);
	const void *(*namespace)(struct kobject *kobj);
	void (*get_ownership)(struct kobject *kobj, kuid_t *uid, kgid_t *gid);
};
static_assert(sizeof(struct kobj_type) == 48, "struct kobj_type");

struct kobject {
	const char *name;
	struct list_head entry;
	struct kobject *parent;
	struct kset *kset;
	const struct kobj_type *ktype;
	struct dentry *sd; // Linux has a kernfs_node here
	struct kref kref;
	unsigned int state_initialized : 1, state_in_sysfs : 1, state_add_uevent_sent : 1, state_remove_uevent_sent : 1, uevent_suppress : 1;
};
static_assert(offsetof(struct kobject, sd) == 48, "struct kobject");
static_assert(sizeof(struct kobject) == 64, "struct kobject");

struct kobj_attribute {
	struct attribute attr;
	ssize_t (*show)(struct kobject *kobj, struct kobj_attribute *attr, char *buf);
	ssize_t (*store)(struct kobject *kobj, struct kobj_attribute *attr, const char *buf, size_t count);
};

struct kset {
	struct list_head list;
	spinlock_t list_lock;
	struct kobject kobj;
	const void *uevent_ops;
};
static_assert(sizeof(struct kset) == 96, "struct kset");

enum kobject_action { KOBJ_ADD, KOBJ_REMOVE, KOBJ_CHANGE, KOBJ_MOVE, KOBJ_ONLINE, KOBJ_OFFLINE, KOBJ_BIND, KOBJ_UNBIND };

static inline const char *kobject_name(const struct kobject *kobj) { return kobj->name; }

extern const struct sysfs_ops kobj_sysfs_ops;
extern struct kset *module_kset;
extern struct kobject *kernel_kobj, *module_kobj, *virtual_kobj, *class_kobj;
void kobject_init(struct kobject *kobj, const struct kobj_type *ktype);
int kobject_add(struct kobject *kobj, struct kobject *parent, const char *fmt, ...);
int kobject_add_varg(struct kobject *kobj, struct kobject *parent, const char *fmt, __builtin_va_list vargs);
int kobject_add_named(struct kobject *kobj, struct kobject *parent);
int kobject_init_and_add(struct kobject *kobj, const struct kobj_type *ktype, struct kobject *parent, const char *fmt, ...);
struct kobject *kobject_create_and_add(const char *name, struct kobject *parent);
int kobject_set_name(struct kobject *kobj, const char *fmt, ...);
int kobject_set_name_vargs(struct kobject *kobj, const char *fmt, __builtin_va_list vargs);
struct kobject *kobject_get(struct kobject *kobj);
void kobject_put(struct kobject *kobj);
void kobject_del(struct kobject *kobj);
int kobject_uevent(struct kobject *kobj, enum kobject_action action);
struct kset *kset_create_and_add(const char *name, const void *uevent_ops, struct kobject *parent_kobj);
void kset_init(struct kset *k);
int kset_register(struct kset *k);
void kset_unregister(struct kset *k);

struct kobject *kobject_get_unless_zero(struct kobject *kobj);
struct kobject *kset_find_obj(struct kset *kset, const char *name);
char *kobject_get_path(const struct kobject *kobj, gfp_t gfp_mask);
#endif
