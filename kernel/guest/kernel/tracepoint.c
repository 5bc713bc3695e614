/*
 * tracepoint.c: the probes of modules at tracepoints, the kernel's and those of other
 * modules. The events of the tracer are no probes here: they are the machine's.
 */
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/notifier.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/srcu.h>
#include <linux/tracepoint.h>
#include <asm/host.h>

extern const int __start___tracepoints_ptrs[], __stop___tracepoints_ptrs[];
extern char _sdata[], _edata[];

static DEFINE_MUTEX(tracepoints_mutex);	/* protects the probes of all tracepoints */

/* No site reads under it, because none is passed by an idle CPU that RCU ignores. */
struct srcu_struct tracepoint_srcu;
EXPORT_SYMBOL_GPL(tracepoint_srcu);

static int __init tracepoint_init(void)
{
	return init_srcu_struct(&tracepoint_srcu);
}
early_initcall(tracepoint_init);

static struct tracepoint *tracepoint_ptr_deref(const int *p)
{
	return (struct tracepoint *)((unsigned long)p + *p);
}

/* Lets the sites call func for the probes of modules; NULL: there are none. */
static void tracepoint_update_call(struct tracepoint *tp, void *func)
{
	if ((char *)tp >= _sdata && (char *)tp < _edata) {
		WARN_ON(probe_request(TRACEPOINT_UPDATE, tp, (u64)func));
		return;
	}
	__static_call_update(tp->static_call_key, tp->static_call_tramp, func ?: tp->iterator);
	if (func)
		static_key_enable(&tp->key);
	else
		static_key_disable(&tp->key);
}

static unsigned int nr_funcs(const struct tracepoint_func *f)
{
	unsigned int n = 0;

	while (f && f[n].func)
		n++;
	return n;
}

/*
 * Replaces the probes, of which there are n. A site passes the first one's data to what
 * it calls, and only __traceiter_NAME ignores that: it is called until all tasks have
 * left the sites that have read the old probes.
 */
static void tracepoint_set_funcs(struct tracepoint *tp, struct tracepoint_func *funcs, unsigned int n)
{
	struct tracepoint_func *old = tp->funcs;

	tracepoint_update_call(tp, n ? tp->iterator : NULL);
	rcu_assign_pointer(tp->funcs, funcs);
	synchronize_rcu();
	if (n == 1)
		tracepoint_update_call(tp, funcs->func);
	kfree(old);
}

static bool same_probe(const struct tracepoint_func *f, void *probe, void *data)
{
	return f->func == probe && f->data == data;
}

/* Adds a probe after the ones of its priority. */
static noinline int tracepoint_add_func(struct tracepoint *tp, void *probe, void *data, int prio)
{
	unsigned int i, at = 0, n = nr_funcs(tp->funcs);
	struct tracepoint_func *funcs;

	if (!probe)
		return -EINVAL;
	for (i = 0; i < n; i++) {
		if (same_probe(&tp->funcs[i], probe, data))
			return -EEXIST;
		if (tp->funcs[i].prio >= prio)
			at = i + 1;
	}
	funcs = kcalloc(n + 2, sizeof(*funcs), GFP_KERNEL);
	if (!funcs)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		funcs[i < at ? i : i + 1] = tp->funcs[i];
	funcs[at] = (struct tracepoint_func){ probe, data, prio };
	tracepoint_set_funcs(tp, funcs, n + 1);
	return 0;
}

static int tracepoint_register(struct tracepoint *tp, void *probe, void *data, int prio, bool warn)
{
	int ret = 0;

	mutex_lock(&tracepoints_mutex);
	if (tp->regfunc && !static_key_enabled(&tp->key))
		ret = tp->regfunc();
	if (ret >= 0)
		ret = tracepoint_add_func(tp, probe, data, prio);
	WARN_ON_ONCE(ret && ret != -ENOMEM && warn);
	mutex_unlock(&tracepoints_mutex);
	return ret;
}

int tracepoint_probe_register_prio_may_exist(struct tracepoint *tp, void *probe, void *data, int prio)
{
	return tracepoint_register(tp, probe, data, prio, false);
}
EXPORT_SYMBOL_GPL(tracepoint_probe_register_prio_may_exist);

int tracepoint_probe_register_prio(struct tracepoint *tp, void *probe, void *data, int prio)
{
	return tracepoint_register(tp, probe, data, prio, true);
}
EXPORT_SYMBOL_GPL(tracepoint_probe_register_prio);

int tracepoint_probe_register(struct tracepoint *tp, void *probe, void *data)
{
	return tracepoint_probe_register_prio(tp, probe, data, TRACEPOINT_DEFAULT_PRIO);
}
EXPORT_SYMBOL_GPL(tracepoint_probe_register);

/* Takes the place of a probe that is removed while there is no memory. */
static void tp_stub_func(void)
{
}

