// Receiving IPv4.
#include <net/sock.h>
#include <linux/netdevice.h>
#include <linux/rcupdate.h>

noinline __noclone void ip_protocol_deliver_rcu(struct sk_buff *skb, int protocol)
{
	if (protocol == IPPROTO_TCP)
		tcp_v4_rcv(skb);
	else
		kfree_skb(skb);
}

static __noipa int ip_local_deliver_finish(struct sk_buff *skb)
{
	skb_pull(skb, ip_hdr(skb)->ihl * 4);
	skb->transport_header = skb->data - skb->head;
	rcu_read_lock();
	ip_protocol_deliver_rcu(skb, ip_hdr(skb)->protocol);
	rcu_read_unlock();
	return 0;
}

noinline __noclone int ip_local_deliver(struct sk_buff *skb)
{
	return ip_local_deliver_finish(skb);
}

// ip_rcv_core checks the header. If it is invalid, it frees the packet and returns
// NULL.
static __noipa struct sk_buff *ip_rcv_core(struct sk_buff *skb)
{
	const struct iphdr *iph = ip_hdr(skb);

	if (skb->len < sizeof(*iph) || iph->version != 4 || iph->ihl < 5 || skb->len < iph->ihl * 4u)
		goto drop;
	if (ip_fast_csum(iph, iph->ihl) || ntohs(iph->tot_len) > skb->len || ntohs(iph->tot_len) < iph->ihl * 4)
		goto drop;
	skb_trim(skb, ntohs(iph->tot_len));
	return skb;
drop:
	kfree_skb_reason(skb, SKB_DROP_REASON_IP_CSUM);
	return NULL;
}

int ip_rcv(struct sk_buff *skb, struct net_device *dev, struct packet_type *pt, struct net_device *orig_dev)
{
	skb = ip_rcv_core(skb);
	return skb ? ip_local_deliver(skb) : NET_RX_DROP;
}

static struct packet_type ip_packet_type = { .type = htons(ETH_P_IP), .func = ip_rcv };

static int __init ip_init(void)
{
	dev_add_pack(&ip_packet_type);
	return 0;
}
fs_initcall(ip_init);
