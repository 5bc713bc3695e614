#ifndef _TRACE_NET_H
#define _TRACE_NET_H
#include <linux/tracepoint.h>
#include <linux/netdevice.h>
DECLARE_TRACE(net_dev_start_xmit, TP_PROTO(const struct sk_buff *skb, const struct net_device *dev), TP_ARGS(skb, dev))
DECLARE_TRACE(net_dev_xmit, TP_PROTO(struct sk_buff *skb, int rc, struct net_device *dev, unsigned int skb_len), TP_ARGS(skb, rc, dev, skb_len))
DECLARE_TRACE(net_dev_queue, TP_PROTO(struct sk_buff *skb), TP_ARGS(skb))
DECLARE_TRACE(netif_receive_skb, TP_PROTO(struct sk_buff *skb), TP_ARGS(skb))
DECLARE_TRACE(netif_rx, TP_PROTO(struct sk_buff *skb), TP_ARGS(skb))
#endif
