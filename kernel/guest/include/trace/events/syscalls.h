#ifndef _TRACE_SYSCALLS_H
#define _TRACE_SYSCALLS_H
#include <linux/tracepoint.h>
struct pt_regs;
DECLARE_TRACE(sys_enter, TP_PROTO(struct pt_regs *regs, long id), TP_ARGS(regs, id))
DECLARE_TRACE(sys_exit, TP_PROTO(struct pt_regs *regs, long ret), TP_ARGS(regs, ret))
#endif
