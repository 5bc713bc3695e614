#ifndef _TRACE_SKB_H
#define _TRACE_SKB_H
#include <linux/tracepoint.h>
#include <linux/skbuff.h>
DECLARE_TRACE(kfree_skb, TP_PROTO(struct sk_buff *skb, void *location, enum skb_drop_reason reason), TP_ARGS(skb, location, reason))
DECLARE_TRACE(consume_skb, TP_PROTO(struct sk_buff *skb, void *location), TP_ARGS(skb, location))
#endif
