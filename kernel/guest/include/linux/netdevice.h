// netdevice.h: network devices. There is only the loopback device.
#ifndef _LINUX_NETDEVICE_H
#define _LINUX_NETDEVICE_H

#include <linux/skbuff.h>
#include <linux/notifier.h>
#include <net/net_namespace.h>

typedef int netdev_tx_t;
#define NETDEV_TX_OK 0
#define NET_RX_SUCCESS 0
#define NET_RX_DROP 1
#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86dd
#define ETH_HLEN 14

struct ethhdr {
	u8 h_dest[6], h_source[6];
	__be16 h_proto;
} __packed;

struct net_device_ops {
	netdev_tx_t (*ndo_start_xmit)(struct sk_buff *skb, struct net_device *dev);
};

// The offsets of what modules read inline are 6.1's.
struct net_device {
	char name[16];
	const struct net_device_ops *netdev_ops;
	atomic64_t tx_packets, tx_bytes;
	char unused1[24];
	struct list_head dev_list;
	char unused2[112];
	unsigned int flags;
	char unused3[20];
	int ifindex;
	char unused4[4];
	unsigned int mtu;
	char unused5[68];
	unsigned short type;
	char unused6[518];
	const unsigned char *dev_addr;
	char unused7[1608];
};
static_assert(offsetof(struct net_device, dev_list) == 64, "net_device.dev_list");
static_assert(offsetof(struct net_device, flags) == 192, "net_device.flags");
static_assert(offsetof(struct net_device, ifindex) == 216, "net_device.ifindex");
static_assert(offsetof(struct net_device, mtu) == 224, "net_device.mtu");
static_assert(offsetof(struct net_device, type) == 296, "net_device.type");
static_assert(offsetof(struct net_device, dev_addr) == 816, "net_device.dev_addr");
static_assert(sizeof(struct net_device) == 2432, "struct net_device");

#define IFF_UP 1
#define IFF_LOOPBACK 8
#define IFF_RUNNING 0x40
#define ARPHRD_LOOPBACK 772

// What notifiers of devices are told.
enum netdev_cmd { NETDEV_UP = 1, NETDEV_DOWN, NETDEV_REGISTER = 5, NETDEV_UNREGISTER, NETDEV_GOING_DOWN = 9 };

struct netdev_notifier_info {
	struct net_device *dev;
	void *extack;
};

static inline struct net_device *netdev_notifier_info_to_dev(const struct netdev_notifier_info *info)
{
	return info->dev;
}

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
