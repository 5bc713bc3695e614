/*
 * kprobes.c: the functions that probed code calls, which pass its registers to the
 * machine. Preemption is disabled meanwhile, as in all handlers.
 */
#include <linux/ftrace.h>
#include <linux/preempt.h>
#include <linux/kprobes.h>
#include <linux/sched.h>
#include <linux/host.h>
#include <asm/ptrace.h>
#include <asm/host.h>

/* What a detour passes. The machine writes it, into the detour's buffer. */
struct optimized_kprobe {
	struct kprobe *first;	/* whose handlers opt_pre_handler calls, or NULL: the machine calls them */
	unsigned long addr;	/* of the probe */
};

void opt_pre_handler(struct kprobe *first, struct pt_regs *regs, unsigned long ip);
void optimized_callback(struct optimized_kprobe *op, struct pt_regs *regs);
void kprobe_ftrace_handler(unsigned long ip, unsigned long parent_ip, struct pt_regs *regs);
void arch_rethook_trampoline_callback(struct pt_regs *regs);
extern void arch_rethook_trampoline(void);

/* The machine handles probes' breakpoints before the IDT: one that comes here does
 * not belong to a probe. */
int kprobe_int3_handler(struct pt_regs *regs)
{
	return 0;
}
NOKPROBE_SYMBOL(kprobe_int3_handler);

static inline bool quiet(struct host_call *call) { return call && call->quiet; }

/* Called by a detour. What is not an ordinary hit of modules' handlers is left to the machine. */
notrace void optimized_callback(struct optimized_kprobe *op, struct pt_regs *regs)
{
	struct kprobe *first;

	preempt_disable();
	first = READ_ONCE(op->first);
	if (unlikely(first) && !this_cpu_read(current_kprobe) && !quiet(current->host_call))
		opt_pre_handler(first, regs, op->addr + 1);
	else
		hypercall2(HC_OPTIMIZED, op->addr, regs);
	preempt_enable();
}
NOKPROBE_SYMBOL(optimized_callback);

/* Called from an armed fentry site. Afterwards regs->ip is the address to continue
 * at: the site's end, or one set by a handler. */
notrace void kprobe_ftrace_handler(unsigned long ip, unsigned long parent_ip, struct pt_regs *regs)
{
	preempt_disable();
	hypercall3(HC_FTRACE, ip, parent_ip, regs);
	preempt_enable();
}
NOKPROBE_SYMBOL(kprobe_ftrace_handler);

#if GUEST_LINUX >= 612
/* The same for a site with only an fprobe, which has its own trampoline. */
void fprobe_handler(unsigned long ip, unsigned long parent_ip, struct pt_regs *regs);
notrace void fprobe_handler(unsigned long ip, unsigned long parent_ip, struct pt_regs *regs)
{
	preempt_disable();
	hypercall3(HC_FTRACE, ip, parent_ip, regs);
	preempt_enable();
}
NOKPROBE_SYMBOL(fprobe_handler);
#endif

/*
 * Functions of the machine's own listeners at fentry sites. A single one is called from
 * its own trampoline, several through arch_ftrace_ops_list_func. fregs is a pt_regs in
 * which only the registers that ftrace_caller saves are set.
 */
#define FTRACE_FUNC(name) \
	void name(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs); \
	notrace void name(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs) \
	{ \
		hypercall3(HC_FUNCTION, ip, parent_ip, fregs); \
	}
FTRACE_FUNC(function_trace_call)
FTRACE_FUNC(function_stack_trace_call)
FTRACE_FUNC(function_trace_probe_call)
FTRACE_FUNC(stack_trace_call)
FTRACE_FUNC(perf_ftrace_function_call)
FTRACE_FUNC(ftrace_graph_func)

/* The machine writes the real return address into the slot, which return_to_handler
 * returns to. */
void ftrace_return_to_handler(unsigned long *slot);
notrace void ftrace_return_to_handler(unsigned long *slot)
{
	hypercall1(HC_GRAPH_RETURN, slot);
}

/* The machine writes the real return address into the word above regs, which the
 * trampoline returns to. */
notrace void arch_rethook_trampoline_callback(struct pt_regs *regs)
{
	regs->cs = __KERNEL_CS;
	regs->ip = (unsigned long)arch_rethook_trampoline;
	regs->orig_ax = ~0UL;
	regs->sp += 2 * sizeof(long);
	preempt_disable();
	hypercall1(HC_RETHOOK, regs);
	preempt_enable();
	regs->ss = regs->flags;	/* popped by the trampoline */
}
NOKPROBE_SYMBOL(arch_rethook_trampoline_callback);
