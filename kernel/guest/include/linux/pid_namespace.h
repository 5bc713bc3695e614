/* pid_namespace.h: there is one namespace of process ids. */
#ifndef _LINUX_PID_NAMESPACE_H
#define _LINUX_PID_NAMESPACE_H

#include <linux/ns_common.h>
#include <linux/pid.h>

struct kmem_cache;

struct pid_namespace {
	struct kmem_cache *pid_cachep;
	int last_pid;
	unsigned int pid_allocated, level;
	struct ns_common ns;
};

#endif
