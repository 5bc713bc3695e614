#ifndef _TRACE_EXCEPTIONS_H
#define _TRACE_EXCEPTIONS_H
#include <linux/tracepoint.h>
struct pt_regs;
DECLARE_TRACE(page_fault_user, TP_PROTO(unsigned long address, struct pt_regs *regs, unsigned long error_code), TP_ARGS(address, regs, error_code))
DECLARE_TRACE(page_fault_kernel, TP_PROTO(unsigned long address, struct pt_regs *regs, unsigned long error_code), TP_ARGS(address, regs, error_code))
#endif
