/* traps.c: exceptions other than page faults, BUG and WARN, and oopses. */
#include <linux/sched.h>
#include <linux/export.h>
#include <linux/interrupt.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/trace_printk.h>
#include <asm/traps.h>
#include <asm/host.h>

extern struct bug_entry __start___bug_table[], __stop___bug_table[];
static raw_spinlock_t die_lock = __RAW_SPIN_LOCK_UNLOCKED;
static int die_counter;
int panic_on_oops;

void arch_rethook_trampoline(void);
void ftrace_stub(void);

notrace struct bug_entry *find_bug(unsigned long bugaddr)
{
	struct bug_entry *b;

	for (b = __start___bug_table; b < __stop___bug_table; b++)
		if ((unsigned long)&b->bug_addr_disp + b->bug_addr_disp == bugaddr)
			return b;
	return module_find_bug(bugaddr);
}

/* Handles a BUG or WARN at bugaddr. A WARN is logged, with WARN_ONCE only once. */
notrace enum bug_trap_type report_bug(unsigned long bugaddr, struct pt_regs *regs)
{
	struct bug_entry *bug = find_bug(bugaddr);

	if (!bug)
		return BUG_TRAP_TYPE_NONE;
	if (bug->flags & BUGFLAG_WARNING) {
		if (bug->flags & BUGFLAG_ONCE) {
			if (bug->flags & BUGFLAG_DONE)
				return BUG_TRAP_TYPE_WARN;
			bug->flags |= BUGFLAG_DONE;
		}
		hypercall2(HC_BUG, regs, BUG_WARN);
		return BUG_TRAP_TYPE_WARN;
	}
	hypercall2(HC_BUG, regs, BUG_OOPS);
	return BUG_TRAP_TYPE_BUG;
}

/* What is done before anything of an oops is printed: the tracer stops, so that its
 * buffers still show what led to it. */
noinline void oops_enter(void)
{
	tracing_off();
}

unsigned long oops_begin(void)
{
	unsigned long flags;

	oops_enter();
	raw_local_irq_save(flags);
	raw_spin_lock(&die_lock);
	die_counter++;
	return flags;
}
NOKPROBE_SYMBOL(oops_begin);

void oops_end(unsigned long flags, struct pt_regs *regs, int signr)
{
	raw_spin_unlock(&die_lock);
	raw_local_irq_restore(flags);
	if (in_interrupt())
		panic("Fatal exception in interrupt");
	if (panic_on_oops)
		panic("Fatal exception");
	if (is_idle_task(current))
		panic("Attempted to kill the idle task!");
	rewind_stack_and_make_dead(signr);
}
NOKPROBE_SYMBOL(oops_end);

/* Logs the oops and kills the task; the machine goes on. */
noinline void die(const char *str, struct pt_regs *regs, long err)
{
	unsigned long flags = oops_begin();

	hypercall3(HC_BUG, regs, BUG_TRAP, err);
	oops_end(flags, regs, 11);
}

static noinline void do_error_trap(struct pt_regs *regs, long error_code, const char *str, unsigned long trapnr)
{
	if (regs->flags & X86_EFLAGS_IF)
		local_irq_enable();
	if (!fixup_exception(regs, trapnr, error_code, 0))
		die(str, regs, error_code);
	local_irq_disable();
}

DEFINE_IDTENTRY(exc_divide_error) { do_error_trap(regs, 0, "divide error", 0); }
DEFINE_IDTENTRY(exc_overflow) { do_error_trap(regs, 0, "overflow", 4); }
DEFINE_IDTENTRY(exc_bounds) { do_error_trap(regs, 0, "bounds", 5); }
DEFINE_IDTENTRY(exc_device_not_available) { do_error_trap(regs, 0, "device not available", 7); }
DEFINE_IDTENTRY_ERRORCODE(exc_invalid_tss) { do_error_trap(regs, error_code, "invalid TSS", 10); }
DEFINE_IDTENTRY_ERRORCODE(exc_segment_not_present) { do_error_trap(regs, error_code, "segment not present", 11); }
DEFINE_IDTENTRY_ERRORCODE(exc_stack_segment) { do_error_trap(regs, error_code, "stack segment", 12); }
DEFINE_IDTENTRY_ERRORCODE(exc_general_protection) { do_error_trap(regs, error_code, "general protection fault", 13); }
DEFINE_IDTENTRY_ERRORCODE(exc_alignment_check) { do_error_trap(regs, error_code, "alignment check", 17); }
DEFINE_IDTENTRY(exc_debug) { regs->flags &= ~0x100UL; }
DEFINE_IDTENTRY(exc_nmi) { }

static bool do_int3(struct pt_regs *regs)
{
	if (kprobe_int3_handler(regs))
		return true;
	return notify_die(DIE_INT3, "int3", regs, 0, 3, 5) == NOTIFY_STOP;
}
NOKPROBE_SYMBOL(do_int3);

/* Since 5.8 a breakpoint counts as an NMI: one that is nobody's panics. */
#if defined(KERNEL_2_6) || defined(KERNEL_4_15)
#define INT3_OFFSET 0
#else
#define INT3_OFFSET (NMI_OFFSET + HARDIRQ_OFFSET)
#endif

/* A call without a return address goes on at the int3s behind the return trampoline
 * (kprobes.Kprobes.bug). They stand for the BUG of its handler, which is no NMI. */
static __always_inline bool is_rethook_bug(struct pt_regs *regs)
{
	return regs->ip > (unsigned long)arch_rethook_trampoline && regs->ip <= (unsigned long)ftrace_stub;
}

DEFINE_IDTENTRY(exc_int3)
{
	int offset = is_rethook_bug(regs) ? 0 : INT3_OFFSET;

	preempt_count_add(offset);
	if (!do_int3(regs))
		die("int3", regs, 0);
	preempt_count_sub(offset);
}

DEFINE_IDTENTRY_ERRORCODE(exc_double_fault)
{
	hypercall2(HC_BUG, regs, BUG_TRAP);
	panic("Machine halted.");
}

static bool handle_bug(struct pt_regs *regs)
{
	if (*(u16 *)regs->ip != 0x0b0f)
		return false;
	if (regs->flags & X86_EFLAGS_IF)
		local_irq_enable();
	switch (report_bug(regs->ip, regs)) {
	case BUG_TRAP_TYPE_WARN:
		local_irq_disable();
		regs->ip += 2;
		return true;
	case BUG_TRAP_TYPE_BUG:
		oops_end(oops_begin(), regs, 11);
	default:
		return false;
	}
}
NOKPROBE_SYMBOL(handle_bug);

DEFINE_IDTENTRY(exc_invalid_op)
{
	if (!handle_bug(regs))
		do_error_trap(regs, 0, "invalid opcode", 6);
}

noinstr void __stack_chk_fail(void)
{
	panic("stack-protector: Kernel stack is corrupted in: %pS", __builtin_return_address(0));
}
EXPORT_SYMBOL(__stack_chk_fail);
