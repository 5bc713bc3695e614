#ifndef _TRACE_POWER_H
#define _TRACE_POWER_H
#include <linux/tracepoint.h>
#define PWR_EVENT_EXIT -1
DECLARE_TRACE(cpu_idle, TP_PROTO(unsigned int state, unsigned int cpu_id), TP_ARGS(state, cpu_id))
DECLARE_TRACE(cpu_frequency, TP_PROTO(unsigned int frequency, unsigned int cpu_id), TP_ARGS(frequency, cpu_id))
#endif
