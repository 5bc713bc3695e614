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

// Kinds of attributes in a policy.
enum {
	NLA_UNSPEC, NLA_U8, NLA_U16, NLA_U32, NLA_U64, NLA_STRING, NLA_FLAG, NLA_MSECS, NLA_NESTED, NLA_NESTED_ARRAY,
	NLA_NUL_STRING, NLA_BINARY, NLA_S8, NLA_S16, NLA_S32, NLA_S64, NLA_BITFIELD32, NLA_REJECT, __NLA_TYPE_MAX,
};
#define NLA_TYPE_MAX (__NLA_TYPE_MAX - 1)

struct nla_policy {
	u8 type, validation_type;
	u16 len;
	union {
		const struct nla_policy *nested_policy;
		struct {
			s16 min, max;
		};
	};
};
static_assert(sizeof(struct nla_policy) == 16, "struct nla_policy");

static inline int nla_attr_size(int payload) { return NLA_HDRLEN + payload; }
static inline int nla_total_size(int payload) { return NLA_ALIGN(nla_attr_size(payload)); }
static inline int nla_type(const struct nlattr *nla) { return nla->nla_type & 0x3fff; }
static inline void *nla_data(const struct nlattr *nla) { return (char *)nla + NLA_HDRLEN; }
static inline int nla_len(const struct nlattr *nla) { return nla->nla_len - NLA_HDRLEN; }
static inline u8 nla_get_u8(const struct nlattr *nla) { return *(u8 *)nla_data(nla); }
static inline u16 nla_get_u16(const struct nlattr *nla) { return *(u16 *)nla_data(nla); }
static inline u32 nla_get_u32(const struct nlattr *nla) { return *(u32 *)nla_data(nla); }
static inline s32 nla_get_s32(const struct nlattr *nla) { return *(s32 *)nla_data(nla); }
static inline u64 nla_get_u64(const struct nlattr *nla) { u64 v; memcpy(&v, nla_data(nla), sizeof(v)); return v; }
static inline int nla_get_flag(const struct nlattr *nla) { return !!nla; }
static inline int nla_put_u8(struct sk_buff *skb, int type, u8 value) { return nla_put(skb, type, sizeof(value), &value); }
static inline int nla_put_u16(struct sk_buff *skb, int type, u16 value) { return nla_put(skb, type, sizeof(value), &value); }
static inline int nla_put_u32(struct sk_buff *skb, int type, u32 value) { return nla_put(skb, type, sizeof(value), &value); }
static inline int nla_put_s32(struct sk_buff *skb, int type, s32 value) { return nla_put(skb, type, sizeof(value), &value); }
static inline int nla_put_string(struct sk_buff *skb, int type, const char *s) { return nla_put(skb, type, strlen(s) + 1, s); }
static inline int nla_put_flag(struct sk_buff *skb, int type) { return nla_put(skb, type, 0, NULL); }

// nlmsg_end sets the length of a message to what has been put.
static inline void nlmsg_end(struct sk_buff *skb, struct nlmsghdr *nlh) { nlh->nlmsg_len = skb_tail_pointer(skb) - (unsigned char *)nlh; }
static inline void *nlmsg_get_pos(struct sk_buff *skb) { return skb_tail_pointer(skb); }

static inline void nlmsg_trim(struct sk_buff *skb, const void *mark)
{
	if (mark)
		skb_trim(skb, (const unsigned char *)mark - skb->data);
}

static inline void nlmsg_cancel(struct sk_buff *skb, struct nlmsghdr *nlh) { nlmsg_trim(skb, nlh); }

#endif
