/* traps.h: exceptions and interrupts, from the gates in entry_64.S to their handlers. */
#ifndef _ASM_TRAPS_H
#define _ASM_TRAPS_H
#include <asm/ptrace.h>
#include <linux/types.h>
typedef struct { bool exit_rcu; } irqentry_state_t;
irqentry_state_t irqentry_enter(struct pt_regs *regs);
void irqentry_exit(struct pt_regs *regs, irqentry_state_t state);
void irqentry_nmi_exit(struct pt_regs *regs);
void idt_setup_traps(void);
void load_idt_table(void);
bool fixup_exception(struct pt_regs *regs, int trapnr, unsigned long error_code, unsigned long fault_addr);
struct exception_table_entry { int insn, fixup, data; };
const struct exception_table_entry *search_exception_tables(unsigned long addr);
enum bug_trap_type { BUG_TRAP_TYPE_NONE, BUG_TRAP_TYPE_WARN, BUG_TRAP_TYPE_BUG };
enum bug_trap_type report_bug(unsigned long bugaddr, struct pt_regs *regs);
struct bug_entry *find_bug(unsigned long bugaddr);
void die(const char *str, struct pt_regs *regs, long err);
void oops_end(unsigned long flags, struct pt_regs *regs, int signr);
void rewind_stack_and_make_dead(int signr) __attribute__((__noreturn__));
void start_secondary(unsigned long cpu);
void x86_64_start_kernel(char *real_mode_data);
extern char boot_params_page[];
extern const char *boot_params;
#define boot_u64(off) (*(const u64 *)(boot_params + (off)))
extern void secondary_startup_64(void);
void tick_setup_cpu(void);
#define DEFINE_IDTENTRY(func) \
	static __always_inline void __##func(struct pt_regs *regs); \
	noinstr void func(struct pt_regs *regs); \
	noinstr void func(struct pt_regs *regs) \
	{ irqentry_state_t state = irqentry_enter(regs); __##func(regs); irqentry_exit(regs, state); } \
	static __always_inline void __##func(struct pt_regs *regs)
#define DEFINE_IDTENTRY_ERRORCODE(func) \
	static __always_inline void __##func(struct pt_regs *regs, unsigned long error_code); \
	noinstr void func(struct pt_regs *regs, unsigned long error_code); \
	noinstr void func(struct pt_regs *regs, unsigned long error_code) \
	{ irqentry_state_t state = irqentry_enter(regs); __##func(regs, error_code); irqentry_exit(regs, state); } \
	static __always_inline void __##func(struct pt_regs *regs, unsigned long error_code)
/* Interrupts: the body is a separate function with an fentry site, as in 6.1. */
#define DEFINE_IDTENTRY_SYSVEC(func) \
	static noinline void __##func(struct pt_regs *regs); \
	noinstr void func(struct pt_regs *regs); \
	noinstr void func(struct pt_regs *regs) \
	{ irqentry_state_t state = irqentry_enter(regs); irq_enter_rcu(); __##func(regs); irq_exit_rcu(); irqentry_exit(regs, state); } \
	static noinline void __##func(struct pt_regs *regs)
/* An interrupt of a device, by its vector. */
#define DEFINE_IDTENTRY_IRQ(func) \
	static noinline void __##func(struct pt_regs *regs, u32 vector); \
	noinstr void func(struct pt_regs *regs, unsigned long error_code); \
	noinstr void func(struct pt_regs *regs, unsigned long error_code) \
	{ irqentry_state_t state = irqentry_enter(regs); irq_enter_rcu(); __##func(regs, (u8)error_code); irq_exit_rcu(); irqentry_exit(regs, state); } \
	static noinline void __##func(struct pt_regs *regs, u32 vector)
#endif
