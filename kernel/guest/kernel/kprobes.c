/*
 * kprobes.c: probes that modules register. The machine does the work: it reads the
 * structs, calls the handlers, and updates the fields that Linux updates. The caller
 * sleeps until a request is done.
 */
#include <linux/sched.h>
#include <linux/kprobes.h>
#include <linux/kallsyms.h>
#include <linux/slab.h>
#include <linux/cpumask.h>
#include <asm/host.h>

/* Linux's table of probes, by their addresses. The machine has them, and this is empty: what
 * looks for it finds a name that takes no probe, and no probes. */
static __used struct hlist_head kprobe_table[64];

/* The machine sets it while handlers run that are guest code, and optimized_callback does. */
DEFINE_PER_CPU(struct kprobe *, current_kprobe);

/* The layout is that in kernel/abi. */
struct probe_request {
	u64 nr, addr, arg;
	s64 ret;
	u32 done;
};
/* On 2.6 these functions could not be probed. */
#ifdef KERNEL_2_6
#define __kprobes_2_6	noinline __kprobes
#else
#define __kprobes_2_6
#endif

static_assert(offsetof(struct probe_request, done) == 32, "probe_request");

int __kprobes_2_6 probe_request(u64 nr, void *probe, u64 arg)
{
	struct probe_request r = { .nr = nr, .addr = (u64)probe, .arg = arg };
	int err;

	/* Called by a handler: Linux would hang. A handler that has slept leaves a count below 0. */
	if ((preempt_count() << 1) > 0 || irqs_disabled())
		return -EDEADLK;
	err = hypercall1(HC_PROBE, &r);
	if (err)
		return err;
	for (;;) {
		set_current_state(TASK_UNINTERRUPTIBLE);
		if (smp_load_acquire(&r.done))
			break;
		schedule();
	}
	__set_current_state(TASK_RUNNING);
	return r.ret;
}

kprobe_opcode_t *kprobe_lookup_name(const char *name, unsigned int offset);
noinline __noclone kprobe_opcode_t *kprobe_lookup_name(const char *name, unsigned int offset)
{
	return (kprobe_opcode_t *)kallsyms_lookup_name(name);
}

noinline int __kprobes_2_6 register_kprobe(struct kprobe *p)
{
	if (p->symbol_name && !p->addr && !kprobe_lookup_name(p->symbol_name, p->offset))
		return -ENOENT;
	return probe_request(PROBE_REGISTER, p, 0);
}
EXPORT_SYMBOL_GPL(register_kprobe);

void __kprobes_2_6 unregister_kprobe(struct kprobe *p)
{
	unregister_kprobes(&p, 1);
}
EXPORT_SYMBOL_GPL(unregister_kprobe);

int __kprobes_2_6 register_kprobes(struct kprobe **kps, int num)
{
	int i, err;

	if (num <= 0)
		return -EINVAL;
	for (i = 0; i < num; i++) {
		err = register_kprobe(kps[i]);
		if (err) {
			unregister_kprobes(kps, i);
			return err;
		}
	}
	return 0;
}
EXPORT_SYMBOL_GPL(register_kprobes);

noinline void __kprobes_2_6 unregister_kprobes(struct kprobe **kps, int num)
{
	if (num > 0)
		probe_request(PROBE_UNREGISTER, kps, num);
}
EXPORT_SYMBOL_GPL(unregister_kprobes);

int __kprobes_2_6 disable_kprobe(struct kprobe *kp)
{
	return probe_request(PROBE_DISABLE, kp, 0);
}
EXPORT_SYMBOL_GPL(disable_kprobe);

int __kprobes_2_6 enable_kprobe(struct kprobe *kp)
{
	return probe_request(PROBE_ENABLE, kp, 0);
}
EXPORT_SYMBOL_GPL(enable_kprobe);

static size_t __kprobes_2_6 instance_size(struct kretprobe *rp)
{
	return sizeof(struct kretprobe_instance) + ALIGN(rp->data_size, sizeof(long));
}

/* The instances are allocated in one piece, after the rethook. */
static struct rethook *__kprobes_2_6 alloc_rethook(struct kretprobe *rp, int n)
{
	size_t size = instance_size(rp);
	struct rethook *rh = kvzalloc(sizeof(*rh) + n * size, GFP_KERNEL);
	int i;

	if (!rh)
		return NULL;
	rh->data = rp;
	for (i = 0; i < n; i++)
		((struct kretprobe_instance *)((char *)(rh + 1) + i * size))->node.rethook = rh;
	return rh;
}

/* What a return probe's struct kprobe names as its handler. The machine does its work. */
static int pre_handler_kretprobe(struct kprobe *p, struct pt_regs *regs)
{
	return 0;
}
NOKPROBE_SYMBOL(pre_handler_kretprobe);

int __kprobes_2_6 register_kretprobe(struct kretprobe *rp)
{
	int n = rp->maxactive > 0 ? rp->maxactive : max(10, 2 * (int)num_possible_cpus());
	struct rethook *rh = NULL;
	int err;

	if (rp->data_size <= KRETPROBE_MAX_DATA_SIZE) {
		rh = alloc_rethook(rp, n);
		if (!rh)
			return -ENOMEM;
	}
	err = probe_request(RETPROBE_REGISTER, rp, (u64)(rh + 1));
	if (err) {
		kvfree(rh);
		return err;
	}
	rp->rh = rh;
	rp->kp.pre_handler = pre_handler_kretprobe;
	rp->kp.post_handler = NULL;
	return 0;
}
EXPORT_SYMBOL_GPL(register_kretprobe);

void __kprobes_2_6 unregister_kretprobe(struct kretprobe *rp)
{
	unregister_kretprobes(&rp, 1);
}
EXPORT_SYMBOL_GPL(unregister_kretprobe);

int __kprobes_2_6 register_kretprobes(struct kretprobe **rps, int num)
{
	int i, err;

	if (num <= 0)
		return -EINVAL;
	for (i = 0; i < num; i++) {
		err = register_kretprobe(rps[i]);
		if (err) {
			unregister_kretprobes(rps, i);
			return err;
		}
	}
	return 0;
}
EXPORT_SYMBOL_GPL(register_kretprobes);

/* Pending calls do not use their instances any more, since their handlers do not run.
 * */
void __kprobes_2_6 unregister_kretprobes(struct kretprobe **rps, int num)
{
	int i;

	if (num <= 0 || probe_request(RETPROBE_UNREGISTER, rps, num))
		return;
	for (i = 0; i < num; i++) {
		kvfree(rps[i]->rh);
		rps[i]->rh = NULL;
	}
}
EXPORT_SYMBOL_GPL(unregister_kretprobes);
