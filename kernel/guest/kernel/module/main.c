/*
 * main.c: the modules that are loaded, as the kernel sees them. The machine puts a
 * module in place, resolves its symbols and fills in its struct module; what is done
 * by the kernel's own code is here. Modules without a struct module are not listed.
 */
#include <linux/kernel.h>
#include <linux/atomic.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <asm/traps.h>

static LIST_HEAD(modules);
static DEFINE_MUTEX(module_mutex);

static int unknown_module_param_cb(char *param, char *val, const char *modname, void *arg)
{
	pr_warn("%s: unknown parameter '%s' ignored\n", modname, param);
	return 0;
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
	return ret;
}

/*
 * Adds a module to the list, parses its arguments and calls its init function. Returns
 * the result of that, or -errno. Called by the machine.
 */
int load_module(struct module *mod)
{
	char *after_dashes;

	mutex_lock(&module_mutex);
	list_add_rcu(&mod->list, &modules);
	mutex_unlock(&module_mutex);
	after_dashes = parse_args(mod->name, mod->args, mod->kp, mod->num_kp, -32768, 32767, mod, unknown_module_param_cb);
	if (IS_ERR(after_dashes))
		return PTR_ERR(after_dashes);
	if (after_dashes)
		pr_warn("%s: parameters '%s' after `--' ignored\n", mod->name, after_dashes);
	return do_init_module(mod);
}

/* Removes a module from the list and frees its parameters. Called by the machine. */
void free_module(struct module *mod)
{
	mutex_lock(&module_mutex);
	list_del_rcu(&mod->list);
	mutex_unlock(&module_mutex);
	destroy_params(mod->kp, mod->num_kp);
}

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
NOKPROBE_SYMBOL(search_module_extables);

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
