// input.h: devices that people use, and the events that they give. Layouts are 6.1's.
#ifndef _INPUT_H
#define _INPUT_H

#include <linux/device.h>
#include <linux/bitops.h>
#include <linux/timer.h>
#include <linux/module.h>

#define EV_SYN 0x00
#define EV_KEY 0x01
#define EV_REL 0x02
#define EV_ABS 0x03
#define EV_MSC 0x04
#define EV_SW 0x05
#define EV_LED 0x11
#define EV_SND 0x12
#define EV_REP 0x14
#define EV_FF 0x15
#define EV_CNT 0x20
#define SYN_REPORT 0
#define KEY_MAX 0x2ff
#define KEY_CNT (KEY_MAX + 1)
#define BTN_LEFT 0x110
#define BTN_RIGHT 0x111
#define REL_X 0
#define REL_Y 1
#define REL_WHEEL 8
#define REL_CNT 0x10
#define ABS_X 0
#define ABS_Y 1
#define ABS_CNT 0x40
#define MSC_CNT 8
#define LED_CNT 0x10
#define SND_CNT 8
#define FF_CNT 0x80
#define SW_CNT 0x11
#define INPUT_PROP_CNT 0x20
#define BUS_PCI 0x01
#define BUS_USB 0x03
#define BUS_VIRTUAL 0x06
#define BUS_HOST 0x19

struct input_id {
	u16 bustype, vendor, product, version;
};

struct input_value {
	u16 type, code;
	s32 value;
};

struct input_absinfo {
	s32 value, minimum, maximum, fuzz, flat, resolution;
};

struct input_device_id {
	unsigned long flags;
	u16 bustype, vendor, product, version;
	unsigned long evbit[1], keybit[12], relbit[1], absbit[1], mscbit[1], ledbit[1], sndbit[1], ffbit[2], swbit[1], propbit[1];
	unsigned long driver_info;
};
#define INPUT_DEVICE_ID_MATCH_BUS 1
#define INPUT_DEVICE_ID_MATCH_VENDOR 2
#define INPUT_DEVICE_ID_MATCH_PRODUCT 4
#define INPUT_DEVICE_ID_MATCH_VERSION 8
#define INPUT_DEVICE_ID_MATCH_EVBIT 0x10
#define INPUT_DEVICE_ID_MATCH_KEYBIT 0x20
#define INPUT_DEVICE_ID_MATCH_RELBIT 0x40

struct input_handle;

struct input_dev {
	const char *name, *phys, *uniq;
	struct input_id id;
	unsigned long propbit[1], evbit[1], keybit[12], relbit[1], absbit[1], mscbit[1], ledbit[1], sndbit[1], ffbit[2], swbit[1];
	unsigned int hint_events_per_packet;
	unsigned int keycodemax, keycodesize;
	void *keycode;
	int (*setkeycode)(struct input_dev *dev, const void *ke, unsigned int *old_keycode);
	int (*getkeycode)(struct input_dev *dev, void *ke);
	void *ff, *poller;
	unsigned int repeat_key;
	struct timer_list timer;
	int rep[2];
	void *mt;
	struct input_absinfo *absinfo;
	unsigned long key[12], led[1], snd[1], sw[1];
	int (*open)(struct input_dev *dev);
	void (*close)(struct input_dev *dev);
	int (*flush)(struct input_dev *dev, struct file *file);
	int (*event)(struct input_dev *dev, unsigned int type, unsigned int code, int value);
	struct input_handle *grab;
	spinlock_t event_lock;
	struct mutex mutex;
	unsigned int users;
	bool going_away;
	struct device dev;
	struct list_head h_list, node;
	unsigned int num_vals, max_vals;
	struct input_value *vals;
	bool devres_managed;
	u64 timestamp[3];
	bool inhibited;
};
static_assert(offsetof(struct input_dev, evbit) == 40, "struct input_dev");
static_assert(offsetof(struct input_dev, hint_events_per_packet) == 208, "struct input_dev");
static_assert(offsetof(struct input_dev, timer) == 272, "struct input_dev");
static_assert(offsetof(struct input_dev, key) == 336, "struct input_dev");
static_assert(offsetof(struct input_dev, event) == 480, "struct input_dev");
static_assert(offsetof(struct input_dev, dev) == 544, "struct input_dev");
static_assert(offsetof(struct input_dev, h_list) == 1296, "struct input_dev");
static_assert(sizeof(struct input_dev) == 1384, "struct input_dev");

struct input_handler {
	void *private;
	void (*event)(struct input_handle *handle, unsigned int type, unsigned int code, int value);
	void (*events)(struct input_handle *handle, const struct input_value *vals, unsigned int count);
	bool (*filter)(struct input_handle *handle, unsigned int type, unsigned int code, int value);
	bool (*match)(struct input_handler *handler, struct input_dev *dev);
	int (*connect)(struct input_handler *handler, struct input_dev *dev, const struct input_device_id *id);
	void (*disconnect)(struct input_handle *handle);
	void (*start)(struct input_handle *handle);
	bool legacy_minors;
	int minor;
	const char *name;
	const struct input_device_id *id_table;
	struct list_head h_list, node;
};
static_assert(sizeof(struct input_handler) == 120, "struct input_handler");

struct input_handle {
	void *private;
	int open;
	const char *name;
	struct input_dev *dev;
	struct input_handler *handler;
	struct list_head d_node, h_node;
};
static_assert(sizeof(struct input_handle) == 72, "struct input_handle");

#define to_input_dev(d) container_of(d, struct input_dev, dev)
struct input_dev *input_allocate_device(void);
struct input_dev *devm_input_allocate_device(struct device *dev);
void input_free_device(struct input_dev *dev);
int input_register_device(struct input_dev *dev);
void input_unregister_device(struct input_dev *dev);
void input_event(struct input_dev *dev, unsigned int type, unsigned int code, int value);
void input_inject_event(struct input_handle *handle, unsigned int type, unsigned int code, int value);
void input_set_capability(struct input_dev *dev, unsigned int type, unsigned int code);
void input_alloc_absinfo(struct input_dev *dev);
void input_set_abs_params(struct input_dev *dev, unsigned int axis, int min, int max, int fuzz, int flat);
int input_register_handler(struct input_handler *handler);
void input_unregister_handler(struct input_handler *handler);
int input_register_handle(struct input_handle *handle);
void input_unregister_handle(struct input_handle *handle);
int input_open_device(struct input_handle *handle);
void input_close_device(struct input_handle *handle);
static inline struct input_dev *input_get_device(struct input_dev *dev) { return dev ? to_input_dev(get_device(&dev->dev)) : NULL; }
static inline void input_put_device(struct input_dev *dev) { if (dev) put_device(&dev->dev); }
static inline void *input_get_drvdata(struct input_dev *dev) { return dev->dev.driver_data; }
static inline void input_set_drvdata(struct input_dev *dev, void *data) { dev->dev.driver_data = data; }
static inline void input_report_key(struct input_dev *dev, unsigned int code, int value) { input_event(dev, EV_KEY, code, !!value); }
static inline void input_report_rel(struct input_dev *dev, unsigned int code, int value) { input_event(dev, EV_REL, code, value); }
static inline void input_report_abs(struct input_dev *dev, unsigned int code, int value) { input_event(dev, EV_ABS, code, value); }
static inline void input_sync(struct input_dev *dev) { input_event(dev, EV_SYN, SYN_REPORT, 0); }

#endif
