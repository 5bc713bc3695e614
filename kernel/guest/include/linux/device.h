// device.h: devices, their classes and attributes. Layouts are 6.1's.
#ifndef _LINUX_DEVICE_H
#define _LINUX_DEVICE_H

#include <linux/kernel.h>
#include <linux/kobject.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/gfp.h>

struct device;
struct class;
struct bus_type;
struct device_driver;

// The variables of an event of a device.
#define UEVENT_NUM_ENVP 64
#define UEVENT_BUFFER_SIZE 2048
struct kobj_uevent_env {
	char *argv[3], *envp[UEVENT_NUM_ENVP];
	int envp_idx;
	char buf[UEVENT_BUFFER_SIZE];
	int buflen;
};
static_assert(offsetof(struct kobj_uevent_env, buf) == 540, "struct kobj_uevent_env");
int add_uevent_var(struct kobj_uevent_env *env, const char *format, ...);

struct device_attribute {
	struct attribute attr;
	ssize_t (*show)(struct device *dev, struct device_attribute *attr, char *buf);
	ssize_t (*store)(struct device *dev, struct device_attribute *attr, const char *buf, size_t count);
};

// A device_type is what devices of one kind on a bus have in common.
struct device_type {
	const char *name;
	const struct attribute_group **groups;
	int (*uevent)(struct device *dev, struct kobj_uevent_env *env);
	char *(*devnode)(struct device *dev, umode_t *mode, kuid_t *uid, kgid_t *gid);
	void (*release)(struct device *dev);
	const void *pm;
};

// device_private is what a device that is on a bus has there.
struct device_private;

struct device {
	struct kobject kobj;
	struct device *parent;
	struct device_private *p;
	const char *init_name; // until it is registered
	const struct device_type *type;
	struct bus_type *bus;
	struct device_driver *driver; // when one is bound
	void *platform_data, *driver_data;
	struct mutex mutex; // held while a driver is bound and unbound
	char __before_dma_mask[576 - 160];
	u64 *dma_mask;
	u64 coherent_dma_mask, bus_dma_limit;
	char __before_of_node[640 - 600];
	void *of_node, *fwnode;
	int numa_node;
	dev_t devt;
	u32 id;
	spinlock_t devres_lock;
	struct list_head devres_head;
	struct class *class;
	const struct attribute_group **groups; // up to a NULL
	void (*release)(struct device *dev);
	struct list_head node; // ours: in the list of all devices
	char __tail[24];
};
static_assert(offsetof(struct device, driver_data) == 120, "struct device");
static_assert(offsetof(struct device, dma_mask) == 576, "struct device");
static_assert(offsetof(struct device, numa_node) == 656, "struct device");
static_assert(offsetof(struct device, devt) == 660, "struct device");
static_assert(offsetof(struct device, class) == 688, "struct device");
static_assert(offsetof(struct device, release) == 704, "struct device");
static_assert(sizeof(struct device) == 752, "struct device");

struct class_private;
struct class {
	const char *name;
	struct module *owner;
	const struct attribute_group **class_groups, **dev_groups;
	struct kobject *dev_kobj;
	int (*dev_uevent)(struct device *dev, struct kobj_uevent_env *env);
	char *(*devnode)(struct device *dev, umode_t *mode);
	void (*class_release)(struct class *class);
	void (*dev_release)(struct device *dev);
	int (*shutdown_pre)(struct device *dev);
	const void *ns_type;
	const void *(*namespace)(struct device *dev);
	void (*get_ownership)(struct device *dev, kuid_t *uid, kgid_t *gid);
	const void *pm;
	struct class_private *p;
};
static_assert(offsetof(struct class, p) == 112, "struct class");

struct bus_attribute {
	struct attribute attr;
	ssize_t (*show)(struct bus_type *bus, char *buf);
	ssize_t (*store)(struct bus_type *bus, const char *buf, size_t count);
};

struct driver_attribute {
	struct attribute attr;
	ssize_t (*show)(struct device_driver *driver, char *buf);
	ssize_t (*store)(struct device_driver *driver, const char *buf, size_t count);
};

