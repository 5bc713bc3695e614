// nsproxy.h: the namespaces of a task. Layouts are 6.1's.
#ifndef _LINUX_NSPROXY_H
#define _LINUX_NSPROXY_H

#include <linux/types.h>

struct uts_namespace;
struct mnt_namespace;
struct pid_namespace;

struct nsproxy {
	refcount_t count;
	struct uts_namespace *uts_ns;
	void *ipc_ns;
	struct mnt_namespace *mnt_ns;
	struct pid_namespace *pid_ns_for_children;
	void *net_ns, *time_ns, *time_ns_for_children, *cgroup_ns;
};
static_assert(offsetof(struct nsproxy, uts_ns) == 8, "struct nsproxy");

extern struct nsproxy init_nsproxy;

#endif
