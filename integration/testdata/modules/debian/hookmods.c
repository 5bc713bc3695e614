// SPDX-License-Identifier: MIT
/* hookmods changes regs->ip in callbacks of ftrace_ops, as live patching does. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/ftrace.h>
#include <linux/kprobes.h>
#include <linux/module.h>

noinline long hookmods_old(long n);
noinline long hookmods_old(long n)
{
	barrier();
	return n + 1;
}

noinline long hookmods_other(long n);
noinline long hookmods_other(long n)
{
	barrier();
	return n + 2;
}

static noinline notrace long hookmods_new(long n)
{
	barrier();
	return n + 1000;
}

static noinline notrace long hookmods_newer(long n)
{
	barrier();
	return n + 2000;
}

static notrace void replace(unsigned long ip, unsigned long parent, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
	ftrace_instruction_pointer_set(fregs, (unsigned long)op->private);
}

static volatile int seen;
static notrace void watch(unsigned long ip, unsigned long parent, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
	seen++;
}

static struct ftrace_ops first = { .func = replace, .private = hookmods_new, .flags = FTRACE_OPS_FL_IPMODIFY | FTRACE_OPS_FL_SAVE_REGS };
static struct ftrace_ops second = { .func = replace, .private = hookmods_newer, .flags = FTRACE_OPS_FL_IPMODIFY };
static struct ftrace_ops watcher = { .func = watch };
static struct ftrace_ops permanent = { .func = watch, .flags = FTRACE_OPS_FL_PERMANENT };

static int pre(struct kprobe *p, struct pt_regs *regs)
{
	pr_info("kprobe\n");
	return 0;
}

static void post(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	pr_info("kprobe, after\n");
}

static struct kprobe kp = { .symbol_name = "hookmods_old", .pre_handler = pre };
static struct kprobe kpost = { .symbol_name = "hookmods_old", .pre_handler = pre, .post_handler = post };

static void call(const char *what)
{
	long old, other;

	seen = 0;
	old = hookmods_old(1);
	other = hookmods_other(1);
	pr_info("- %s: old %ld, other %ld, watched %d\n", what, old, other, seen);
}

static int filter(struct ftrace_ops *ops, const char *name, int reset)
{
	unsigned char buf[32];	/* the kernel cuts patterns in place */

	return ftrace_set_filter(ops, buf, strscpy(buf, name, sizeof(buf)), reset);
}

static int set(const char *val, const struct kernel_param *param)
{
	int err = 0;

	if (sysfs_streq(val, "first"))
		err = register_ftrace_function(&first);
	else if (sysfs_streq(val, "watcher"))
		err = register_ftrace_function(&watcher);
	else if (sysfs_streq(val, "permanent"))
		err = register_ftrace_function(&permanent);
	else if (sysfs_streq(val, "impermanent"))
		err = unregister_ftrace_function(&permanent);
	else if (sysfs_streq(val, "call"))
		call("call");
	else if (sysfs_streq(val, "none")) {
		unregister_ftrace_function(&first);
		unregister_ftrace_function(&watcher);
	}
	pr_info("result %d\n", err);
	return 0;
}

static const struct kernel_param_ops set_ops = { .set = set };
module_param_cb(set, &set_ops, NULL, 0200);

static int __init hookmods_init(void)
{
	filter(&first, "hookmods_old", 0);
	filter(&second, "hookmods_old", 0);
	filter(&watcher, "hookmods_o*", 0);
	filter(&permanent, "hookmods_other", 0);
	pr_info("first %d\n", register_ftrace_function(&first));
	call("first");
	pr_info("second %d\n", register_ftrace_function(&second));
	pr_info("flags %lx\n", second.flags);
	pr_info("filter elsewhere %d\n", filter(&second, "hookmods_other", 1));
	pr_info("second %d\n", register_ftrace_function(&second));
	call("second at the other");
	pr_info("to the first's %d\n", filter(&second, "hookmods_old", 1));
	pr_info("add the first's %d\n", ftrace_set_filter_ip(&second, (unsigned long)hookmods_old, 0, 0));
	call("the filter stays");
	pr_info("watcher %d\n", register_ftrace_function(&watcher));
	call("watched");
	pr_info("kprobe %d\n", register_kprobe(&kp));
	call("with a kprobe");
	unregister_kprobe(&kp);
	kp.addr = NULL;
	kp.flags = 0;
	pr_info("kprobe with post handler %d\n", register_kprobe(&kpost));
	kpost.addr = NULL;
	kpost.flags = 0;
	unregister_ftrace_function(&first);
	call("without the first");
	pr_info("kprobe with post handler %d\n", register_kprobe(&kpost));
	call("kprobe with post handler");
	pr_info("first %d\n", register_ftrace_function(&first));
	unregister_kprobe(&kpost);
	pr_info("first %d\n", register_ftrace_function(&first));
	call("first again");
	unregister_ftrace_function(&watcher);
	unregister_ftrace_function(&first);
	unregister_ftrace_function(&second);
	call("nobody");
	return 0;
}

static void __exit hookmods_exit(void)
{
	pr_info("exit\n");
}

module_init(hookmods_init);
module_exit(hookmods_exit);
MODULE_LICENSE("Dual MIT/GPL");
