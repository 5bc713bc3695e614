// Sockets of netlink in the kernel. Programs' sockets are the host's, which has no such
// units: nobody is there to whom a message could go.
#include <linux/bitops.h>
#include <linux/export.h>
#include <linux/kernel.h>
#include <linux/netlink.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>

// A netlink_sock stands for a unit that has been made. Modules see a struct sock, of which
// they read nothing inline.
struct netlink_sock {
	char sk[776];
	int unit;
	struct netlink_kernel_cfg cfg;
	struct module *module;
};

static DEFINE_SPINLOCK(nl_table_lock);

// Those that Debian's kernel itself has are taken.
static u32 nl_units = BIT(0) | BIT(4) | BIT(7) | BIT(9) | BIT(10) | BIT(11) | BIT(15) | BIT(16);

struct sock *__netlink_kernel_create(struct net *net, int unit, struct module *module, struct netlink_kernel_cfg *cfg)
{
	struct netlink_sock *nlk;
	bool taken;

	if (unit < 0 || unit >= MAX_LINKS)
		return NULL;
	nlk = kzalloc(sizeof(*nlk), GFP_KERNEL);
	if (!nlk)
		return NULL;
	spin_lock(&nl_table_lock);
	taken = nl_units & BIT(unit);
	nl_units |= BIT(unit);
	spin_unlock(&nl_table_lock);
	if (taken) {
		kfree(nlk);
		return NULL;
	}
	nlk->unit = unit;
	nlk->module = module;
	if (cfg)
		nlk->cfg = *cfg;
	return (struct sock *)nlk;
}
EXPORT_SYMBOL(__netlink_kernel_create);

void netlink_kernel_release(struct sock *sk)
{
	struct netlink_sock *nlk = (struct netlink_sock *)sk;

	if (!sk)
		return;
	spin_lock(&nl_table_lock);
	nl_units &= ~BIT(nlk->unit);
	spin_unlock(&nl_table_lock);
	kfree(nlk);
}
EXPORT_SYMBOL(netlink_kernel_release);

// netlink_unicast finds nobody with the id.
int netlink_unicast(struct sock *ssk, struct sk_buff *skb, u32 portid, int nonblock)
{
	kfree_skb(skb);
	return -ECONNREFUSED;
}
EXPORT_SYMBOL(netlink_unicast);

int netlink_broadcast(struct sock *ssk, struct sk_buff *skb, u32 portid, u32 group, gfp_t allocation)
{
	consume_skb(skb);
	return -ESRCH;
}
EXPORT_SYMBOL(netlink_broadcast);

// netlink_set_err tells nobody, and says how many of those wanted no such error.
int netlink_set_err(struct sock *ssk, u32 portid, u32 group, int code)
{
	return 0;
}
EXPORT_SYMBOL(netlink_set_err);

int netlink_has_listeners(struct sock *sk, unsigned int group)
{
	return 0;
}
EXPORT_SYMBOL(netlink_has_listeners);

// __nlmsg_put appends the head of a message, and space for len bytes.
struct nlmsghdr *__nlmsg_put(struct sk_buff *skb, u32 portid, u32 seq, int type, int len, int flags)
{
	int size = NLMSG_HDRLEN + len, pad = NLMSG_ALIGN(size) - size;
	struct nlmsghdr *nlh = skb_put(skb, size + pad);

	nlh->nlmsg_len = size;
	nlh->nlmsg_type = type;
	nlh->nlmsg_flags = flags;
	nlh->nlmsg_seq = seq;
	nlh->nlmsg_pid = portid;
	memset((char *)nlh + size, 0, pad);
	return nlh;
}
EXPORT_SYMBOL(__nlmsg_put);

// nla_reserve appends an attribute with space for its value.
struct nlattr *nla_reserve(struct sk_buff *skb, int attrtype, int attrlen)
{
	int size = NLA_HDRLEN + attrlen, all = NLA_ALIGN(size);
	struct nlattr *nla;

	if (skb_tailroom(skb) < all)
		return NULL;
	nla = skb_put(skb, all);
	nla->nla_type = attrtype;
	nla->nla_len = size;
	memset((char *)nla + size, 0, all - size);
	return nla;
}
EXPORT_SYMBOL(nla_reserve);

int nla_put(struct sk_buff *skb, int attrtype, int attrlen, const void *data)
{
	struct nlattr *nla = nla_reserve(skb, attrtype, attrlen);

	if (!nla)
		return -EMSGSIZE;
	if (attrlen)
		memcpy((char *)nla + NLA_HDRLEN, data, attrlen);
	return 0;
}
EXPORT_SYMBOL(nla_put);
