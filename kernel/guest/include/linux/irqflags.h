#ifndef _LINUX_IRQFLAGS_H
#define _LINUX_IRQFLAGS_H
#include <linux/types.h>
#define X86_EFLAGS_IF 0x200UL
static __always_inline unsigned long arch_local_save_flags(void)
{ unsigned long f; __asm__ __volatile__("pushf; pop %0" : "=rm"(f) : : "memory"); return f; }
static __always_inline void arch_local_irq_disable(void) { __asm__ __volatile__("cli" : : : "memory"); }
static __always_inline void arch_local_irq_enable(void) { __asm__ __volatile__("sti" : : : "memory"); }
#define local_irq_disable() arch_local_irq_disable()
#define local_irq_enable() arch_local_irq_enable()
#define local_save_flags(f) ((f) = arch_local_save_flags())
#define local_irq_save(f) do { (f) = arch_local_save_flags(); arch_local_irq_disable(); } while (0)
#define local_irq_restore(f) do { if ((f) & X86_EFLAGS_IF) arch_local_irq_enable(); } while (0)
#define raw_local_irq_save local_irq_save
#define raw_local_irq_restore local_irq_restore
#define irqs_disabled() (!(arch_local_save_flags() & X86_EFLAGS_IF))
static __always_inline void cpu_relax(void) { __asm__ __volatile__("pause" : : : "memory"); }
#ifdef MODULE
#define raw_local_save_flags local_save_flags
#define raw_local_irq_disable local_irq_disable
#define raw_local_irq_enable local_irq_enable
#define raw_irqs_disabled irqs_disabled
#define raw_irqs_disabled_flags irqs_disabled_flags
static __always_inline int irqs_disabled_flags(unsigned long flags) { return !(flags & X86_EFLAGS_IF); }
#endif
#endif
