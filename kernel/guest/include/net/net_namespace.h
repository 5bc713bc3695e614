// net_namespace.h: the one network namespace. The offsets of what modules read inline are
// 6.1's.
#ifndef _NET_NET_NAMESPACE_H
#define _NET_NET_NAMESPACE_H

#include <linux/types.h>
#include <linux/list.h>
#include <linux/ns_common.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>

struct net_device;
struct proc_dir_entry;
struct sock;
struct user_namespace;

// What refers to a namespace, as sockets do.
typedef struct {
	struct net *net;
} possible_net_t;

struct net {
	refcount_t passive;
	spinlock_t rules_mod_lock;
	atomic_t dev_unreg_count;
	unsigned int dev_base_seq;
	int ifindex;
	char unused1[68];
	struct user_namespace *user_ns;
	void *ucounts;
	char unused2[24];
	struct ns_common ns;
	struct list_head dev_base_head;
	struct proc_dir_entry *proc_net, *proc_net_stat;
	char unused3[96];
	struct sock *rtnl, *genl_sock;
	char unused4[40];
	struct net_device *loopback_dev;
	char unused5[4136];
};
static_assert(offsetof(struct net, user_ns) == 88, "net.user_ns");
static_assert(offsetof(struct net, dev_base_head) == 152, "net.dev_base_head");
static_assert(offsetof(struct net, proc_net) == 168, "net.proc_net");
static_assert(offsetof(struct net, rtnl) == 280, "net.rtnl");
static_assert(offsetof(struct net, loopback_dev) == 336, "net.loopback_dev");
static_assert(sizeof(struct net) == 4480, "struct net");

extern struct net init_net;

#define for_each_netdev(net, d) list_for_each_entry(d, &(net)->dev_base_head, dev_list)
#define for_each_netdev_rcu(net, d) list_for_each_entry_rcu(d, &(net)->dev_base_head, dev_list)

#endif
