// The loopback device receives the packets that it sends.
#include <linux/netdevice.h>
#include <linux/fs.h>
#include <linux/inet.h>

struct net_device *loopback_dev;

static __noipa netdev_tx_t loopback_xmit(struct sk_buff *skb, struct net_device *dev)
{
	unsigned int len;

	// From here on the packet is charged to the receiver.
	if (skb->destructor)
		skb->destructor(skb);
	skb->destructor = NULL;
	skb->sk = NULL;
	skb->protocol = eth_type_trans(skb, dev);
	len = skb->len;
	atomic64_inc(&dev->tx_packets);
	atomic64_add(len, &dev->tx_bytes);
	__netif_rx(skb);
	return NETDEV_TX_OK;
}

static const struct net_device_ops loopback_ops = {
	.ndo_start_xmit = loopback_xmit,
};

static int loopback_net_init(void)
{
	static const unsigned char no_address[6];
	struct net_device *dev = kzalloc(sizeof(*dev), GFP_KERNEL);

	if (!dev)
		return -ENOMEM;
	strscpy(dev->name, "lo", sizeof(dev->name));
	dev->mtu = 65536;
	dev->type = ARPHRD_LOOPBACK;
	dev->flags = IFF_UP | IFF_LOOPBACK | IFF_RUNNING;
	dev->dev_addr = no_address;
	dev->netdev_ops = &loopback_ops;
	loopback_dev = init_net.loopback_dev = dev;
	return register_netdevice(dev);
}
fs_initcall(loopback_net_init);
