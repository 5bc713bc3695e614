// What the documents say of the C API, for the releases from 2.6.25 on: it prints what calls
// return and how often handlers were called.
#include <linux/module.h>
#include <linux/kprobes.h>
#include <linux/sched.h>
#include <linux/version.h>

static int pres, posts, entries, backs, matched;
static noinline int probed(int n) { asm volatile("" : "+r"(n)); return n + 1; }
static noinline int other(int n) { asm volatile("" : "+r"(n)); return n + 2; }

static int pre(struct kprobe *p, struct pt_regs *regs) { pres++; return 0; }
static void post(struct kprobe *p, struct pt_regs *regs, unsigned long flags) { posts++; }

static int entry(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	entries++;
	if (regs->di == 7)
		return 1;
	*(unsigned long *)ri->data = regs->di;
	return 0;
}

static int back(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	backs++;
	matched += regs_return_value(regs) == *(unsigned long *)ri->data + 1;
	return 0;
}

static void both(void)
{
	struct kprobe kp = { .symbol_name = "vfs_read", .addr = (void *)probed };
	int err = register_kprobe(&kp);
	struct kprobe none = { .pre_handler = pre };

	pr_info("api: both %d, neither %d\n", err, register_kprobe(&none));
}

static void disabled(void)
{
	static struct kprobe kp = { .addr = (void *)probed, .pre_handler = pre, .post_handler = post, .flags = KPROBE_FLAG_DISABLED };
	int err = register_kprobe(&kp), first;

	pres = posts = 0;
	probed(1);
	first = pres;
	pr_info("api: disabled %d, hits %d, enable %d", err, first, enable_kprobe(&kp));
	probed(1);
	pr_cont(", hits %d %d, disable %d", pres, posts, disable_kprobe(&kp));
	probed(1);
	pr_cont(", hits %d\n", pres);
	unregister_kprobe(&kp);
	pr_info("api: unregistered: addr %s, disabled %d, enable %d, disable %d\n", kp.addr ? "kept" : "cleared",
		(kp.flags & KPROBE_FLAG_DISABLED) != 0, enable_kprobe(&kp), disable_kprobe(&kp));
	unregister_kprobe(&kp);
	pr_info("api: twice: addr %s\n", kp.addr ? "kept" : "cleared");
}

static void batch(void)
{
	static struct kprobe a = { .pre_handler = pre, .addr = (void *)probed }, b = { .pre_handler = pre, .symbol_name = "vfs_read", .addr = (void *)probed },
		c = { .pre_handler = pre, .addr = (void *)other };
	struct kprobe *all[] = { &a, &b, &c }, *good[] = { &a, &c };
	int err = register_kprobes(all, 3);

	pres = 0;
	probed(1);
	other(1);
	pr_info("api: batch %d, hits %d", err, pres);
	err = register_kprobes(good, 2);
	probed(1);
	other(1);
	pr_cont(", again %d, hits %d", err, pres);
	unregister_kprobes(all, 3);
	probed(1);
	pr_cont(", hits %d, bad addr %s, good addr %s\n", pres, b.addr ? "kept" : "cleared", a.addr ? "kept" : "cleared");
	pr_info("api: none of them %d\n", register_kprobes(all, 0));
}

static void aggregated(void)
{
	static struct kprobe a = { .addr = (void *)probed, .pre_handler = pre }, b = { .addr = (void *)probed, .pre_handler = pre, .post_handler = post };
	int err = register_kprobe(&a) ?: register_kprobe(&b);

	pres = posts = 0;
	probed(1);
	unregister_kprobe(&b);
	probed(1);
	pr_info("api: two at one address %d, pre %d, post %d\n", err, pres, posts);
	unregister_kprobe(&a);
}

static void returns(void)
{
	static struct kretprobe rp = { .kp.addr = (void *)probed, .handler = back, .entry_handler = entry, .data_size = 8 };
	int err = register_kretprobe(&rp);

	probed(1);
	probed(7);
	probed(3);
	pr_info("api: return probe %d, entries %d, returns %d, data %d, missed %d\n", err, entries, backs, matched, rp.nmissed);
	pr_info("api: maxactive %d\n", rp.maxactive);
	unregister_kretprobe(&rp);
	rp.kp.addr = NULL;
	rp.kp.symbol_name = "vfs_read";
	rp.kp.offset = 5;
	pr_info("api: inside %d\n", register_kretprobe(&rp));
}

static void refused(const char *name)
{
	struct kprobe kp = { .symbol_name = name, .pre_handler = pre };
	int err = register_kprobe(&kp);

	if (!err)
		unregister_kprobe(&kp);
	pr_info("api: %s %d\n", name, err);
}

static int __init begin(void)
{
	both();
	disabled();
	batch();
	aggregated();
	returns();
	refused("notifier_call_chain");
	refused("register_kprobe");
	refused("unregister_kprobe");
	refused("register_kretprobe");
	refused("__switch_to");
	return 0;
}

static void __exit end(void) { }
module_init(begin)
module_exit(end)
MODULE_LICENSE("GPL");
