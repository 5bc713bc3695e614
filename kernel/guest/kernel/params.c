/* params.c: the kernel_param_ops of each type, for module_param and similar macros.
 * */
#include <linux/kernel.h>
#include <linux/cmdline.h>
#include <linux/ctype.h>
#include <linux/kstrtox.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/string.h>

/* Serializes changes of parameters. A set function may sleep. */
static DEFINE_MUTEX(param_lock);

/* Strings allocated by param_set_charp; others belong to the module. */
struct charp_copy {
	struct list_head list;
	char text[];
};
static LIST_HEAD(charp_copies);
static DEFINE_SPINLOCK(charp_lock);

static char *copy_charp(const char *val)
{
	size_t size = strlen(val) + 1;
	struct charp_copy *c = kmalloc(sizeof(*c) + size, GFP_KERNEL);

	if (!c)
		return NULL;
	memcpy(c->text, val, size);
	spin_lock(&charp_lock);
	list_add(&c->list, &charp_copies);
	spin_unlock(&charp_lock);
	return c->text;
}

static void free_charp(char *text)
{
	struct charp_copy *c, *found = NULL;

	spin_lock(&charp_lock);
	list_for_each_entry(c, &charp_copies, list) {
		if (c->text == text) {
			found = c;
			list_del(&c->list);
			break;
		}
	}
	spin_unlock(&charp_lock);
	kfree(found);
}

/* In names, - and _ are the same. */
noinline bool parameq(const char *a, const char *b)
{
	for (; *a || *b; a++, b++) {
		char x = *a == '-' ? '_' : *a, y = *b == '-' ? '_' : *b;

		if (x != y)
			return false;
	}
	return true;
}

void kernel_param_lock(struct module *mod)
{
	mutex_lock(&param_lock);
}
EXPORT_SYMBOL(kernel_param_lock);

void kernel_param_unlock(struct module *mod)
{
	mutex_unlock(&param_lock);
}
EXPORT_SYMBOL(kernel_param_unlock);

static int set_param(const struct kernel_param *kp, const char *val)
{
	int err;

	if (!val && !(kp->ops->flags & KERNEL_PARAM_OPS_FL_NOARG))
		return -EINVAL;
	mutex_lock(&param_lock);
	if (kp->flags & KERNEL_PARAM_FL_UNSAFE)
		pr_notice("Setting dangerous option %s - tainting kernel\n", kp->name);
	err = kp->ops->set(val, kp);
	mutex_unlock(&param_lock);
	return err;
}

static int parse_one(char *param, char *val, const char *doing, const struct kernel_param *params,
		     unsigned int num, s16 min_level, s16 max_level, void *arg, parse_unknown_fn unknown)
{
	unsigned int i;

	for (i = 0; i < num; i++) {
		if (!parameq(param, params[i].name))
			continue;
		if (params[i].level < min_level || params[i].level > max_level)
			return 0;
		return set_param(&params[i], val);
	}
	return unknown ? unknown(param, val, doing, arg) : -ENOENT;
}

/* Parses args, which it modifies. Returns NULL, the text after "--", or an errno. */
char *parse_args(const char *doing, char *args, const struct kernel_param *params, unsigned int num,
		 s16 min_level, s16 max_level, void *arg, parse_unknown_fn unknown)
{
	char *param, *val, *err = NULL;

	args = skip_spaces(args);
	while (*args) {
		int ret;

		args = next_arg(args, &param, &val);
		if (!val && !strcmp(param, "--"))
			return err ?: args;
		ret = parse_one(param, val, doing, params, num, min_level, max_level, arg, unknown);
		if (!ret)
			continue;
		if (ret == -ENOENT)
			pr_err("%s: Unknown parameter `%s'\n", doing, param);
		else if (ret == -ENOSPC)
			pr_err("%s: `%s' too large for parameter `%s'\n", doing, val ?: "", param);
		else
			pr_err("%s: `%s' invalid for parameter `%s'\n", doing, val ?: "", param);
		err = ERR_PTR(ret);
	}
	return err;
}

/* Frees memory allocated by set functions. */
void destroy_params(const struct kernel_param *params, unsigned int num)
{
	unsigned int i;

	for (i = 0; i < num; i++)
		if (params[i].ops->free)
			params[i].ops->free(params[i].arg);
}

