// netlink.h: sockets of netlink in the kernel, and messages.
#ifndef _LINUX_NETLINK_H
#define _LINUX_NETLINK_H

#include <linux/skbuff.h>
#include <linux/module.h>
#include <net/net_namespace.h>

#define NETLINK_ROUTE 0
#define NETLINK_USERSOCK 2
#define NETLINK_KOBJECT_UEVENT 15
#define NETLINK_GENERIC 16
#define MAX_LINKS 32

struct nlmsghdr {
	u32 nlmsg_len;
	u16 nlmsg_type, nlmsg_flags;
	u32 nlmsg_seq, nlmsg_pid;
};

struct nlattr {
	u16 nla_len, nla_type;
};

#define NLMSG_NOOP 1
#define NLMSG_ERROR 2
#define NLMSG_DONE 3
#define NLMSG_ALIGN(len) (((len) + 3U) & ~3U)
#define NLMSG_HDRLEN ((int)NLMSG_ALIGN(sizeof(struct nlmsghdr)))
#define NLA_ALIGN(len) (((len) + 3) & ~3)
#define NLA_HDRLEN ((int)NLA_ALIGN(sizeof(struct nlattr)))

struct scm_creds {
	u32 pid;
	u32 uid, gid;
};

struct netlink_skb_parms {
	struct scm_creds creds;
	u32 portid, dst_group, flags;
	struct sock *sk;
	bool nsid_is_set;
	int nsid;
};
static_assert(sizeof(struct netlink_skb_parms) == 40, "struct netlink_skb_parms");
#define NETLINK_CB(skb) (*(struct netlink_skb_parms *)&((skb)->cb))

#define NLM_F_REQUEST 0x01
#define NLM_F_MULTI 0x02
#define NLM_F_ACK 0x04
#define NLM_F_ECHO 0x08
#define NLMSG_MIN_TYPE 0x10
#define NLMSG_GOODSIZE (PAGE_SIZE - sizeof(struct skb_shared_info))
#define NLMSG_DEFAULT_SIZE (NLMSG_GOODSIZE - NLMSG_HDRLEN)

struct netlink_ext_ack;
struct netlink_callback;

struct mutex;
struct netlink_kernel_cfg {
	unsigned int groups, flags;
	void (*input)(struct sk_buff *skb);
	struct mutex *cb_mutex;
	int (*bind)(struct net *net, int group);
	void (*unbind)(struct net *net, int group);
	bool (*compare)(struct net *net, struct sock *sk);
};
static_assert(sizeof(struct netlink_kernel_cfg) == 48, "struct netlink_kernel_cfg");

struct sock *__netlink_kernel_create(struct net *net, int unit, struct module *module, struct netlink_kernel_cfg *cfg);
void netlink_kernel_release(struct sock *sk);
int netlink_unicast(struct sock *ssk, struct sk_buff *skb, u32 portid, int nonblock);
int netlink_broadcast(struct sock *ssk, struct sk_buff *skb, u32 portid, u32 group, gfp_t allocation);
int netlink_set_err(struct sock *ssk, u32 portid, u32 group, int code);
int netlink_has_listeners(struct sock *sk, unsigned int group);
struct nlmsghdr *__nlmsg_put(struct sk_buff *skb, u32 portid, u32 seq, int type, int len, int flags);
int nla_put(struct sk_buff *skb, int attrtype, int attrlen, const void *data);
struct nlattr *nla_reserve(struct sk_buff *skb, int attrtype, int attrlen);

#ifdef MODULE
static inline struct sock *netlink_kernel_create(struct net *net, int unit, struct netlink_kernel_cfg *cfg)
{
	return __netlink_kernel_create(net, unit, THIS_MODULE, cfg);
}
#endif

#endif
