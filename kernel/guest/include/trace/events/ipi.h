#ifndef _TRACE_IPI_H
#define _TRACE_IPI_H
#include <linux/tracepoint.h>
DECLARE_TRACE(ipi_send_cpu, TP_PROTO(const unsigned int cpu, unsigned long callsite, void *callback), TP_ARGS(cpu, callsite, callback))
#endif