typedef struct pm_message { int event; } pm_message_t;
struct subsys_private;

// A bus_type has devices and drivers, and says which go together.
struct bus_type {
	const char *name, *dev_name;
	struct device *dev_root;
	const struct attribute_group **bus_groups, **dev_groups, **drv_groups;
	int (*match)(struct device *dev, struct device_driver *drv);
	int (*uevent)(struct device *dev, struct kobj_uevent_env *env);
	int (*probe)(struct device *dev);
	void (*sync_state)(struct device *dev);
	void (*remove)(struct device *dev);
	void (*shutdown)(struct device *dev);
	int (*online)(struct device *dev);
	int (*offline)(struct device *dev);
	int (*suspend)(struct device *dev, pm_message_t state);
	int (*resume)(struct device *dev);
	int (*num_vf)(struct device *dev);
	int (*dma_configure)(struct device *dev);
	void (*dma_cleanup)(struct device *dev);
	const void *pm, *iommu_ops;
	struct subsys_private *p;
	bool need_parent_lock;
};
static_assert(offsetof(struct bus_type, p) == 168, "struct bus_type");
static_assert(sizeof(struct bus_type) == 184, "struct bus_type");

enum probe_type { PROBE_DEFAULT_STRATEGY, PROBE_PREFER_ASYNCHRONOUS, PROBE_FORCE_SYNCHRONOUS };

struct of_device_id {
	char name[32], type[32], compatible[128];
	const void *data;
};

struct driver_private;

struct device_driver {
	const char *name;
	struct bus_type *bus;
	struct module *owner;
	const char *mod_name;
	bool suppress_bind_attrs;
	enum probe_type probe_type;
	const struct of_device_id *of_match_table;
	const void *acpi_match_table;
	int (*probe)(struct device *dev);
	void (*sync_state)(struct device *dev);
	int (*remove)(struct device *dev);
	void (*shutdown)(struct device *dev);
	int (*suspend)(struct device *dev, pm_message_t state);
	int (*resume)(struct device *dev);
	const struct attribute_group **groups, **dev_groups;
	const void *pm;
	void (*coredump)(struct device *dev);
	struct driver_private *p;
};
static_assert(offsetof(struct device_driver, probe) == 56, "struct device_driver");
static_assert(sizeof(struct device_driver) == 144, "struct device_driver");

int bus_register(struct bus_type *bus);
void bus_unregister(struct bus_type *bus);
int bus_create_file(struct bus_type *bus, struct bus_attribute *attr);
void bus_remove_file(struct bus_type *bus, struct bus_attribute *attr);
int bus_for_each_dev(struct bus_type *bus, struct device *start, void *data, int (*fn)(struct device *dev, void *data));
int bus_for_each_drv(struct bus_type *bus, struct device_driver *start, void *data, int (*fn)(struct device_driver *drv, void *data));
struct device *bus_find_device(struct bus_type *bus, struct device *start, const void *data, int (*match)(struct device *dev, const void *data));
int driver_register(struct device_driver *drv);
void driver_unregister(struct device_driver *drv);
int driver_create_file(struct device_driver *drv, const struct driver_attribute *attr);
void driver_remove_file(struct device_driver *drv, const struct driver_attribute *attr);
int driver_for_each_device(struct device_driver *drv, struct device *start, void *data, int (*fn)(struct device *dev, void *data));
struct device_driver *driver_find(const char *name, struct bus_type *bus);

// What drivers/base does with buses.
int bus_add_device(struct device *dev);
void bus_probe_device(struct device *dev);
void bus_remove_device(struct device *dev);
int bus_add_driver(struct device_driver *drv);
void bus_remove_driver(struct device_driver *drv);
int device_attach(struct device *dev);
int driver_attach(struct device_driver *drv);
void driver_detach(struct device_driver *drv);
void device_release_driver(struct device *dev);
void driver_deferred_probe_trigger(void);
void driver_deferred_probe_del(struct device *dev);

