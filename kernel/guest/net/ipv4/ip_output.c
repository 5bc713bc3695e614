// Sending over IPv4.
#include <net/sock.h>
#include <linux/netdevice.h>
#include <linux/rcupdate.h>

noinline void ip_send_check(struct iphdr *iph)
{
	iph->check = 0;
	iph->check = ip_fast_csum(iph, iph->ihl);
}

static __noipa int ip_finish_output2(struct sk_buff *skb)
{
	// The loopback device has no addresses.
	*(struct ethhdr *)skb_push(skb, ETH_HLEN) = (struct ethhdr){ .h_proto = skb->protocol };
	return dev_queue_xmit(skb);
}

static __noipa int __ip_finish_output(struct sk_buff *skb)
{
	if (skb->len > skb->dev->mtu) {
		kfree_skb_reason(skb, SKB_DROP_REASON_PKT_TOO_BIG);
		return -EMSGSIZE;
	}
	return ip_finish_output2(skb);
}

static __noipa int ip_finish_output(struct sk_buff *skb)
{
	return __ip_finish_output(skb);
}

noinline __noclone int ip_output(struct sk_buff *skb)
{
	skb->protocol = htons(ETH_P_IP);
	skb->dev = dst_dev(skb->dst);
	return ip_finish_output(skb);
}

noinline __noclone int __ip_local_out(struct sk_buff *skb)
{
	struct iphdr *iph = ip_hdr(skb);

	iph->tot_len = htons(skb->len);
	ip_send_check(iph);
	return 1;
}

noinline __noclone int ip_local_out(struct sk_buff *skb)
{
	__ip_local_out(skb);
	return ip_output(skb);
}

// ip_send_unicast_reply prepends an IP header to a segment and sends it. It returns
// -EHOSTUNREACH if there is no route.
noinline int ip_send_unicast_reply(struct sk_buff *skb, __be32 daddr, __be32 saddr)
{
	struct iphdr *iph;

	rcu_read_lock();
	skb->dst = ip_route_output_flow(NULL, daddr, &saddr);
	if (IS_ERR(skb->dst)) {
		rcu_read_unlock();
		skb->dst = NULL;
		kfree_skb(skb);
		return -EHOSTUNREACH;
	}
	iph = skb_push(skb, sizeof(*iph));
	skb->network_header = skb->data - skb->head;
	*iph = (struct iphdr){
		.version = 4, .ihl = 5, .ttl = 64, .protocol = IPPROTO_TCP,
		.frag_off = htons(0x4000), .saddr = saddr, .daddr = daddr,
	};
	rcu_read_unlock();
	return ip_local_out(skb);
}

noinline __noclone int __ip_queue_xmit(struct sock *sk, struct sk_buff *skb)
{
	return ip_send_unicast_reply(skb, inet_sk(sk)->inet_daddr, inet_sk(sk)->inet_saddr);
}

int ip_queue_xmit(struct sock *sk, struct sk_buff *skb, void *fl)
{
	return __ip_queue_xmit(sk, skb);
}
