// ns_common.h: what namespaces of all kinds have. There is one namespace of each kind; the numbers are those of
// the first ones of a Debian system (readlink /proc/1/ns/*).
#ifndef _LINUX_NS_COMMON_H
#define _LINUX_NS_COMMON_H

#include <linux/types.h>
#include <linux/refcount.h>

struct proc_ns_operations;

struct ns_common {
	atomic_long_t stashed;
	const struct proc_ns_operations *ops;
	unsigned int inum;
	refcount_t count;
};

enum {
	PROC_UTS_INIT_INO = 0xEFFFFFFE,
	PROC_PID_INIT_INO = 0xEFFFFFFC,
	NET_INIT_INO = 0xF0000000,
	MNT_INIT_INO = 0xF0000001,
};

#endif
