/* host.h: hypercalls: vmcall with the number in rax. The numbers come from kernel/abi/numbers.txt. */
#ifndef _ASM_HOST_H
#define _ASM_HOST_H
#include <asm/host_numbers.h>

#define ISA_IRQ_VECTOR(irq) (0x30 + (irq))

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
