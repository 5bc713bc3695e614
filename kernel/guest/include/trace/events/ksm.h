#ifndef _TRACE_KSM_H
#define _TRACE_KSM_H
#include <linux/tracepoint.h>
DECLARE_TRACE(ksm_enter, TP_PROTO(void *mm), TP_ARGS(mm))
DECLARE_TRACE(ksm_exit, TP_PROTO(void *mm), TP_ARGS(mm))
#endif
