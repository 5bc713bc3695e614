/* host.h: hypercalls: vmcall with the number in rax. The numbers are those of kernel/abi/host.go. */
#ifndef _ASM_HOST_H
#define _ASM_HOST_H
#define HC_PRINTK 1
#define HC_CLOCK 2
#define HC_WALL_CLOCK 3
#define HC_SET_TIMER 4
#define HC_SEND_IPI 5
#define HC_START_CPU 6
#define HC_MAP 7
#define HC_UNMAP 8
#define HC_NEXT 9
#define HC_DONE 10
#define HC_FILE_OP 11
#define HC_POP_WAKE 12
#define HC_PANIC_BEGIN 13
#define HC_PANIC 14
#define HC_BOOTED 15
#define HC_RANDOM 16
#define HC_TASK_DEAD 17
#define HC_FUNCTION 18
#define HC_TRACEPOINT 19
#define HC_OPTIMIZED 20
#define HC_FTRACE 21
#define HC_RETHOOK 22
#define HC_BUG 23
#define HC_PROBE 24
#define HC_STACK 25
#define HC_SYMBOL 30
#define HC_STACK_SAVE 31
#define HC_ENTRY 32
#define HC_GRAPH_RETURN 33
#define HC_DISK 34
#define HC_LOOKUP_NAME 35
#define HC_SYMBOL_AT 36

/* Entries of trace_printk, in the place of HC_TRACEPOINT's tracepoint. */
#define TRACE_PRINTK_BINARY 1
#define TRACE_PRINTK_STRING 2
#define TRACE_PRINTK_TEXT 3
#define TRACE_PRINTK_FORMAT 4
#define TRACE_ON 5
#define TRACE_OFF 6
#define TRACE_IS_ON 7

#define PROBE_REGISTER 1
#define PROBE_UNREGISTER 2
#define PROBE_ENABLE 3
#define PROBE_DISABLE 4
#define RETPROBE_REGISTER 5
#define RETPROBE_UNREGISTER 6
#define KEY_UPDATE 16
#define CALL_UPDATE 17
#define MODULE_EVENT 18
#define FTRACE_REGISTER 19
#define FTRACE_UNREGISTER 20
#define FTRACE_SET 21
#define TRACEPOINT_UPDATE 22

/* Kinds of FTRACE_SET. */
#define FTRACE_FILTER 0
#define FTRACE_NOTRACE 1
#define FTRACE_ADD_IPS 2
#define FTRACE_REMOVE_IPS 3
#define FTRACE_FREE 4

/* Kinds of HC_BUG. */
#define BUG_OOPS 0
#define BUG_WARN 1
#define BUG_FAULT 2
#define BUG_TRAP 3
#define BUG_ATOMIC 4
#define BUG_ATOMIC_TAINT 6 /* behind its trace */
/* Flags of HC_PRINTK: the text does not end its line; it goes on with one that does not. */
#define PRINTK_OPEN 1
#define PRINTK_CONT 2
/* A struct dev_printk_info follows the text. */
#define PRINTK_DEV 4

#define HOST_CALL_FUNC 0x10000
#define HOST_NEW_TASK 0x10001
#define HOST_EXIT_TASK 0x10002
#define HOST_FILP_CLOSE 0x10003
#define HOST_RELEASE 0x10004
#define HOST_NOP 0x10005
#define HOST_KILLED 0x10006
#define HOST_FILE_MODE 0x10007
#define HOST_POLL 0x10008
#define HOST_FORGET 0x10009

#define FILE_OP_OPEN 1
#define FILE_OP_READ 2
#define FILE_OP_WRITE 3
#define FILE_OP_STAT 4
#define FILE_OP_READDIR 5
#define FILE_OP_FLUSH 6
#define FILE_OP_RELEASE 7
#define FILE_OP_CALLED 10
#define FILE_OP_MADE 11

#define FOPS_SEQ 0
#define FOPS_DEBUG_BOOL 1
#define FOPS_PROC_SYS 2
#define FOPS_TRACEFS 3
#define FOPS_PROBES 4
#define FOPS_DEV 5
#define FOPS_DIR 6
#define FOPS_OTHER 7
#define FOPS_MARKER 8
#define FOPS_RAW_MARKER 9
#define FOPS_GUEST 10

/* What HC_POP_WAKE says beside the task: an interrupted caller, a killed one. */
#define WAKE_INTERRUPT 1
#define WAKE_KILL 2
#define WAKE_BITS 3

/* Values of host_entry.op. */
#define ENTRY_ADD 1
#define ENTRY_REMOVE 2
#define ENTRY_MOVE 3

/* call->mode of a path that does not exist. */
#define HOST_MODE_NONE 0xffffffffUL

/* Offsets in boot_params. */
#define BOOT_MAGIC 0
#define BOOT_CPUS 8
#define BOOT_RAM 16
#define BOOT_WALL 24
#define BOOT_SEED 32
#define BOOT_CMDLINE 40
#define BOOT_RELEASE 296
#define BOOT_VERSION 360
#define BOOT_PTR_KEY 616
#define BOOT_MAGIC_VALUE 0x6b70726f62656673

/* The disk's interrupt. */
#define DISK_IRQ 24
#define FIRST_EXTERNAL_VECTOR 0x20
#define DISK_VECTOR 0x22
#define ISA_IRQ_VECTOR(irq) (0x30 + (irq))
#define LOCAL_TIMER_VECTOR 0xec
#define HYPERVISOR_CALLBACK_VECTOR 0xf3
#define REBOOT_VECTOR 0xf8
#define CALL_FUNCTION_SINGLE_VECTOR 0xfb
#define RESCHEDULE_VECTOR 0xfd

#ifndef __ASSEMBLY__
#include <linux/types.h>
static __always_inline long hypercall(long nr, unsigned long a, unsigned long b, unsigned long c,
				      unsigned long d, unsigned long e)
{
	register unsigned long r10 __asm__("r10") = d;
	register unsigned long r8 __asm__("r8") = e;
	__asm__ __volatile__("vmcall" : "+a"(nr) : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8) : "memory");
	return nr;
}
#define hypercall0(n) hypercall(n, 0, 0, 0, 0, 0)
#define hypercall1(n, a) hypercall(n, (unsigned long)(a), 0, 0, 0, 0)
#define hypercall2(n, a, b) hypercall(n, (unsigned long)(a), (unsigned long)(b), 0, 0, 0)
#define hypercall3(n, a, b, c) hypercall(n, (unsigned long)(a), (unsigned long)(b), (unsigned long)(c), 0, 0)
#define hypercall4(n, a, b, c, d) hypercall(n, (unsigned long)(a), (unsigned long)(b), (unsigned long)(c), (unsigned long)(d), 0)
#endif
#endif
