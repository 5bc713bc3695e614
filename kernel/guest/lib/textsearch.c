// Searching in text that comes in pieces, by algorithms that modules bring.
#include <linux/err.h>
#include <linux/errno.h>
#include <linux/export.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>

struct ts_config;
struct ts_state {
	unsigned int offset;
	char cb[48];
};
static_assert(sizeof(struct ts_state) == 52, "struct ts_state");

struct ts_ops {
	const char *name;
	struct ts_config *(*init)(const void *pattern, unsigned int len, gfp_t gfp, int flags);
	unsigned int (*find)(struct ts_config *conf, struct ts_state *state);
	void (*destroy)(struct ts_config *conf);
	void *(*get_pattern)(struct ts_config *conf);
	unsigned int (*get_pattern_len)(struct ts_config *conf);
	struct module *owner;
	struct list_head list;
};
static_assert(sizeof(struct ts_ops) == 72, "struct ts_ops");

struct ts_config {
	struct ts_ops *ops;
	int flags;
	unsigned int (*get_next_block)(unsigned int consumed, const u8 **dst, struct ts_config *conf, struct ts_state *state);
	void (*finish)(struct ts_config *conf, struct ts_state *state);
};
static_assert(sizeof(struct ts_config) == 32, "struct ts_config");

// ts_linear_state is in cb while one piece is searched.
struct ts_linear_state {
	unsigned int len;
	const void *data;
};

static LIST_HEAD(ts_ops);
static DEFINE_SPINLOCK(ts_mod_lock);

static struct ts_ops *lookup_ts_algo(const char *name)
{
	struct ts_ops *o;

	list_for_each_entry(o, &ts_ops, list)
		if (!strcmp(name, o->name))
			return o;
	return NULL;
}

// textsearch_register fails with -EEXIST if there is an algorithm of that name.
int textsearch_register(struct ts_ops *ops)
{
	int err = 0;

	if (!ops->name || !ops->find || !ops->init || !ops->get_pattern || !ops->get_pattern_len)
		return -EINVAL;
	spin_lock(&ts_mod_lock);
	if (lookup_ts_algo(ops->name))
		err = -EEXIST;
	else
		list_add_tail_rcu(&ops->list, &ts_ops);
	spin_unlock(&ts_mod_lock);
	return err;
}
EXPORT_SYMBOL(textsearch_register);

int textsearch_unregister(struct ts_ops *ops)
{
	struct ts_ops *o;
	int err = -ENOENT;

	spin_lock(&ts_mod_lock);
	list_for_each_entry(o, &ts_ops, list) {
		if (o == ops) {
			list_del_rcu(&o->list);
			err = 0;
			break;
		}
	}
	spin_unlock(&ts_mod_lock);
	return err;
}
EXPORT_SYMBOL(textsearch_unregister);

// textsearch_prepare returns a search for a pattern, or ERR_PTR: -ENOENT if there is no
// such algorithm, -EINVAL for an empty pattern.
struct ts_config *textsearch_prepare(const char *algo, const void *pattern, unsigned int len, gfp_t gfp, int flags)
{
	struct ts_config *conf;
	struct ts_ops *ops;

	if (!len)
		return ERR_PTR(-EINVAL);
	spin_lock(&ts_mod_lock);
	ops = lookup_ts_algo(algo);
	if (ops && !try_module_get(ops->owner))
		ops = NULL;
	spin_unlock(&ts_mod_lock);
	if (!ops)
		return ERR_PTR(-ENOENT);
	conf = ops->init(pattern, len, gfp, flags);
	if (IS_ERR(conf))
		module_put(ops->owner);
	else
		conf->ops = ops;
	return conf;
}
EXPORT_SYMBOL(textsearch_prepare);

void textsearch_destroy(struct ts_config *conf)
{
	if (conf->ops) {
		if (conf->ops->destroy)
			conf->ops->destroy(conf);
		module_put(conf->ops->owner);
	}
	kfree(conf);
}
EXPORT_SYMBOL(textsearch_destroy);

static unsigned int get_linear_data(unsigned int consumed, const u8 **dst, struct ts_config *conf, struct ts_state *state)
{
	struct ts_linear_state *st = (struct ts_linear_state *)state->cb;

	if (consumed >= st->len)
		return 0;
	*dst = (const u8 *)st->data + consumed;
	return st->len - consumed;
}

// textsearch_find_continuous returns where the pattern is in data, or UINT_MAX.
unsigned int textsearch_find_continuous(struct ts_config *conf, struct ts_state *state, const void *data, unsigned int len)
{
	struct ts_linear_state *st = (struct ts_linear_state *)state->cb;
	unsigned int at;

	conf->get_next_block = get_linear_data;
	state->offset = 0;
	st->data = data;
	st->len = len;
	at = conf->ops->find(conf, state);
	if (conf->finish)
		conf->finish(conf, state);
	return at;
}
EXPORT_SYMBOL(textsearch_find_continuous);