/* Removes a probe; one that is not there is not missed if others are. */
static int tracepoint_remove_func(struct tracepoint *tp, void *probe, void *data)
{
	unsigned int i, left = 0, n = nr_funcs(tp->funcs);
	struct tracepoint_func *funcs = NULL;

	if (WARN_ON_ONCE(!n))
		return -ENOENT;
	for (i = 0; i < n; i++)
		left += !same_probe(&tp->funcs[i], probe, data);
	if (left == n)
		return 0;
	if (left) {
		funcs = kcalloc(left + 1, sizeof(*funcs), GFP_KERNEL);
		if (!funcs) {
			for (i = 0; i < n; i++)
				if (same_probe(&tp->funcs[i], probe, data))
					WRITE_ONCE(tp->funcs[i].func, tp_stub_func);
			return 0;
		}
		for (i = 0, left = 0; i < n; i++)
			if (!same_probe(&tp->funcs[i], probe, data))
				funcs[left++] = tp->funcs[i];
	} else if (tp->unregfunc) {
		tp->unregfunc();
	}
	tracepoint_set_funcs(tp, funcs, left);
	return 0;
}

int tracepoint_probe_unregister(struct tracepoint *tp, void *probe, void *data)
{
	int ret;

	mutex_lock(&tracepoints_mutex);
	ret = tracepoint_remove_func(tp, probe, data);
	mutex_unlock(&tracepoints_mutex);
	return ret;
}
EXPORT_SYMBOL_GPL(tracepoint_probe_unregister);

void for_each_kernel_tracepoint(void (*fct)(struct tracepoint *tp, void *priv), void *priv)
{
	const int *p;

	for (p = __start___tracepoints_ptrs; p < __stop___tracepoints_ptrs; p++)
		fct(tracepoint_ptr_deref(p), priv);
}
EXPORT_SYMBOL_GPL(for_each_kernel_tracepoint);

/* The modules that have tracepoints. */
static LIST_HEAD(tracepoint_module_list);
static DEFINE_MUTEX(tracepoint_module_list_mutex);
static BLOCKING_NOTIFIER_HEAD(tracepoint_notify_list);

/* Calls a notifier for each module that is there. */
static int tracepoint_tell(struct notifier_block *nb, unsigned long state, int (*change)(struct blocking_notifier_head *, struct notifier_block *))
{
	struct tp_module *m;
	int ret;

	mutex_lock(&tracepoint_module_list_mutex);
	ret = change(&tracepoint_notify_list, nb);
	if (!ret)
		list_for_each_entry(m, &tracepoint_module_list, list)
			nb->notifier_call(nb, state, m);
	mutex_unlock(&tracepoint_module_list_mutex);
	return ret;
}

int register_tracepoint_module_notifier(struct notifier_block *nb)
{
	return tracepoint_tell(nb, MODULE_STATE_COMING, blocking_notifier_chain_register);
}
EXPORT_SYMBOL_GPL(register_tracepoint_module_notifier);

int unregister_tracepoint_module_notifier(struct notifier_block *nb)
{
	return tracepoint_tell(nb, MODULE_STATE_GOING, blocking_notifier_chain_unregister);
}
EXPORT_SYMBOL_GPL(unregister_tracepoint_module_notifier);

/* TAINT_CRAP, TAINT_OOT_MODULE, TAINT_UNSIGNED_MODULE, TAINT_TEST. */
#define TAINTS_TOLERATED (1UL << 10 | 1UL << 12 | 1UL << 13 | 1UL << 18)

int tracepoint_module_coming(struct module *mod)
{
	struct tp_module *m;

	if (!mod->num_tracepoints || mod->taints & ~TAINTS_TOLERATED)
		return 0;
	m = kmalloc(sizeof(*m), GFP_KERNEL);
	if (!m)
		return -ENOMEM;
	m->mod = mod;
	mutex_lock(&tracepoint_module_list_mutex);
	list_add_tail(&m->list, &tracepoint_module_list);
	blocking_notifier_call_chain(&tracepoint_notify_list, MODULE_STATE_COMING, m);
	mutex_unlock(&tracepoint_module_list_mutex);
	return 0;
}

void tracepoint_module_going(struct module *mod)
{
	struct tp_module *m;
	unsigned int i;

	mutex_lock(&tracepoint_module_list_mutex);
	list_for_each_entry(m, &tracepoint_module_list, list) {
		if (m->mod != mod)
			continue;
		blocking_notifier_call_chain(&tracepoint_notify_list, MODULE_STATE_GOING, m);
		list_del(&m->list);
		kfree(m);
		for (i = 0; i < mod->num_tracepoints; i++)
			WARN_ON_ONCE(tracepoint_ptr_deref(&mod->tracepoints_ptrs[i])->funcs);
		break;
	}
	mutex_unlock(&tracepoint_module_list_mutex);
}
