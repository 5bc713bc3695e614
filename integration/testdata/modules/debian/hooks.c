// SPDX-License-Identifier: MIT
/* hooks listens to its own functions with ftrace_ops: filters, registers, flags, order and misuse. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/ftrace.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/slab.h>

noinline long hooks_one(long n);
noinline long hooks_one(long n)
{
	barrier();
	return n + 1;
}

noinline long hooks_two(long n);
noinline long hooks_two(long n)
{
	barrier();
	return n + 2;
}

noinline long hooks_nested(long n);
noinline long hooks_nested(long n)
{
	barrier();
	return n + 3;
}

noinline notrace long hooks_deaf(long n);
noinline notrace long hooks_deaf(long n)
{
	barrier();
	return n + 4;
}

static notrace void hears(const char *name, unsigned long ip, unsigned long parent, struct ftrace_regs *fregs)
{
	struct pt_regs *regs = ftrace_get_regs(fregs);

	if (regs)
		pr_info("%s: %ps by %ps, arg %ld, ip+%ld, sp %d\n", name, (void *)ip, (void *)parent, (long)regs->di,
			regs->ip - ip, *(unsigned long *)regs->sp == parent);
	else
		pr_info("%s: %ps by %ps, no registers\n", name, (void *)ip, (void *)parent);
}

static notrace void plain_func(unsigned long ip, unsigned long parent, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
	hears(op->private, ip, parent, fregs);
}

static notrace void nesting_func(unsigned long ip, unsigned long parent, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
	hears(op->private, ip, parent, fregs);
	hooks_nested(7);
}

static struct ftrace_ops plain = { .func = plain_func, .private = "plain" };
static struct ftrace_ops registers = { .func = plain_func, .private = "registers", .flags = FTRACE_OPS_FL_SAVE_REGS };
static struct ftrace_ops maybe = { .func = plain_func, .private = "maybe", .flags = FTRACE_OPS_FL_SAVE_REGS_IF_SUPPORTED };
static struct ftrace_ops nesting = { .func = nesting_func, .private = "nesting", .flags = FTRACE_OPS_FL_RECURSION };

static int pre(struct kprobe *p, struct pt_regs *regs)
{
	pr_info("kprobe at %s, arg %ld\n", p->symbol_name, (long)regs->di);
	return 0;
}

static struct kprobe kp = { .symbol_name = "hooks_one", .pre_handler = pre };

static void call(const char *what)
{
	long one, two, nested;

	pr_info("- %s\n", what);
	one = hooks_one(10);
	two = hooks_two(20);
	nested = hooks_nested(30);
	if (one != 11 || two != 22 || nested != 33 || hooks_deaf(1) != 5)
		pr_info("wrong results %ld %ld %ld\n", one, two, nested);
}

/* The kernel cuts patterns in place. */
static int filter(struct ftrace_ops *ops, const char *name, int reset)
{
	unsigned char buf[32];

	return ftrace_set_filter(ops, buf, strscpy(buf, name, sizeof(buf)), reset);
}

static int notrace_filter(struct ftrace_ops *ops, const char *name, int reset)
{
	unsigned char buf[32];

	return ftrace_set_notrace(ops, name ? buf : NULL, name ? strscpy(buf, name, sizeof(buf)) : 0, reset);
}

static void filters(void)
{
	unsigned long ips[] = { (unsigned long)hooks_one, (unsigned long)hooks_nested }, bad[] = { (unsigned long)hooks_two, 4096 };

	pr_info("filter %d\n", filter(&plain, "hooks_one", 0));
	pr_info("register %d\n", register_ftrace_function(&plain));
	pr_info("flags %lx, tramp %d, saved %d\n", plain.flags, !!plain.trampoline, plain.saved_func == plain_func);
	call("one function");
	pr_info("add %d\n", filter(&plain, "hooks_two", 0));
	call("two functions");
	pr_info("replace %d\n", filter(&plain, "hooks_n*", 1));
	call("another one");
	pr_info("no such function %d\n", filter(&plain, "hooks_nothing", 0));
	pr_info("notrace code %d\n", filter(&plain, "hooks_deaf", 0));
	pr_info("no such function, reset %d\n", filter(&plain, "hooks_nothing", 1));
	pr_info("glob %d\n", filter(&plain, "hooks_*", 1));
	call("all three");
	pr_info("notrace %d\n", notrace_filter(&plain, "*_two", 0));
	call("all but two");
	pr_info("notrace of nothing %d\n", notrace_filter(&plain, "hooks_nothing", 0));
	pr_info("no notrace %d\n", notrace_filter(&plain, NULL, 1));
	pr_info("in a module %d\n", filter(&plain, "*o*:mod:hooks", 1));
	call("one and two");
	pr_info("not %d\n", filter(&plain, "!hooks_two", 0));
	call("one");
	pr_info("address %d\n", ftrace_set_filter_ip(&plain, (unsigned long)hooks_two, 0, 1));
	call("two by address");
	pr_info("inside %d\n", ftrace_set_filter_ip(&plain, (unsigned long)hooks_one + 2, 0, 0));
	pr_info("no function %d, deaf %d\n", ftrace_set_filter_ip(&plain, (unsigned long)&plain, 0, 0),
		ftrace_set_filter_ip(&plain, (unsigned long)hooks_deaf, 0, 0));
	pr_info("remove %d\n", ftrace_set_filter_ip(&plain, (unsigned long)hooks_two, 1, 0));
	pr_info("remove again %d\n", ftrace_set_filter_ip(&plain, (unsigned long)hooks_two, 1, 0));
	call("one by address");
	pr_info("addresses %d\n", ftrace_set_filter_ips(&plain, ips, 2, 0, 1));
	pr_info("bad ones %d\n", ftrace_set_filter_ips(&plain, bad, 2, 0, 1));
	call("one and nested");
	pr_info("unregister %d\n", unregister_ftrace_function(&plain));
	pr_info("flags %lx\n", plain.flags);
	call("nobody");
	pr_info("register %d\n", register_ftrace_function(&plain));
	call("the filter stays");
	pr_info("unregister %d\n", unregister_ftrace_function(&plain));
}

