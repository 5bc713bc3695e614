// genetlink.h: families of messages below NETLINK_GENERIC, which get their number when they
// are registered.
#ifndef _NET_GENETLINK_H
#define _NET_GENETLINK_H

#include <linux/err.h>
#include <linux/kernel.h>
#include <net/netlink.h>
#include <net/net_namespace.h>

#define GENL_NAMSIZ 16
#define GENL_MIN_ID NLMSG_MIN_TYPE
#define GENL_MAX_ID 1023
#define GENL_ID_CTRL NLMSG_MIN_TYPE
#define GENL_ID_VFS_DQUOT (NLMSG_MIN_TYPE + 1)
#define GENL_ID_PMCRAID (NLMSG_MIN_TYPE + 2)
#define GENL_START_ALLOC (NLMSG_MIN_TYPE + 3)
#define GENL_ADMIN_PERM 0x01
#define GENL_CMD_CAP_DO 0x02
#define GENL_CMD_CAP_DUMP 0x04
#define GENL_CMD_CAP_HASPOL 0x08
#define GENL_UNS_ADMIN_PERM 0x10

struct genlmsghdr {
	u8 cmd, version;
	u16 reserved;
};
#define GENL_HDRLEN NLMSG_ALIGN(sizeof(struct genlmsghdr))
#define GENLMSG_DEFAULT_SIZE (NLMSG_DEFAULT_SIZE - GENL_HDRLEN)

struct genl_multicast_group {
	char name[GENL_NAMSIZ];
	u8 flags;
};

struct genl_info {
	u32 snd_seq, snd_portid;
	struct nlmsghdr *nlhdr;
	struct genlmsghdr *genlhdr;
	void *userhdr;
	struct nlattr **attrs;
	struct net *_net;
	void *user_ptr[2];
	struct netlink_ext_ack *extack;
};
static_assert(sizeof(struct genl_info) == 72, "struct genl_info");

enum genl_validate_flags {
	GENL_DONT_VALIDATE_STRICT = 1,
	GENL_DONT_VALIDATE_DUMP = 2,
	GENL_DONT_VALIDATE_DUMP_STRICT = 4,
};

struct genl_small_ops {
	int (*doit)(struct sk_buff *skb, struct genl_info *info);
	int (*dumpit)(struct sk_buff *skb, struct netlink_callback *cb);
	u8 cmd, internal_flags, flags, validate;
};
static_assert(sizeof(struct genl_small_ops) == 24, "struct genl_small_ops");

struct genl_ops {
	int (*doit)(struct sk_buff *skb, struct genl_info *info);
	int (*start)(struct netlink_callback *cb);
	int (*dumpit)(struct sk_buff *skb, struct netlink_callback *cb);
	int (*done)(struct netlink_callback *cb);
	const struct nla_policy *policy;
	unsigned int maxattr;
	u8 cmd, internal_flags, flags, validate;
};
static_assert(sizeof(struct genl_ops) == 48, "struct genl_ops");

struct genl_family {
	int id;
	unsigned int hdrsize;
	char name[GENL_NAMSIZ];
	unsigned int version, maxattr, mcgrp_offset;
	u8 netnsok : 1, parallel_ops : 1;
	u8 n_ops, n_small_ops, n_mcgrps, resv_start_op;
	const struct nla_policy *policy;
	int (*pre_doit)(const struct genl_ops *ops, struct sk_buff *skb, struct genl_info *info);
	void (*post_doit)(const struct genl_ops *ops, struct sk_buff *skb, struct genl_info *info);
	const struct genl_ops *ops;
	const struct genl_small_ops *small_ops;
	const struct genl_multicast_group *mcgrps;
	struct module *module;
};
static_assert(offsetof(struct genl_family, mcgrp_offset) == 32, "genl_family.mcgrp_offset");
static_assert(offsetof(struct genl_family, policy) == 48, "genl_family.policy");
static_assert(sizeof(struct genl_family) == 104, "struct genl_family");

