/*
 * main.c: the modules that are loaded, as the kernel sees them. The machine puts a
 * module in place, resolves its symbols and fills in its struct module; what is done
 * by the kernel's own code is here. Modules without a struct module are not listed.
 */
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/atomic.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/notifier.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <asm/host.h>
#include <asm/traps.h>

static LIST_HEAD(modules);
static DEFINE_MUTEX(module_mutex);

static int unknown_module_param_cb(char *param, char *val, const char *modname, void *arg)
{
	pr_warn("%s: unknown parameter '%s' ignored\n", modname, param);
	return 0;
}

static struct blocking_notifier_head module_notify_list;

int register_module_notifier(struct notifier_block *nb)
{
	return blocking_notifier_chain_register(&module_notify_list, nb);
}
EXPORT_SYMBOL(register_module_notifier);

int unregister_module_notifier(struct notifier_block *nb)
{
	return blocking_notifier_chain_unregister(&module_notify_list, nb);
}
EXPORT_SYMBOL(unregister_module_notifier);

/* The kernel's own notifier: the machine does what kprobes, ftrace and the tracer do. */
static int module_event(struct notifier_block *nb, unsigned long state, void *mod)
{
	void hold_module_trace_bprintk_format(const char **start, const char **end);
	int srcu_module_coming(struct module *mod), tracepoint_module_coming(struct module *mod);
	void srcu_module_going(struct module *mod), tracepoint_module_going(struct module *mod);
	struct module *m = mod;
	int ret;

	if (state != MODULE_STATE_COMING) {
		WARN_ON(probe_request(MODULE_EVENT, mod, state));
		if (state == MODULE_STATE_GOING) {
			tracepoint_module_going(m);
			srcu_module_going(m);
		}
		return NOTIFY_OK;
	}
	hold_module_trace_bprintk_format(m->trace_bprintk_fmt_start, m->trace_bprintk_fmt_start + m->num_trace_bprintk_fmt);
	ret = srcu_module_coming(m);
	if (!ret) {
		ret = tracepoint_module_coming(m);
		if (ret)
			srcu_module_going(m);
	}
	return notifier_from_errno(ret);
}

static struct notifier_block module_nb = { .notifier_call = module_event };
static struct blocking_notifier_head module_notify_list = { __RWSEM_INITIALIZER(module_notify_list.rwsem), &module_nb };

/* Tells the notifiers. A module that one of them refuses leaves the list, so that they
 * are not told again when it goes. */
static int prepare_coming_module(struct module *mod)
{
	int ret = notifier_to_errno(blocking_notifier_call_chain_robust(&module_notify_list,
			MODULE_STATE_COMING, MODULE_STATE_GOING, mod));

	if (ret) {
		mutex_lock(&module_mutex);
		list_del_init(&mod->list);
		mutex_unlock(&module_mutex);
	}
	return ret;
}

static noinline int do_init_module(struct module *mod)
{
	int do_one_initcall(initcall_t fn);
	int ret = mod->init ? do_one_initcall(mod->init) : 0;

	if (ret > 0) {
		pr_warn("%s: '%s'->init suspiciously returned %d, it should follow 0/-E convention\n"
			"%s: loading module anyway...\n", __func__, mod->name, ret, __func__);
		dump_stack();
	}
	if (ret >= 0) {
		WRITE_ONCE(mod->state, MODULE_STATE_LIVE);
		blocking_notifier_call_chain(&module_notify_list, MODULE_STATE_LIVE, mod);
	}
	module_put(mod);	/* that of the loader */
	return ret;
}

/*
 * Adds a module to the list, tells the notifiers, parses its arguments and calls its init
 * function. Returns the result of that, or -errno. Called by the machine.
 */
int load_module(struct module *mod)
{
	char *after_dashes;
	int ret;

	mutex_lock(&module_mutex);
	list_add_rcu(&mod->list, &modules);
	mutex_unlock(&module_mutex);
	ret = prepare_coming_module(mod);
	if (ret)
		return ret;
	after_dashes = parse_args(mod->name, mod->args, mod->kp, mod->num_kp, -32768, 32767, mod, unknown_module_param_cb);
	if (IS_ERR(after_dashes))
		return PTR_ERR(after_dashes);
	if (after_dashes)
		pr_warn("%s: parameters '%s' after `--' ignored\n", mod->name, after_dashes);
	ret = mod_sysfs_setup(mod);
	if (ret)
		return ret;
	return do_init_module(mod);
}

/* Tells the notifiers that a module goes, removes it from the list and frees its
 * parameters. Called by the machine. */
void free_module(struct module *mod)
{
	if (!list_empty(&mod->list))
		blocking_notifier_call_chain(&module_notify_list, MODULE_STATE_GOING, mod);
	mod_sysfs_teardown(mod);
	mutex_lock(&module_mutex);
	if (!list_empty(&mod->list))
		list_del_rcu(&mod->list);
	mutex_unlock(&module_mutex);
	destroy_params(mod->kp, mod->num_kp);
}

/* Returns the number of references, or -1 when the module is being unloaded. */
int module_refcount(struct module *mod)
{
	return atomic_read(&mod->refcnt) - 1;
}
EXPORT_SYMBOL(module_refcount);

bool try_module_get(struct module *module)
{
	if (!module)
		return true;
	return module->state != MODULE_STATE_GOING && atomic_add_unless(&module->refcnt, 1, 0);
}
EXPORT_SYMBOL(try_module_get);

void __module_get(struct module *module)
{
	if (module)
		atomic_inc(&module->refcnt);
}
EXPORT_SYMBOL(__module_get);

void module_put(struct module *module)
{
	if (module)
		WARN_ON(atomic_dec_return(&module->refcnt) < 0);
}
EXPORT_SYMBOL(module_put);

const struct exception_table_entry *search_module_extables(unsigned long addr)
{
	const struct exception_table_entry *search_extable(const struct exception_table_entry *base,
							   const size_t num, unsigned long value);
	const struct exception_table_entry *e = NULL;
	struct module *mod;

	rcu_read_lock();
	list_for_each_entry_rcu(mod, &modules, list) {
		e = search_extable(mod->extable, mod->num_exentries, addr);
		if (e)
			break;
	}
	rcu_read_unlock();
	return e;
}

struct bug_entry *module_find_bug(unsigned long bugaddr)
{
	struct bug_entry *found = NULL;
	struct module *mod;
	unsigned int i;

	rcu_read_lock();
	list_for_each_entry_rcu(mod, &modules, list)
		for (i = 0; i < mod->num_bugs; i++)
			if ((unsigned long)&mod->bug_table[i].bug_addr_disp + mod->bug_table[i].bug_addr_disp == bugaddr)
				found = &mod->bug_table[i];
	rcu_read_unlock();
	return found;
}
NOKPROBE_SYMBOL(module_find_bug);
