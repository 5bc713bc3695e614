#ifndef _TRACE_RCU_H
#define _TRACE_RCU_H
#include <linux/tracepoint.h>
DECLARE_TRACE(rcu_utilization, TP_PROTO(const char *s), TP_ARGS(s))
#endif
