#ifndef _TRACE_WORKQUEUE_H
#define _TRACE_WORKQUEUE_H
#include <linux/tracepoint.h>
#include <linux/workqueue.h>
/* On Linux the queue, its name and the CPU are taken from a pool_workqueue. */
DECLARE_TRACE(workqueue_queue_work, TP_PROTO(int req_cpu, struct work_struct *work, struct workqueue_struct *wq, const char *name, int cpu),
	      TP_ARGS(req_cpu, work, wq, name, cpu))
DECLARE_TRACE(workqueue_activate_work, TP_PROTO(struct work_struct *work), TP_ARGS(work))
DECLARE_TRACE(workqueue_execute_start, TP_PROTO(struct work_struct *work), TP_ARGS(work))
DECLARE_TRACE(workqueue_execute_end, TP_PROTO(struct work_struct *work, work_func_t function), TP_ARGS(work, function))
#endif
