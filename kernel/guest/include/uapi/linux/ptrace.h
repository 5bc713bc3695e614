// ptrace.h: struct pt_regs.
#ifndef _KPROBEFS_UAPI_LINUX_PTRACE_H
#define _KPROBEFS_UAPI_LINUX_PTRACE_H

#include <linux/ptrace.h>

#endif
