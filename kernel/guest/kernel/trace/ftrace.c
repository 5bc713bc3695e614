/*
 * ftrace.c: ftrace_ops of modules. The machine keeps their filters and patches the
 * sites; the caller sleeps until it has. A site with a single listener calls a trampoline
 * that calls the listener's function, others call arch_ftrace_ops_list_func.
 */
#include <linux/ftrace.h>
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <asm/host.h>

/* The ftrace_ops that shared trampolines pass on. */
struct ftrace_ops *function_trace_op;

/* The layout is that in kernel/abi. */
struct ftrace_request {
	u64 ops, kind, buf, len, reset;
};

/*
 * Calls all listeners of a site, the newest first. The machine calls its own, and returns
 * the next one that is a module's, or 0.
 */
notrace void arch_ftrace_ops_list_func(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
	int bit = trace_test_and_set_recursion(ip, parent_ip, TRACE_LIST_START);

	if (bit < 0)
		return;
	for (op = NULL;;) {
		op = (struct ftrace_ops *)hypercall4(ftrace_get_regs(fregs) ? HC_FTRACE : HC_FUNCTION, ip, parent_ip, fregs, op);
		if (IS_ERR_OR_NULL(op))
			break;
		op->func(ip, parent_ip, op, fregs);
	}
	trace_clear_recursion(bit);
}
NOKPROBE_SYMBOL(arch_ftrace_ops_list_func);

/* Calls an ftrace_ops with FTRACE_OPS_FL_RECURSION or FTRACE_OPS_FL_RCU. */
notrace void ftrace_ops_assist_func(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs);
notrace void ftrace_ops_assist_func(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
	int bit = trace_test_and_set_recursion(ip, parent_ip, TRACE_LIST_START);

	if (bit < 0)
		return;
	op->func(ip, parent_ip, op, fregs);
	trace_clear_recursion(bit);
}
NOKPROBE_SYMBOL(ftrace_ops_assist_func);

notrace int register_ftrace_function(struct ftrace_ops *ops)
{
	return probe_request(FTRACE_REGISTER, ops, 0);
}
EXPORT_SYMBOL_GPL(register_ftrace_function);

static notrace noinline int __unregister_ftrace_function(struct ftrace_ops *ops)
{
	if (WARN_ON(!(ops->flags & FTRACE_OPS_FL_ENABLED)))
		return -EBUSY;
	return probe_request(FTRACE_UNREGISTER, ops, 0);
}

/* Afterwards no task is in the trampoline or in the function. */
notrace int unregister_ftrace_function(struct ftrace_ops *ops)
{
	int ret = __unregister_ftrace_function(ops);

	if (!ret)
		synchronize_rcu_tasks();
	return ret;
}
EXPORT_SYMBOL_GPL(unregister_ftrace_function);

static int ftrace_set(struct ftrace_ops *ops, int kind, const void *buf, u64 len, int reset)
{
	struct ftrace_request r = { (u64)ops, kind, (u64)buf, buf ? len : 0, reset };

	return probe_request(FTRACE_SET, &r, 0);
}

notrace int ftrace_set_filter(struct ftrace_ops *ops, unsigned char *buf, int len, int reset)
{
	return ftrace_set(ops, FTRACE_FILTER, buf, len, reset);
}
EXPORT_SYMBOL_GPL(ftrace_set_filter);

notrace int ftrace_set_notrace(struct ftrace_ops *ops, unsigned char *buf, int len, int reset)
{
	return ftrace_set(ops, FTRACE_NOTRACE, buf, len, reset);
}
EXPORT_SYMBOL_GPL(ftrace_set_notrace);

notrace void ftrace_set_global_filter(unsigned char *buf, int len, int reset)
{
	ftrace_set(NULL, FTRACE_FILTER, buf, len, reset);
}
EXPORT_SYMBOL_GPL(ftrace_set_global_filter);

notrace void ftrace_set_global_notrace(unsigned char *buf, int len, int reset)
{
	ftrace_set(NULL, FTRACE_NOTRACE, buf, len, reset);
}
EXPORT_SYMBOL_GPL(ftrace_set_global_notrace);

notrace int ftrace_set_filter_ips(struct ftrace_ops *ops, unsigned long *ips, unsigned int cnt, int remove, int reset)
{
	return ftrace_set(ops, remove ? FTRACE_REMOVE_IPS : FTRACE_ADD_IPS, ips, cnt, reset);
}
EXPORT_SYMBOL_GPL(ftrace_set_filter_ips);

notrace int ftrace_set_filter_ip(struct ftrace_ops *ops, unsigned long ip, int remove, int reset)
{
	return ftrace_set_filter_ips(ops, &ip, 1, remove, reset);
}
EXPORT_SYMBOL_GPL(ftrace_set_filter_ip);

/* Only while ops is not registered. */
notrace void ftrace_free_filter(struct ftrace_ops *ops)
{
	if (WARN_ON(ops->flags & FTRACE_OPS_FL_ENABLED))
		return;
	ftrace_set(ops, FTRACE_FREE, NULL, 0, 0);
}
EXPORT_SYMBOL_GPL(ftrace_free_filter);