#define BUS_ATTR_RO(n) struct bus_attribute bus_attr_##n = { { #n, 0444 }, n##_show, NULL }
#define BUS_ATTR_RW(n) struct bus_attribute bus_attr_##n = { { #n, 0644 }, n##_show, n##_store }
#define BUS_ATTR_WO(n) struct bus_attribute bus_attr_##n = { { #n, 0200 }, NULL, n##_store }
#define DRIVER_ATTR_RO(n) struct driver_attribute driver_attr_##n = { { #n, 0444 }, n##_show, NULL }
#define DRIVER_ATTR_RW(n) struct driver_attribute driver_attr_##n = { { #n, 0644 }, n##_show, n##_store }
#define DRIVER_ATTR_WO(n) struct driver_attribute driver_attr_##n = { { #n, 0200 }, NULL, n##_store }

// devres: what a device's driver has asked for, released in the reverse order when the
// driver is unbound or the device goes.
typedef void (*dr_release_t)(struct device *dev, void *res);
typedef int (*dr_match_t)(struct device *dev, void *res, void *match_data);
void *__devres_alloc_node(dr_release_t release, size_t size, gfp_t gfp, int nid, const char *name);
#define devres_alloc(release, size, gfp) __devres_alloc_node(release, size, gfp, -1, #release)
void devres_free(void *res);
void devres_add(struct device *dev, void *res);
void *devres_find(struct device *dev, dr_release_t release, dr_match_t match, void *match_data);
void *devres_get(struct device *dev, void *new_res, dr_match_t match, void *match_data);
void *devres_remove(struct device *dev, dr_release_t release, dr_match_t match, void *match_data);
int devres_destroy(struct device *dev, dr_release_t release, dr_match_t match, void *match_data);
int devres_release(struct device *dev, dr_release_t release, dr_match_t match, void *match_data);
int devres_release_all(struct device *dev);
void *devm_kmalloc(struct device *dev, size_t size, gfp_t gfp);
void *devm_krealloc(struct device *dev, void *ptr, size_t size, gfp_t gfp);
void devm_kfree(struct device *dev, const void *p);
char *devm_kstrdup(struct device *dev, const char *s, gfp_t gfp);
const char *devm_kstrdup_const(struct device *dev, const char *s, gfp_t gfp);
char *devm_kvasprintf(struct device *dev, gfp_t gfp, const char *fmt, __builtin_va_list ap);
char *devm_kasprintf(struct device *dev, gfp_t gfp, const char *fmt, ...);
void *devm_kmemdup(struct device *dev, const void *src, size_t len, gfp_t gfp);
unsigned long devm_get_free_pages(struct device *dev, gfp_t gfp_mask, unsigned int order);
void devm_free_pages(struct device *dev, unsigned long addr);
int devm_add_action(struct device *dev, void (*action)(void *), void *data);
void devm_remove_action(struct device *dev, void (*action)(void *), void *data);
void devm_release_action(struct device *dev, void (*action)(void *), void *data);
static inline void *devm_kzalloc(struct device *dev, size_t size, gfp_t gfp) { return devm_kmalloc(dev, size, gfp | __GFP_ZERO); }
static inline void *devm_kmalloc_array(struct device *dev, size_t n, size_t size, gfp_t gfp)
{
	size_t bytes;

	return __builtin_mul_overflow(n, size, &bytes) ? NULL : devm_kmalloc(dev, bytes, gfp);
}
static inline void *devm_kcalloc(struct device *dev, size_t n, size_t size, gfp_t gfp) { return devm_kmalloc_array(dev, n, size, gfp | __GFP_ZERO); }
static inline int devm_add_action_or_reset(struct device *dev, void (*action)(void *), void *data)
{
	int err = devm_add_action(dev, action, data);

	if (err)
		action(data);
	return err;
}
#define module_driver(d, reg, unreg, ...) \
	static int __init d##_init(void) { return reg(&(d), ##__VA_ARGS__); } module_init(d##_init) \
	static void __exit d##_exit(void) { unreg(&(d), ##__VA_ARGS__); } module_exit(d##_exit)

