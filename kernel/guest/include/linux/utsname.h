// utsname.h: what uname(2) tells. Layouts are 6.1's.
#ifndef _LINUX_UTSNAME_H
#define _LINUX_UTSNAME_H

#include <linux/sched.h>
#include <linux/ns_common.h>
#include <linux/nsproxy.h>

struct new_utsname {
	char sysname[65], nodename[65], release[65], version[65], machine[65], domainname[65];
};

struct uts_namespace {
	struct new_utsname name;
	void *user_ns, *ucounts;
	struct ns_common ns;
};
static_assert(sizeof(struct uts_namespace) == 432, "struct uts_namespace");

extern struct uts_namespace init_uts_ns;

// There is one namespace of each kind, and one nsproxy.
static inline struct new_utsname *utsname(void) { return &current->nsproxy->uts_ns->name; }
static inline struct new_utsname *init_utsname(void) { return &init_uts_ns.name; }

#endif
