/* processor.h: a task's processor state while it does not run. */
#ifndef _ASM_PROCESSOR_H
#define _ASM_PROCESSOR_H
#include <linux/types.h>
struct perf_event;
struct thread_struct {
	u64 tls_array[3];
	unsigned long sp;		/* 24 */
	unsigned short es, ds, fsindex, gsindex;
	unsigned long fsbase, gsbase;
	struct perf_event *ptrace_bps[4];
	unsigned long virtual_dr6, ptrace_dr7, cr2, trap_nr, error_code;
	void *io_bitmap;
	unsigned long iopl_emul;
	unsigned int iopl_warn;
	u32 pkru;
	char fpu[4224] __aligned(64);
};
static_assert(sizeof(struct thread_struct) == 4416, "thread_struct");
static __always_inline void wrmsrl(unsigned int msr, u64 v)
{ __asm__ __volatile__("wrmsr" : : "c"(msr), "a"((u32)v), "d"((u32)(v >> 32)) : "memory"); }
static __always_inline u64 rdmsrl(unsigned int msr)
{ u32 lo, hi; __asm__ __volatile__("rdmsr" : "=a"(lo), "=d"(hi) : "c"(msr)); return lo | ((u64)hi << 32); }
#define MSR_GS_BASE 0xc0000101
#define MSR_FS_BASE 0xc0000100
static __always_inline unsigned long read_cr2(void) { unsigned long v; __asm__ __volatile__("mov %%cr2,%0" : "=r"(v)); return v; }
static __always_inline u64 rdtsc(void) { u32 lo, hi; __asm__ __volatile__("rdtsc" : "=a"(lo), "=d"(hi)); return lo | ((u64)hi << 32); }
#endif
