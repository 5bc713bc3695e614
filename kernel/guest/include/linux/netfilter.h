// netfilter.h: hooks in the way of packets. They can be registered, and no packet comes to
// them.
#ifndef _LINUX_NETFILTER_H
#define _LINUX_NETFILTER_H

#include <linux/skbuff.h>
#include <linux/rcupdate.h>
#include <net/net_namespace.h>

#define NF_DROP 0
#define NF_ACCEPT 1

enum { NFPROTO_UNSPEC, NFPROTO_INET, NFPROTO_IPV4, NFPROTO_ARP, NFPROTO_NETDEV = 5, NFPROTO_BRIDGE = 7, NFPROTO_IPV6 = 10 };
enum nf_inet_hooks { NF_INET_PRE_ROUTING, NF_INET_LOCAL_IN, NF_INET_FORWARD, NF_INET_LOCAL_OUT, NF_INET_POST_ROUTING, NF_INET_NUMHOOKS };

struct nf_hook_state;
typedef unsigned int nf_hookfn(void *priv, struct sk_buff *skb, const struct nf_hook_state *state);

struct nf_hook_ops {
	struct rcu_head rcu;
	nf_hookfn *hook;
	struct net_device *dev;
	void *priv;
	u8 pf, hook_ops_type;
	unsigned int hooknum;
	int priority;
};
static_assert(sizeof(struct nf_hook_ops) == 56, "struct nf_hook_ops");

int nf_register_net_hook(struct net *net, const struct nf_hook_ops *ops);
void nf_unregister_net_hook(struct net *net, const struct nf_hook_ops *ops);
int nf_register_net_hooks(struct net *net, const struct nf_hook_ops *reg, unsigned int n);
void nf_unregister_net_hooks(struct net *net, const struct nf_hook_ops *reg, unsigned int n);

#endif
