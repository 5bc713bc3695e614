// tty.h: terminals, as far as modules look into them. Layouts are 6.1's. There are none:
// no task has a controlling terminal.
#ifndef _LINUX_TTY_H
#define _LINUX_TTY_H

#include <linux/kernel.h>
#include <linux/sched.h>
#include <linux/kobject.h>

struct tty_struct;
struct tty_driver;

struct tty_operations {
	void *lookup, *install, *remove;
	int (*open)(struct tty_struct *tty, struct file *filp);
	void (*close)(struct tty_struct *tty, struct file *filp);
	void *shutdown, *cleanup;
	int (*write)(struct tty_struct *tty, const unsigned char *buf, int count);
	int (*put_char)(struct tty_struct *tty, unsigned char ch);
	void *flush_chars;
	unsigned int (*write_room)(struct tty_struct *tty);
	void *chars_in_buffer;
	int (*ioctl)(struct tty_struct *tty, unsigned int cmd, unsigned long arg);
};

struct tty_driver {
	struct kref kref;
	void *cdevs;
	struct module *owner;
	const char *driver_name, *name;
	int name_base;
	int major; // 44
	int minor_start;
	unsigned int num;
};
static_assert(offsetof(struct tty_driver, major) == 44, "struct tty_driver");

struct tty_struct {
	struct kref kref;
	struct device *dev;
	struct tty_driver *driver; // 16
	const struct tty_operations *ops;
	int index;
};
static_assert(offsetof(struct tty_struct, index) == 32, "struct tty_struct");

struct tty_port {
	char __before_tty[136];
	struct tty_struct *tty; // 136
	char __tail[376 - 144];
};
static_assert(offsetof(struct tty_operations, ioctl) == 96, "struct tty_operations");

struct tty_struct *get_current_tty(void);
dev_t tty_devnum(struct tty_struct *tty);
void tty_kref_put(struct tty_struct *tty);

#endif
