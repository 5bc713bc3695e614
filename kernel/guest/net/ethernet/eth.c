// Ethernet headers: the loopback device has them, too.
#include <linux/netdevice.h>
#include <linux/fs.h>

// eth_type_trans takes off a received packet's header and returns its protocol.
noinline __noclone __be16 eth_type_trans(struct sk_buff *skb, struct net_device *dev)
{
	const struct ethhdr *eth = (const struct ethhdr *)skb->data;

	skb->dev = dev;
	skb_pull(skb, ETH_HLEN);
	return eth->h_proto;
}