int genl_register_family(struct genl_family *family);
int genl_unregister_family(const struct genl_family *family);
void genl_notify(const struct genl_family *family, struct sk_buff *skb, struct genl_info *info, u32 group, gfp_t flags);
void *genlmsg_put(struct sk_buff *skb, u32 portid, u32 seq, const struct genl_family *family, int flags, u8 cmd);
int genlmsg_multicast_allns(const struct genl_family *family, struct sk_buff *skb, u32 portid, unsigned int group);
void genl_lock(void);
void genl_unlock(void);

static inline struct net *genl_info_net(struct genl_info *info) { return info->_net; }
static inline void genl_info_net_set(struct genl_info *info, struct net *net) { info->_net = net; }
static inline void *genlmsg_data(const struct genlmsghdr *gnlh) { return (char *)gnlh + GENL_HDRLEN; }
static inline int genlmsg_len(const struct genlmsghdr *gnlh) { return nlmsg_len((struct nlmsghdr *)((char *)gnlh - NLMSG_HDRLEN)) - GENL_HDRLEN; }
static inline int genlmsg_msg_size(int payload) { return GENL_HDRLEN + payload; }
static inline int genlmsg_total_size(int payload) { return NLMSG_ALIGN(genlmsg_msg_size(payload)); }
static inline struct sk_buff *genlmsg_new(size_t payload, gfp_t flags) { return nlmsg_new(genlmsg_total_size(payload), flags); }
static inline struct nlmsghdr *genlmsg_nlhdr(void *user_hdr) { return (struct nlmsghdr *)((char *)user_hdr - GENL_HDRLEN - NLMSG_HDRLEN); }
static inline void genlmsg_end(struct sk_buff *skb, void *hdr) { nlmsg_end(skb, genlmsg_nlhdr(hdr)); }

static inline void genlmsg_cancel(struct sk_buff *skb, void *hdr)
{
	if (hdr)
		nlmsg_cancel(skb, genlmsg_nlhdr(hdr));
}

static inline void *genlmsg_put_reply(struct sk_buff *skb, struct genl_info *info, const struct genl_family *family, int flags, u8 cmd)
{
	return genlmsg_put(skb, info->snd_portid, info->snd_seq, family, flags, cmd);
}

static inline int genlmsg_unicast(struct net *net, struct sk_buff *skb, u32 portid) { return nlmsg_unicast(net->genl_sock, skb, portid); }
static inline int genlmsg_reply(struct sk_buff *skb, struct genl_info *info) { return genlmsg_unicast(info->_net, skb, info->snd_portid); }

static inline int genlmsg_multicast_netns(const struct genl_family *family, struct net *net, struct sk_buff *skb, u32 portid, unsigned int group, gfp_t flags)
{
	if (WARN_ON_ONCE(group >= family->n_mcgrps))
		return -EINVAL;
	return nlmsg_multicast(net->genl_sock, skb, portid, family->mcgrp_offset + group, flags);
}

static inline int genlmsg_multicast(const struct genl_family *family, struct sk_buff *skb, u32 portid, unsigned int group, gfp_t flags)
{
	return genlmsg_multicast_netns(family, &init_net, skb, portid, group, flags);
}

static inline int genl_set_err(const struct genl_family *family, struct net *net, u32 portid, u32 group, int code)
{
	if (WARN_ON_ONCE(group >= family->n_mcgrps))
		return -EINVAL;
	return netlink_set_err(net->genl_sock, portid, family->mcgrp_offset + group, code);
}

static inline int genl_has_listeners(const struct genl_family *family, struct net *net, unsigned int group)
{
	if (WARN_ON_ONCE(group >= family->n_mcgrps))
		return -EINVAL;
	return netlink_has_listeners(net->genl_sock, family->mcgrp_offset + group);
}

#endif
