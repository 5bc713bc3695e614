#ifndef _TRACE_TCP_H
#define _TRACE_TCP_H
#include <linux/tracepoint.h>
struct sock;
struct sk_buff;
DECLARE_TRACE(tcp_retransmit_skb, TP_PROTO(const struct sock *sk, const struct sk_buff *skb), TP_ARGS(sk, skb))
#if GUEST_LINUX >= 601
DECLARE_TRACE(tcp_cong_state_set, TP_PROTO(struct sock *sk, const u8 ca_state), TP_ARGS(sk, ca_state))
#endif
#endif
