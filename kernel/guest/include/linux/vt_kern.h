// vt_kern.h: virtual consoles, as far as modules look into them. Layouts are 6.1's.
#ifndef _LINUX_VT_KERN_H
#define _LINUX_VT_KERN_H

#include <linux/tty.h>
#include <linux/workqueue.h>

#define MAX_NR_CONSOLES 63

struct vc_data {
	struct tty_port port;
	char __before_num[416 - 376];
	unsigned short vc_num; // 416
	unsigned int vc_cols, vc_rows;
	char __tail[824 - 428];
};
static_assert(offsetof(struct vc_data, vc_num) == 416, "struct vc_data");
static_assert(sizeof(struct vc_data) == 824, "struct vc_data");

struct vc {
	struct vc_data *d;
	struct work_struct SAK_work;
};
static_assert(sizeof(struct vc) == 40, "struct vc");

extern struct vc vc_cons[MAX_NR_CONSOLES];
extern int fg_console;

#endif