#define STANDARD_PARAM(name, type, format, parse) \
	int param_set_##name(const char *val, const struct kernel_param *kp) \
	{ \
		return parse(val, 0, (type *)kp->arg); \
	} \
	EXPORT_SYMBOL(param_set_##name); \
	int param_get_##name(char *buffer, const struct kernel_param *kp) \
	{ \
		return scnprintf(buffer, PAGE_SIZE, format "\n", *(type *)kp->arg); \
	} \
	EXPORT_SYMBOL(param_get_##name); \
	const struct kernel_param_ops param_ops_##name = { \
		.set = param_set_##name, .get = param_get_##name, \
	}; \
	EXPORT_SYMBOL(param_ops_##name)

STANDARD_PARAM(byte, unsigned char, "%hhu", kstrtou8);
STANDARD_PARAM(short, short, "%hi", kstrtos16);
STANDARD_PARAM(ushort, unsigned short, "%hu", kstrtou16);
STANDARD_PARAM(int, int, "%i", kstrtoint);
STANDARD_PARAM(uint, unsigned int, "%u", kstrtouint);
STANDARD_PARAM(long, long, "%li", kstrtol);
STANDARD_PARAM(ulong, unsigned long, "%lu", kstrtoul);
STANDARD_PARAM(ullong, unsigned long long, "%llu", kstrtoull);
STANDARD_PARAM(hexint, unsigned int, "%#08x", kstrtouint);

int param_set_uint_minmax(const char *val, const struct kernel_param *kp, unsigned int min, unsigned int max)
{
	unsigned int num;
	int err;

	if (!val)
		return -EINVAL;
	err = kstrtouint(val, 0, &num);
	if (err)
		return err;
	if (num < min || num > max)
		return -EINVAL;
	*(unsigned int *)kp->arg = num;
	return 0;
}
EXPORT_SYMBOL_GPL(param_set_uint_minmax);

int param_set_charp(const char *val, const struct kernel_param *kp)
{
	char *copy;

	if (strlen(val) > 1024) {
		pr_err("%s: string parameter too long\n", kp->name);
		return -ENOSPC;
	}
	copy = copy_charp(val);
	if (!copy)
		return -ENOMEM;
	free_charp(*(char **)kp->arg);
	*(char **)kp->arg = copy;
	return 0;
}
EXPORT_SYMBOL(param_set_charp);

int param_get_charp(char *buffer, const struct kernel_param *kp)
{
	return scnprintf(buffer, PAGE_SIZE, "%s\n", *(char **)kp->arg);
}
EXPORT_SYMBOL(param_get_charp);

void param_free_charp(void *arg)
{
	free_charp(*(char **)arg);
}
EXPORT_SYMBOL(param_free_charp);

const struct kernel_param_ops param_ops_charp = {
	.set = param_set_charp, .get = param_get_charp, .free = param_free_charp,
};
EXPORT_SYMBOL(param_ops_charp);

int param_set_bool(const char *val, const struct kernel_param *kp)
{
	return kstrtobool(val ?: "1", kp->arg);
}
EXPORT_SYMBOL(param_set_bool);

int param_get_bool(char *buffer, const struct kernel_param *kp)
{
	return sprintf(buffer, "%c\n", *(bool *)kp->arg ? 'Y' : 'N');
}
EXPORT_SYMBOL(param_get_bool);

const struct kernel_param_ops param_ops_bool = {
	.flags = KERNEL_PARAM_OPS_FL_NOARG, .set = param_set_bool, .get = param_get_bool,
};
EXPORT_SYMBOL(param_ops_bool);

/* A bool that can only be switched on. */
int param_set_bool_enable_only(const char *val, const struct kernel_param *kp)
{
	bool v;
	int err = kstrtobool(val ?: "1", &v);

	if (err)
		return err;
	if (!v && *(bool *)kp->arg)
		return -EROFS;
	*(bool *)kp->arg |= v;
	return 0;
}
EXPORT_SYMBOL_GPL(param_set_bool_enable_only);

const struct kernel_param_ops param_ops_bool_enable_only = {
	.flags = KERNEL_PARAM_OPS_FL_NOARG, .set = param_set_bool_enable_only, .get = param_get_bool,
};
EXPORT_SYMBOL_GPL(param_ops_bool_enable_only);

int param_set_invbool(const char *val, const struct kernel_param *kp)
{
	bool v;
	int err = kstrtobool(val, &v);

	if (!err)
		*(bool *)kp->arg = !v;
	return err;
}
EXPORT_SYMBOL(param_set_invbool);

int param_get_invbool(char *buffer, const struct kernel_param *kp)
{
	return sprintf(buffer, "%c\n", *(bool *)kp->arg ? 'N' : 'Y');
}
EXPORT_SYMBOL(param_get_invbool);

const struct kernel_param_ops param_ops_invbool = {
	.set = param_set_invbool, .get = param_get_invbool,
};
EXPORT_SYMBOL(param_ops_invbool);

/* An int that is used as a bool. */
int param_set_bint(const char *val, const struct kernel_param *kp)
{
	bool v;
	int err = kstrtobool(val ?: "1", &v);

	if (!err)
		*(int *)kp->arg = v;
	return err;
}
EXPORT_SYMBOL(param_set_bint);

const struct kernel_param_ops param_ops_bint = {
	.flags = KERNEL_PARAM_OPS_FL_NOARG, .set = param_set_bint, .get = param_get_int,
};
EXPORT_SYMBOL(param_ops_bint);

int param_set_copystring(const char *val, const struct kernel_param *kp)
{
	const struct kparam_string *s = kp->str;

	if (strnlen(val, s->maxlen) == s->maxlen) {
		pr_err("%s: string doesn't fit in %u chars.\n", kp->name, s->maxlen - 1);
		return -ENOSPC;
	}
	strcpy(s->string, val);
	return 0;
}
EXPORT_SYMBOL(param_set_copystring);

int param_get_string(char *buffer, const struct kernel_param *kp)
{
	return scnprintf(buffer, PAGE_SIZE, "%s\n", kp->str->string);
}
EXPORT_SYMBOL(param_get_string);

const struct kernel_param_ops param_ops_string = {
	.set = param_set_copystring, .get = param_get_string,
};
EXPORT_SYMBOL(param_ops_string);

/* The parameter of element i. */
#define ARRAY_ELEMENT(kp, i) { \
	.name = (kp)->name, .mod = (kp)->mod, .ops = (kp)->arr->ops, .perm = (kp)->perm, .level = (kp)->level, \
	.arg = (char *)(kp)->arr->elem + (kp)->arr->elemsize * (i), \
}

static int param_array_set(const char *val, const struct kernel_param *kp)
{
	const struct kparam_array *arr = kp->arr;
	unsigned int unused, *num = arr->num ?: &unused;
	char *word = (char *)val, last;

	*num = 0;
	do {
		const struct kernel_param element = ARRAY_ELEMENT(kp, *num);
		char *end = word + strcspn(word, ",");
		int err;

		if (*num == arr->max) {
			pr_err("%s: can only take %i arguments\n", kp->name, arr->max);
			return -EINVAL;
		}
		last = *end;
		*end = 0;
		err = arr->ops->set(word, &element);
		if (err)
			return err;
		word = end + 1;
		(*num)++;
	} while (last == ',');
	return 0;
}

static int param_array_get(char *buffer, const struct kernel_param *kp)
{
	const struct kparam_array *arr = kp->arr;
	unsigned int i, n = arr->num ? *arr->num : arr->max;
	int len = 0;

	for (i = 0; i < n; i++) {
		const struct kernel_param element = ARRAY_ELEMENT(kp, i);
		int got;

		if (i)
			buffer[len - 1] = ',';	/* instead of the newline */
		got = arr->ops->get(buffer + len, &element);
		if (got < 0)
			return got;
		len += got;
	}
	buffer[len] = 0;
	return len;
}

static void param_array_free(void *arg)
{
	const struct kparam_array *arr = arg;
	unsigned int i, n = arr->num ? *arr->num : arr->max;

	if (arr->ops->free)
		for (i = 0; i < n; i++)
			arr->ops->free((char *)arr->elem + arr->elemsize * i);
}

const struct kernel_param_ops param_array_ops = {
	.set = param_array_set, .get = param_array_get, .free = param_array_free,
};
EXPORT_SYMBOL(param_array_ops);
