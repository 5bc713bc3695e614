// netdevice.h: network devices. There is only the loopback device.
#ifndef _LINUX_NETDEVICE_H
#define _LINUX_NETDEVICE_H

#include <linux/skbuff.h>

typedef int netdev_tx_t;
#define NETDEV_TX_OK 0
#define NET_RX_SUCCESS 0
#define NET_RX_DROP 1
#define ETH_P_IP 0x0800
#define ETH_HLEN 14

struct ethhdr {
	u8 h_dest[6], h_source[6];
	__be16 h_proto;
} __packed;

struct net_device_ops {
	netdev_tx_t (*ndo_start_xmit)(struct sk_buff *skb, struct net_device *dev);
};

struct net_device {
	char name[16];
	int ifindex;
	unsigned int mtu, flags;
	const struct net_device_ops *netdev_ops;
	struct list_head dev_list;
	atomic64_t tx_packets, tx_bytes;
};

struct packet_type {
	__be16 type;
	int (*func)(struct sk_buff *, struct net_device *, struct packet_type *, struct net_device *);
};

extern struct net_device *loopback_dev;
int register_netdevice(struct net_device *dev);
struct net_device *dev_get_by_index_rcu(void *net, int ifindex);
__be16 eth_type_trans(struct sk_buff *skb, struct net_device *dev);
int __dev_queue_xmit(struct sk_buff *skb, struct net_device *sb_dev);
#define dev_queue_xmit(skb) __dev_queue_xmit(skb, NULL)
int __netif_rx(struct sk_buff *skb);
int netif_rx(struct sk_buff *skb);
void dev_add_pack(struct packet_type *pt);

#endif
