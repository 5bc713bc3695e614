#ifndef _ASM_PTRACE_H
#define _ASM_PTRACE_H
#ifndef __ASSEMBLY__
#include <linux/types.h>
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx;
	unsigned long r11, r10, r9, r8, ax, cx, dx, si, di;
#ifdef KERNEL_2_6	/* texts of its time have the names of i386 */
	unsigned long orig_ax;
	union { unsigned long ip, eip; };
	unsigned long cs;
	union { unsigned long flags, eflags; };
	union { unsigned long sp, esp; };
	unsigned long ss;
#else
	unsigned long orig_ax, ip, cs, flags, sp, ss;
#endif
};
static_assert(sizeof(struct pt_regs) == 168, "pt_regs");
static inline unsigned long regs_return_value(struct pt_regs *regs) { return regs->ax; }
static inline unsigned long instruction_pointer(struct pt_regs *regs) { return regs->ip; }
static inline void instruction_pointer_set(struct pt_regs *regs, unsigned long val) { regs->ip = val; }
static inline unsigned long kernel_stack_pointer(struct pt_regs *regs) { return regs->sp; }
static inline unsigned long user_stack_pointer(struct pt_regs *regs) { return regs->sp; }
static inline unsigned long frame_pointer(struct pt_regs *regs) { return regs->bp; }
static inline void regs_set_return_value(struct pt_regs *regs, unsigned long rc) { regs->ax = rc; }
/* Argument n of the function at whose entry the registers are, from 0 on. */
static inline unsigned long regs_get_kernel_argument(struct pt_regs *regs, unsigned int n)
{
	switch (n) {
	case 0: return regs->di;
	case 1: return regs->si;
	case 2: return regs->dx;
	case 3: return regs->cx;
	case 4: return regs->r8;
	case 5: return regs->r9;
	}
	return 0;
}
#define user_mode(regs) (((regs)->cs & 3) == 3)
#endif
#define __KERNEL_CS 0x10
#define __KERNEL_DS 0x18
#define __USER_DS 0x2b
#define __USER_CS 0x33
#define PT_R15 0
#define PT_ORIG_AX 120
#define PT_IP 128
#define PT_CS 136
#define PT_FLAGS 144
#define PT_SP 152
#define PT_SS 160
#define PT_SIZE 168
#endif
