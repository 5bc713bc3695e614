#ifndef _TRACE_CSD_H
#define _TRACE_CSD_H
#include <linux/smp.h>
#include <linux/tracepoint.h>
struct call_single_data;
DECLARE_TRACE(csd_queue_cpu, TP_PROTO(const unsigned int cpu, unsigned long callsite, smp_call_func_t func, struct call_single_data *csd),
	      TP_ARGS(cpu, callsite, func, csd))
DECLARE_TRACE(csd_function_entry, TP_PROTO(smp_call_func_t func, struct call_single_data *csd), TP_ARGS(func, csd))
DECLARE_TRACE(csd_function_exit, TP_PROTO(smp_call_func_t func, struct call_single_data *csd), TP_ARGS(func, csd))
#endif
