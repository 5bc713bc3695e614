#ifndef _TRACE_TASK_H
#define _TRACE_TASK_H
#include <linux/tracepoint.h>
struct task_struct;
DECLARE_TRACE(task_newtask, TP_PROTO(struct task_struct *task, unsigned long clone_flags), TP_ARGS(task, clone_flags))
DECLARE_TRACE(task_rename, TP_PROTO(struct task_struct *task, const char *comm), TP_ARGS(task, comm))
#endif
