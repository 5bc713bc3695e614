#ifndef _TRACE_SOCK_H
#define _TRACE_SOCK_H
#include <linux/tracepoint.h>
struct sock;
DECLARE_TRACE(inet_sock_set_state, TP_PROTO(const struct sock *sk, const int oldstate, const int newstate), TP_ARGS(sk, oldstate, newstate))
#endif
