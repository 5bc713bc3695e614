#include <asm/ptrace.h>
#include <linux/sched.h>
