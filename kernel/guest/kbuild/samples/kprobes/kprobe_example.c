// A probe at a function, kernel_clone unless the parameter symbol names another: each call
// is logged before the first instruction and after it.
#define pr_fmt(fmt) "%s: " fmt, __func__

#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/sched.h>

static char symbol[64] = "kernel_clone";
module_param_string(symbol, symbol, sizeof(symbol), 0644);
MODULE_PARM_DESC(symbol, "the function that is probed");

// Runs before the probed instruction. 0 lets it be executed.
static int __kprobes before(struct kprobe *p, struct pt_regs *regs)
{
	pr_info("<%s> at %pS, called by %s[%d]: di %lx, si %lx\n", p->symbol_name, p->addr, current->comm, current->pid,
		regs->di, regs->si);
	return 0;
}

// Runs after the probed instruction.
static void __kprobes after(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	pr_info("<%s> next is %pS, flags %lx\n", p->symbol_name, (void *)regs->ip, regs->flags);
}

static struct kprobe probe = {
	.symbol_name = symbol,
	.pre_handler = before,
	.post_handler = after,
};

static int __init kprobe_init(void)
{
	int ret = register_kprobe(&probe);

	if (ret < 0) {
		pr_err("register_kprobe: %d\n", ret);
		return ret;
	}
	pr_info("probe at %pS\n", probe.addr);
	return 0;
}

static void __exit kprobe_exit(void)
{
	unregister_kprobe(&probe);
	pr_info("probe removed, %lu hits missed\n", probe.nmissed);
}

module_init(kprobe_init)
module_exit(kprobe_exit)
MODULE_DESCRIPTION("a probe that logs calls of a function");
MODULE_LICENSE("GPL");
