#ifndef _ASM_PTRACE_H
#define _ASM_PTRACE_H
#ifndef __ASSEMBLY__
#include <linux/types.h>
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx;
	unsigned long r11, r10, r9, r8, ax, cx, dx, si, di;
	unsigned long orig_ax, ip, cs, flags, sp, ss;
};
static_assert(sizeof(struct pt_regs) == 168, "pt_regs");
static inline unsigned long regs_return_value(struct pt_regs *regs) { return regs->ax; }
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
