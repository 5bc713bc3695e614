// A return probe at a function, kernel_clone unless the parameter func names another: each
// return is logged with the value and with the time that the call took.
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/sched.h>

static char func[64] = "kernel_clone";
module_param_string(func, func, sizeof(func), 0644);
MODULE_PARM_DESC(func, "the function whose returns are logged");

// What an instance keeps from the entry to the return.
struct call {
	ktime_t began;
};

// Runs at the entry. A value other than 0 means that the return is not wanted.
static int on_entry(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct call *c = (struct call *)ri->data;

	if (!current->mm)
		return 1; // a thread of the kernel's own
	c->began = ktime_get();
	return 0;
}
NOKPROBE_SYMBOL(on_entry);

// Runs at the return, where regs_return_value has what the function returns.
static int on_return(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	const struct call *c = (struct call *)ri->data;

	pr_info("%s returned %lu after %lld ns\n", func, regs_return_value(regs), ktime_to_ns(ktime_sub(ktime_get(), c->began)));
	return 0;
}
NOKPROBE_SYMBOL(on_return);

static struct kretprobe probe = {
	.kp.symbol_name = func,
	.entry_handler = on_entry,
	.handler = on_return,
	.data_size = sizeof(struct call),
	.maxactive = 20, // calls at a time
};

static int __init kretprobe_init(void)
{
	int ret = register_kretprobe(&probe);

	if (ret < 0) {
		pr_err("register_kretprobe: %d\n", ret);
		return ret;
	}
	pr_info("return probe at %pS\n", probe.kp.addr);
	return 0;
}

static void __exit kretprobe_exit(void)
{
	unregister_kretprobe(&probe);
	pr_info("return probe removed, %d returns missed\n", probe.nmissed);
}

module_init(kretprobe_init)
module_exit(kretprobe_exit)
MODULE_DESCRIPTION("a return probe that measures calls of a function");
MODULE_LICENSE("GPL");
