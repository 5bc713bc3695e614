#ifndef _TRACE_SIGNAL_H
#define _TRACE_SIGNAL_H
#include <linux/tracepoint.h>
struct kernel_siginfo;
struct task_struct;
#define TRACE_SIGNAL_DELIVERED 0
#define TRACE_SIGNAL_IGNORED 1
#define TRACE_SIGNAL_ALREADY_PENDING 2
DECLARE_TRACE(signal_generate, TP_PROTO(int sig, struct kernel_siginfo *info, struct task_struct *task, int group, int result),
	      TP_ARGS(sig, info, task, group, result))
#endif