#define __DEVICE_ATTR(n, m, s, t) static struct device_attribute dev_attr_##n = { { #n, m }, s, t }
#define DEVICE_ATTR_RO(n) __DEVICE_ATTR(n, 0444, n##_show, NULL)
#define DEVICE_ATTR_RW(n) __DEVICE_ATTR(n, 0644, n##_show, n##_store)
#define dev_get_drvdata(dev) ((dev)->driver_data)
static inline void dev_set_drvdata(struct device *dev, void *data) { dev->driver_data = data; }
static inline void *dev_get_platdata(const struct device *dev) { return dev->platform_data; }
static inline void device_lock(struct device *dev) { mutex_lock(&dev->mutex); }
static inline void device_unlock(struct device *dev) { mutex_unlock(&dev->mutex); }

static inline const char *dev_name(const struct device *dev)
{
	return dev->init_name ? dev->init_name : kobject_name(&dev->kobj);
}

int device_register(struct device *dev);
void device_unregister(struct device *dev);
void device_initialize(struct device *dev);
int device_add(struct device *dev);
void device_del(struct device *dev);
struct device *get_device(struct device *dev);
void put_device(struct device *dev);
int dev_set_name(struct device *dev, const char *fmt, ...);
struct device *device_create(struct class *class, struct device *parent, dev_t devt, void *drvdata, const char *fmt, ...);
struct device *device_create_with_groups(struct class *class, struct device *parent, dev_t devt, void *drvdata, const struct attribute_group **groups, const char *fmt, ...);
void device_destroy(struct class *class, dev_t devt);
struct class *__class_create(struct module *owner, const char *name, struct lock_class_key *key);
int __class_register(struct class *cls, struct lock_class_key *key);
void class_unregister(struct class *cls);
void class_destroy(struct class *cls);
struct device *device_find_by_name(const char *name);
ssize_t dev_attr_show(struct device *dev, const char *attr, char *buf);
ssize_t dev_attr_store(struct device *dev, const char *attr, const char *buf, size_t count);

struct dev_ext_attribute {
	struct device_attribute attr;
	void *var;
};
#define DEVICE_ULONG_ATTR(_name, _mode, _var) \
	struct dev_ext_attribute dev_attr_##_name = { __ATTR(_name, _mode, device_show_ulong, device_store_ulong), &(_var) }
#define DEVICE_INT_ATTR(_name, _mode, _var) \
	struct dev_ext_attribute dev_attr_##_name = { __ATTR(_name, _mode, device_show_int, device_store_int), &(_var) }
#define DEVICE_BOOL_ATTR(_name, _mode, _var) \
	struct dev_ext_attribute dev_attr_##_name = { __ATTR(_name, _mode, device_show_bool, device_store_bool), &(_var) }
ssize_t device_show_ulong(struct device *dev, struct device_attribute *attr, char *buf);
ssize_t device_store_ulong(struct device *dev, struct device_attribute *attr, const char *buf, size_t size);
ssize_t device_show_int(struct device *dev, struct device_attribute *attr, char *buf);
ssize_t device_store_int(struct device *dev, struct device_attribute *attr, const char *buf, size_t size);
ssize_t device_show_bool(struct device *dev, struct device_attribute *attr, char *buf);
ssize_t device_store_bool(struct device *dev, struct device_attribute *attr, const char *buf, size_t size);
int device_for_each_child(struct device *parent, void *data, int (*fn)(struct device *dev, void *data));
struct device *device_find_child(struct device *parent, void *data, int (*match)(struct device *dev, void *data));
int class_for_each_device(struct class *class, struct device *start, void *data, int (*fn)(struct device *dev, void *data));
struct device *class_find_device(struct class *class, struct device *start, const void *data, int (*match)(struct device *dev, const void *data));
int device_match_name(struct device *dev, const void *name);
int device_match_devt(struct device *dev, const void *pdevt);
int device_create_bin_file(struct device *dev, const struct bin_attribute *attr);
void device_remove_bin_file(struct device *dev, const struct bin_attribute *attr);
struct cdev;
int cdev_device_add(struct cdev *cdev, struct device *dev);
void cdev_device_del(struct cdev *cdev, struct device *dev);
#endif
