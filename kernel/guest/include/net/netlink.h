// net/netlink.h: writing messages of netlink.
#ifndef _NET_NETLINK_H
#define _NET_NETLINK_H

#include <linux/netlink.h>
#include <linux/string.h>

static inline int nlmsg_msg_size(int payload) { return NLMSG_HDRLEN + payload; }
static inline int nlmsg_total_size(int payload) { return NLMSG_ALIGN(nlmsg_msg_size(payload)); }
static inline void *nlmsg_data(const struct nlmsghdr *nlh) { return (char *)nlh + NLMSG_HDRLEN; }
static inline int nlmsg_len(const struct nlmsghdr *nlh) { return nlh->nlmsg_len - NLMSG_HDRLEN; }
static inline struct nlmsghdr *nlmsg_hdr(const struct sk_buff *skb) { return (struct nlmsghdr *)skb->data; }
static inline struct sk_buff *nlmsg_new(size_t payload, gfp_t flags) { return alloc_skb(nlmsg_total_size(payload), flags); }
static inline void nlmsg_free(struct sk_buff *skb) { kfree_skb(skb); }

static inline struct nlmsghdr *nlmsg_put(struct sk_buff *skb, u32 portid, u32 seq, int type, int payload, int flags)
{
	if (skb_tailroom(skb) < nlmsg_total_size(payload))
		return NULL;
	return __nlmsg_put(skb, portid, seq, type, payload, flags);
}

static inline int nlmsg_unicast(struct sock *sk, struct sk_buff *skb, u32 portid)
{
	int err = netlink_unicast(sk, skb, portid, 0x40);

	return err > 0 ? 0 : err;
}

static inline int nlmsg_multicast(struct sock *sk, struct sk_buff *skb, u32 portid, unsigned int group, gfp_t flags)
{
	int err;

	NETLINK_CB(skb).dst_group = group;
	err = netlink_broadcast(sk, skb, portid, group, flags);
	return err > 0 ? 0 : err;
}

static inline int nla_put_u32(struct sk_buff *skb, int type, u32 value) { return nla_put(skb, type, sizeof(value), &value); }

#endif
