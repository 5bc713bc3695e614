// Sending packets to devices and receiving them. Each CPU has a backlog of received
// packets, which NET_RX_SOFTIRQ processes.
#include <linux/netdevice.h>
#include <linux/export.h>
#include <linux/mutex.h>
#include <linux/fs.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <trace/events/net.h>

#define BACKLOG_MAX 1000 // net.core.netdev_max_backlog
#define WEIGHT 64        // packets per poll

struct softnet_data {
	struct sk_buff_head input_pkt_queue;
	unsigned int processed, dropped;
};

static DEFINE_PER_CPU(struct softnet_data, softnet_data);
static DEFINE_SPINLOCK(dev_base_lock);
static struct packet_type *ptype_ip;

// register_netdevice assigns the device's index.
int register_netdevice(struct net_device *dev)
{
	static int last_index;

	spin_lock(&dev_base_lock);
	dev->ifindex = ++last_index;
	list_add_tail_rcu(&dev->dev_list, &init_net.dev_base_head);
	spin_unlock(&dev_base_lock);
	return 0;
}

struct net_device *dev_get_by_index_rcu(void *net, int ifindex)
{
	struct net_device *dev;

	list_for_each_entry_rcu(dev, &init_net.dev_base_head, dev_list) {
		if (dev->ifindex == ifindex)
			return dev;
	}
	return NULL;
}

static RAW_NOTIFIER_HEAD(netdev_chain);
static DEFINE_MUTEX(netdev_mutex);

static void tell(struct notifier_block *nb, enum netdev_cmd cmd, struct net_device *dev)
{
	struct netdev_notifier_info info = { .dev = dev };

	nb->notifier_call(nb, cmd, &info);
}

// register_netdevice_notifier tells of the devices that are there.
int register_netdevice_notifier(struct notifier_block *nb)
{
	struct net_device *dev;
	int err;

	mutex_lock(&netdev_mutex);
	err = raw_notifier_chain_register(&netdev_chain, nb);
	if (!err)
		for_each_netdev(&init_net, dev) {
			tell(nb, NETDEV_REGISTER, dev);
			tell(nb, NETDEV_UP, dev);
		}
	mutex_unlock(&netdev_mutex);
	return err;
}
EXPORT_SYMBOL(register_netdevice_notifier);

int unregister_netdevice_notifier(struct notifier_block *nb)
{
	struct net_device *dev;
	int err;

	mutex_lock(&netdev_mutex);
	err = raw_notifier_chain_unregister(&netdev_chain, nb);
	if (!err)
		for_each_netdev(&init_net, dev) {
			tell(nb, NETDEV_GOING_DOWN, dev);
			tell(nb, NETDEV_DOWN, dev);
			tell(nb, NETDEV_UNREGISTER, dev);
		}
	mutex_unlock(&netdev_mutex);
	return err;
}
EXPORT_SYMBOL(unregister_netdevice_notifier);

void dev_add_pack(struct packet_type *pt)
{
	ptype_ip = pt;
}

noinline __noclone int dev_hard_start_xmit(struct sk_buff *skb, struct net_device *dev)
{
	unsigned int len = skb->len;
	int rc;

	trace_net_dev_start_xmit(skb, dev);
	rc = dev->netdev_ops->ndo_start_xmit(skb, dev);
	trace_net_dev_xmit(skb, rc, dev, len);
	return rc;
}

// __dev_queue_xmit sends a packet on skb->dev with softirqs off, so that its
// reception is processed afterwards.
int __dev_queue_xmit(struct sk_buff *skb, struct net_device *sb_dev)
{
	int rc;

	local_bh_disable();
	rcu_read_lock();
	trace_net_dev_queue(skb);
	rc = dev_hard_start_xmit(skb, skb->dev);
	rcu_read_unlock();
	local_bh_enable();
	return rc;
}

static __noipa int enqueue_to_backlog(struct sk_buff *skb)
{
	struct softnet_data *sd = this_cpu_ptr(&softnet_data);
	unsigned long flags;
	bool full;

	local_irq_save(flags);
	full = sd->input_pkt_queue.qlen >= BACKLOG_MAX;
	if (full) {
		sd->dropped++;
	} else {
		__skb_queue_tail(&sd->input_pkt_queue, skb);
		raise_softirq_irqoff(NET_RX_SOFTIRQ);
	}
	local_irq_restore(flags);
	if (!full)
		return NET_RX_SUCCESS;
	kfree_skb_reason(skb, SKB_DROP_REASON_CPU_BACKLOG);
	return NET_RX_DROP;
}

static __noipa int netif_rx_internal(struct sk_buff *skb)
{
	trace_netif_rx(skb);
	return enqueue_to_backlog(skb);
}

// __netif_rx queues a packet received by a device. Softirqs are off.
int __netif_rx(struct sk_buff *skb)
{
	return netif_rx_internal(skb);
}

int netif_rx(struct sk_buff *skb)
{
	int ret;

	local_bh_disable();
	ret = netif_rx_internal(skb);
	local_bh_enable();
	return ret;
}

static __noipa int __netif_receive_skb_one_core(struct sk_buff *skb, bool pfmemalloc)
{
	trace_netif_receive_skb(skb);
	skb->network_header = skb->data - skb->head;
	if (ptype_ip && skb->protocol == ptype_ip->type)
		return ptype_ip->func(skb, skb->dev, ptype_ip, skb->dev);
	kfree_skb_reason(skb, SKB_DROP_REASON_UNHANDLED_PROTO);
	return NET_RX_DROP;
}

static __noipa int __netif_receive_skb(struct sk_buff *skb)
{
	return __netif_receive_skb_one_core(skb, false);
}

// process_backlog processes up to quota packets and returns their number.
static __noipa int process_backlog(struct softnet_data *sd, int quota)
{
	struct sk_buff *skb;
	unsigned long flags;
	int work = 0;

	while (work < quota) {
		local_irq_save(flags);
		skb = skb_peek(&sd->input_pkt_queue);
		if (skb)
			__skb_unlink(skb, &sd->input_pkt_queue);
		local_irq_restore(flags);
		if (!skb)
			break;
		rcu_read_lock();
		__netif_receive_skb(skb);
		rcu_read_unlock();
		work++;
	}
	sd->processed += work;
	return work;
}

static __noipa void net_rx_action(struct softirq_action *h)
{
	struct softnet_data *sd = this_cpu_ptr(&softnet_data);

	if (process_backlog(sd, WEIGHT) == WEIGHT)
		raise_softirq(NET_RX_SOFTIRQ);
}

static int __init net_dev_init(void)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu)
		skb_queue_head_init(&per_cpu(softnet_data, cpu).input_pkt_queue);
	open_softirq(NET_RX_SOFTIRQ, net_rx_action);
	return 0;
}
subsys_initcall(net_dev_init);