static void misuse(void)
{
	struct ftrace_ops *never = kzalloc(sizeof(*never), GFP_KERNEL);

	pr_info("- misuse\n");
	filter(&plain, "hooks_one", 1);
	pr_info("register %d\n", register_ftrace_function(&plain));
	pr_info("again %d\n", register_ftrace_function(&plain));
	pr_info("unregister %d\n", unregister_ftrace_function(&plain));
	pr_info("again %d\n", unregister_ftrace_function(&plain));
	if (never) {
		never->func = plain_func;
		pr_info("unregister what never was %d\n", unregister_ftrace_function(never));
		never->flags = FTRACE_OPS_FL_DELETED;
		pr_info("register what is deleted %d\n", register_ftrace_function(never));
		kfree(never);
	}
	pr_info("no text %d\n", filter(&plain, "", 0));
	pr_info("a space %d\n", filter(&plain, " ", 0));
	pr_info("none after that %d\n", filter(&plain, "hooks_one", 1));
}

static void order(void)
{
	pr_info("filters %d %d %d\n", filter(&registers, "hooks_one", 0), filter(&maybe, "hooks_one", 0), filter(&nesting, "hooks_*", 0));
	pr_info("registers %d\n", register_ftrace_function(&registers));
	pr_info("flags %lx\n", registers.flags);
	call("with registers");
	pr_info("kprobe %d\n", register_kprobe(&kp));
	call("and a kprobe");
	pr_info("plain %d\n", register_ftrace_function(&plain));
	call("and plain");
	pr_info("maybe %d\n", register_ftrace_function(&maybe));
	pr_info("flags %lx\n", maybe.flags);
	call("and maybe");
	unregister_kprobe(&kp);
	kp.addr = NULL;
	kp.flags = 0;
	pr_info("kprobe again %d\n", register_kprobe(&kp));
	unregister_ftrace_function(&registers);
	call("without the first, kprobe the last");
	unregister_kprobe(&kp);
	kp.addr = NULL;
	kp.flags = 0;
	unregister_ftrace_function(&maybe);
	unregister_ftrace_function(&plain);
	pr_info("nesting %d\n", register_ftrace_function(&nesting));
	call("nesting");
	pr_info("plain %d\n", register_ftrace_function(&plain));
	call("nesting and plain");
	unregister_ftrace_function(&nesting);
	unregister_ftrace_function(&plain);
}

static int stay(const char *val, const struct kernel_param *kp_)
{
	int err = 0;

	if (sysfs_streq(val, "maybe"))
		err = register_ftrace_function(&maybe);
	else if (sysfs_streq(val, "plain"))
		err = register_ftrace_function(&plain);
	else if (sysfs_streq(val, "nesting"))
		err = register_ftrace_function(&nesting);
	else if (sysfs_streq(val, "kprobe"))
		err = register_kprobe(&kp);
	else if (sysfs_streq(val, "call"))
		call("call");
	else if (sysfs_streq(val, "none")) {
		unregister_kprobe(&kp);
		kp.addr = NULL;
		kp.flags = 0;
		unregister_ftrace_function(&maybe);
		unregister_ftrace_function(&plain);
		unregister_ftrace_function(&nesting);
	} else
		return -EINVAL;
	if (err)
		pr_info("result %d\n", err);
	return 0;
}

static const struct kernel_param_ops stay_ops = { .set = stay };
module_param_cb(stay, &stay_ops, NULL, 0200);

static int __init hooks_init(void)
{
	filters();
	misuse();
	order();
	return 0;
}

static void __exit hooks_exit(void)
{
	if (kp.addr)
		unregister_kprobe(&kp);
	ftrace_free_filter(&plain);
	ftrace_free_filter(&registers);
	ftrace_free_filter(&maybe);
	ftrace_free_filter(&nesting);
	pr_info("exit\n");
}

module_init(hooks_init);
module_exit(hooks_exit);
MODULE_LICENSE("Dual MIT/GPL");
