// Sockets of netlink in the kernel: which units can be had, and messages that nobody waits for.
#include <linux/module.h>
#include <linux/netlink.h>
#include <net/netlink.h>
#include <net/sock.h>

#define UNIT 30

static struct sock *sk;

static void input(struct sk_buff *skb)
{
	pr_info("netlinks: a message of %d\n", nlmsg_hdr(skb)->nlmsg_pid);
}

static struct netlink_kernel_cfg cfg = {.groups = 3, .input = input};

static struct sk_buff *message(const char *text)
{
	struct sk_buff *skb = nlmsg_new(strlen(text) + 1, GFP_KERNEL);
	struct nlmsghdr *h = nlmsg_put(skb, 0, 7, NLMSG_DONE, strlen(text) + 1, 0);

	strcpy(nlmsg_data(h), text);
	NETLINK_CB(skb).dst_group = 1;
	pr_info("netlinks: length %u of %u, data %s, sequence %u, payload %d\n", skb->len, h->nlmsg_len, (char *)nlmsg_data(h), h->nlmsg_seq, nlmsg_len(h));
	return skb;
}

static void try(int unit)
{
	struct sock *s = netlink_kernel_create(&init_net, unit, &cfg);

	pr_info("netlinks: unit %d: %s\n", unit, s ? "made" : "refused");
	if (s)
		netlink_kernel_release(s);
}

static int __init netlinks_init(void)
{
	struct sk_buff *skb;

	sk = netlink_kernel_create(&init_net, UNIT, &cfg);
	if (!sk)
		return -ENOMEM;
	try(UNIT);
	try(31);
	try(31);
	try(32);
	try(-1);
	try(NETLINK_ROUTE);
	try(NETLINK_GENERIC);
	try(NETLINK_USERSOCK);
	try(NETLINK_KOBJECT_UEVENT);
	skb = message("one");
	pr_info("netlinks: tailroom %d, too much: %d\n", skb_tailroom(skb), !nlmsg_put(skb, 0, 0, 0, 60000, 0));
	pr_info("netlinks: unicast %d\n", nlmsg_unicast(sk, skb, 4711));
	pr_info("netlinks: unicast without waiting %d\n", netlink_unicast(sk, message("two"), 4711, MSG_DONTWAIT));
	pr_info("netlinks: broadcast %d\n", nlmsg_multicast(sk, message("three"), 0, 1, GFP_KERNEL));
	pr_info("netlinks: listeners %d\n", netlink_has_listeners(sk, 1));
	skb = message("four");
	nla_put_u32(skb, 1, 5);
	kfree_skb(skb);
	return 0;
}

static void __exit netlinks_exit(void)
{
	netlink_kernel_release(sk);
	pr_info("netlinks: released\n");
}

module_init(netlinks_init);
module_exit(netlinks_exit);
MODULE_LICENSE("GPL");
