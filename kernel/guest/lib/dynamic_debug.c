// pr_debug and dev_dbg of modules: the list of their places in dynamic_debug/control, the
// queries that switch them on, and what they print. Queries and messages are 6.1's. The
// kernel itself has no such places.
#define pr_fmt(fmt) "dyndbg: " fmt
#include <linux/dynamic_debug.h>
#include <linux/ctype.h>
#include <linux/debugfs.h>
#include <linux/device.h>
#include <linux/dev_printk.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/kstrtox.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/parser.h>
#include <linux/preempt.h>
#include <linux/printk.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/sprintf.h>
#include <linux/string.h>
#include <linux/string_helpers.h>
#include <linux/uaccess.h>
#include <linux/export.h>

#define PREFIX_SIZE 64
#define MAX_WORDS 9
#define MAX_QUERY (PAGE_SIZE - 1)

// A ddebug_table is the places of one module.
struct ddebug_table {
	struct list_head link;
	const struct module *mod;
	struct _ddebug *places;
	unsigned int n;
};

static DEFINE_MUTEX(ddebug_lock);
static LIST_HEAD(ddebug_tables);

static const struct {
	unsigned flag : 8;
	char letter;
} flag_letters[] = {
	{ _DPRINTK_FLAGS_PRINT, 'p' },
	{ _DPRINTK_FLAGS_INCL_MODNAME, 'm' },
	{ _DPRINTK_FLAGS_INCL_FUNCNAME, 'f' },
	{ _DPRINTK_FLAGS_INCL_LINENO, 'l' },
	{ _DPRINTK_FLAGS_INCL_TID, 't' },
	{ _DPRINTK_FLAGS_NONE, '_' },
};

// A ddebug_query says which places are meant; what is NULL or 0 fits all.
struct ddebug_query {
	const char *filename, *module, *function, *format, *class;
	unsigned int first, last;
};

struct ddebug_change {
	unsigned int keep, set; // new flags are old & keep | set
};

// base_name returns the last part of a path.
static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool place_fits(const struct _ddebug *d, const struct ddebug_query *q)
{
#ifdef _DPRINTK_CLASS_DFLT
	// A place without a class is not meant by a query with one. Modules' classes have no names here.
	if (q->class || d->class_id != _DPRINTK_CLASS_DFLT)
		return false;
#endif
	if (q->filename && !match_wildcard(q->filename, d->filename) && !match_wildcard(q->filename, base_name(d->filename)))
		return false;
	if (q->function && !match_wildcard(q->function, d->function))
		return false;
	if (q->format && *q->format == '^') {
		if (strncmp(d->format, q->format + 1, strlen(q->format + 1)))
			return false;
	} else if (q->format && !strstr(d->format, q->format)) {
		return false;
	}
	return (!q->first || d->lineno >= q->first) && (!q->last || d->lineno <= q->last);
}

static void change_place(struct _ddebug *d, unsigned int flags)
{
	struct static_key *key = &d->key.dd_key_true.key;

	if ((d->flags ^ flags) & _DPRINTK_FLAGS_PRINT) {
		if (flags & _DPRINTK_FLAGS_PRINT)
			static_key_enable(key);
		else
			static_key_disable(key);
	}
	d->flags = flags;
}

// ddebug_change returns how many places the query means and the change alters.
static int ddebug_change(const struct ddebug_query *q, const struct ddebug_change *c)
{
	struct ddebug_table *t;
	unsigned int i, flags;
	int found = 0;

	mutex_lock(&ddebug_lock);
	list_for_each_entry(t, &ddebug_tables, link) {
		if (q->module && !match_wildcard(q->module, t->mod->name))
			continue;
		for (i = 0; i < t->n; i++) {
			if (!place_fits(&t->places[i], q))
				continue;
			found++;
			flags = (t->places[i].flags & c->keep) | c->set;
			if (flags != t->places[i].flags)
				change_place(&t->places[i], flags);
		}
	}
	mutex_unlock(&ddebug_lock);
	return found;
}

// ddebug_tokenize splits a query into words, which may be quoted, up to a comment.
static int ddebug_tokenize(char *buf, char *words[])
{
	int n = 0;

	for (;;) {
		char *end;

		buf = skip_spaces(buf);
		if (!*buf || *buf == '#')
			return n;
		if (*buf == '"' || *buf == '\'') {
			int quote = *buf++;

			for (end = buf; *end && *end != quote; end++)
				;
			if (!*end) {
				pr_err("unclosed quote: %s\n", buf);
				return -EINVAL;
			}
		} else {
			for (end = buf; *end && !isspace(*end); end++)
				;
		}
		if (n == MAX_WORDS) {
			pr_err("too many words, legal max <=%d\n", MAX_WORDS);
			return -EINVAL;
		}
		if (*end)
			*end++ = 0;
		words[n++] = buf;
		buf = end;
	}
}

// A line of 0 is any.
static int parse_lineno(const char *text, unsigned int *line)
{
	*line = 0;
	if (!*text)
		return 0;
	if (kstrtouint(text, 10, line)) {
		pr_err("bad line-number: %s\n", text);
		return -EINVAL;
	}
	return 0;
}

static int parse_linerange(struct ddebug_query *q, char *first)
{
	char *last = strchr(first, '-');

	if (q->first || q->last) {
		pr_err("match-spec: line used 2x\n");
		return -EINVAL;
	}
	if (last)
		*last++ = 0;
	if (parse_lineno(first, &q->first))
		return -EINVAL;
	if (!last) {
		q->last = q->first;
		return 0;
	}
	if (parse_lineno(last, &q->last))
		return -EINVAL;
	if (!q->last)
		q->last = UINT_MAX;
	if (q->last < q->first) {
		pr_err("last-line:%d < 1st-line:%d\n", q->last, q->first);
		return -EINVAL;
	}
	return 0;
}

static int check_set(const char **member, char *value, const char *name)
{
	int ret = 0;

	if (*member) {
		ret = -EINVAL;
		pr_err("match-spec:%s val:%s overridden by %s\n", name, *member, value);
	}
	*member = value;
	return ret;
}

// A file may be followed by a colon and a function or lines.
static int parse_file(struct ddebug_query *q, char *arg)
{
	char *more;

	if (check_set(&q->filename, arg, "file"))
		return -EINVAL;
	more = strchr(arg, ':');
	if (!more)
		return 0;
	*more++ = 0;
	if (isalpha(*more) || *more == '*' || *more == '?')
		return check_set(&q->function, more, "func");
	return parse_linerange(q, more);
}

static int parse_word(struct ddebug_query *q, const char *key, char *arg)
{
	if (!strcmp(key, "func"))
		return check_set(&q->function, arg, "func");
	if (!strcmp(key, "file"))
		return parse_file(q, arg);
	if (!strcmp(key, "module"))
		return check_set(&q->module, arg, "module");
	if (!strcmp(key, "format")) {
		string_unescape(arg, arg, 0, UNESCAPE_SPACE | UNESCAPE_OCTAL | UNESCAPE_SPECIAL);
		return check_set(&q->format, arg, "format");
	}
	if (!strcmp(key, "line"))
		return parse_linerange(q, arg);
#ifdef _DPRINTK_CLASS_DFLT
	if (!strcmp(key, "class"))
		return check_set(&q->class, arg, "class");
#endif
	pr_err("unknown keyword \"%s\"\n", key);
	return -EINVAL;
}

static int ddebug_parse_query(char *words[], int n, struct ddebug_query *q, const char *modname)
{
	int i, ret;

	if (n % 2) {
		pr_err("expecting pairs of match-spec <value>\n");
		return -EINVAL;
	}
	q->module = modname;
	for (i = 0; i < n; i += 2) {
		ret = parse_word(q, words[i], words[i + 1]);
		if (ret)
			return ret;
	}
	return 0;
}

static int ddebug_parse_flags(const char *str, struct ddebug_change *c)
{
	unsigned int flags = 0;
	int op = *str++, i;

	if (op != '+' && op != '-' && op != '=') {
		pr_err("bad flag-op %c, at start of %s\n", op, str - 1);
		return -EINVAL;
	}
	for (; *str; str++) {
		for (i = 0; i < ARRAY_SIZE(flag_letters) && flag_letters[i].letter != *str; i++)
			;
		if (i == ARRAY_SIZE(flag_letters)) {
			pr_err("unknown flag '%c'\n", *str);
			return -EINVAL;
		}
		flags |= flag_letters[i].flag;
	}
	c->keep = op == '+' ? ~0U : op == '-' ? ~flags : 0;
	c->set = op == '-' ? 0 : flags;
	return 0;
}

static int ddebug_exec_query(char *text, const char *modname)
{
	struct ddebug_query q = {};
	struct ddebug_change c;
	char *words[MAX_WORDS];
	int n = ddebug_tokenize(text, words);

	if (n <= 0) {
		pr_err("tokenize failed\n");
		return -EINVAL;
	}
	if (ddebug_parse_flags(words[n - 1], &c)) {
		pr_err("flags parse failed\n");
		return -EINVAL;
	}
	if (ddebug_parse_query(words, n - 1, &q, modname)) {
		pr_err("query parse failed\n");
		return -EINVAL;
	}
	return ddebug_change(&q, &c);
}

// ddebug_exec_queries executes queries that semicolons or newlines separate, also after one
// that fails, and returns the last error or 0.
static int ddebug_exec_queries(char *text, const char *modname)
{
	int ret = 0;

	while (text) {
		char *query = skip_spaces(strsep(&text, ";\n"));
		int rc;

		if (!*query || *query == '#')
			continue;
		rc = ddebug_exec_query(query, modname);
		if (rc < 0)
			ret = rc;
	}
	return ret;
}

// ddebug_dyndbg_module_param_cb executes dyndbg= of insmod, and returns -ENOENT for other
// parameters.
int ddebug_dyndbg_module_param_cb(char *param, char *val, const char *modname)
{
	char all[] = "+p", *dot = strchr(param, '.');

	if (dot) {
		*dot = 0;
		modname = param;
		param = dot + 1;
	}
	if (strcmp(param, "dyndbg"))
		return -ENOENT;
	ddebug_exec_queries(val ? val : all, modname);
	return 0;
}

int ddebug_add_module(struct _ddebug *places, unsigned int n, struct module *mod)
{
	struct ddebug_table *t;

	if (!n)
		return 0;
	t = kzalloc(sizeof(*t), GFP_KERNEL);
	if (!t) {
		pr_err("error adding module: %s\n", mod->name);
		return -ENOMEM;
	}
	t->mod = mod;
	t->places = places;
	t->n = n;
	mutex_lock(&ddebug_lock);
#if GUEST_LINUX >= 601
	list_add_tail(&t->link, &ddebug_tables);
#else
	list_add(&t->link, &ddebug_tables);
#endif
	mutex_unlock(&ddebug_lock);
	return 0;
}

void ddebug_remove_module(const struct module *mod)
{
	struct ddebug_table *t, *next;

	mutex_lock(&ddebug_lock);
	list_for_each_entry_safe(t, next, &ddebug_tables, link)
		if (t->mod == mod) {
			list_del(&t->link);
			kfree(t);
		}
	mutex_unlock(&ddebug_lock);
}

// A ddebug_iter is where a reader of control is.
struct ddebug_iter {
	struct ddebug_table *table;
	unsigned int index;
};

// nth returns the index of the place of a table that is listed as the nth: from 6.1 on the last of
// the section, which the compiler has put there first, is listed first.
static unsigned int nth(const struct ddebug_table *t, unsigned int n)
{
#if GUEST_LINUX >= 601 && !defined(KERNEL_4_15)
	return t->n - 1 - n;
#else
	return n;
#endif
}

// place_at returns the nth place, or NULL.
static struct _ddebug *place_at(struct ddebug_iter *iter, loff_t n)
{
	struct ddebug_table *t;

	list_for_each_entry(t, &ddebug_tables, link) {
		if (n < t->n) {
			iter->table = t;
			iter->index = n;
			return &t->places[nth(t, n)];
		}
		n -= t->n;
	}
	return NULL;
}

static void *ddebug_proc_start(struct seq_file *m, loff_t *pos)
{
	mutex_lock(&ddebug_lock);
	return *pos ? (void *)place_at(m->private, *pos - 1) : SEQ_START_TOKEN;
}

static void *ddebug_proc_next(struct seq_file *m, void *p, loff_t *pos)
{
	struct ddebug_iter *iter = m->private;

	++*pos;
	if (p == SEQ_START_TOKEN)
		return place_at(iter, 0);
	if (++iter->index < iter->table->n)
		return &iter->table->places[nth(iter->table, iter->index)];
	return place_at(iter, *pos - 1);
}

static void show_flags(struct seq_file *m, unsigned int flags)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(flag_letters); i++)
		if (flags ? flags & flag_letters[i].flag : !flag_letters[i].flag)
			seq_putc(m, flag_letters[i].letter);
}

// Before 6.0 a newline is written as \012, and quotes are escaped.
static void show_format(struct seq_file *m, const char *format)
{
#if GUEST_LINUX >= 601 && !defined(KERNEL_4_15)
	seq_escape_mem(m, format, strlen(format), ESCAPE_SPACE, "\t\r\n\"");
#else
	seq_escape_mem(m, format, strlen(format), ESCAPE_OCTAL, "\t\r\n\"");
#endif
}

static int ddebug_proc_show(struct seq_file *m, void *p)
{
	struct ddebug_iter *iter = m->private;
	struct _ddebug *d = p;

	if (p == SEQ_START_TOKEN) {
		seq_puts(m, "# filename:lineno [module]function flags format\n");
		return 0;
	}
	seq_printf(m, "%s:%u [%s]%s =", d->filename, d->lineno, iter->table->mod->name, d->function);
	show_flags(m, d->flags);
	seq_puts(m, " \"");
	show_format(m, d->format);
	seq_putc(m, '"');
#ifdef _DPRINTK_CLASS_DFLT
	if (d->class_id != _DPRINTK_CLASS_DFLT)
		seq_printf(m, " class unknown, _id:%d", d->class_id);
#endif
	seq_putc(m, '\n');
	return 0;
}

static void ddebug_proc_stop(struct seq_file *m, void *p)
{
	mutex_unlock(&ddebug_lock);
}

static const struct seq_operations ddebug_proc_seqops = {
	.start = ddebug_proc_start,
	.next = ddebug_proc_next,
	.show = ddebug_proc_show,
	.stop = ddebug_proc_stop,
};

static int ddebug_proc_open(struct inode *inode, struct file *file)
{
	return seq_open_private(file, &ddebug_proc_seqops, sizeof(struct ddebug_iter));
}

static ssize_t ddebug_proc_write(struct file *file, const char __user *ubuf, size_t len, loff_t *offp)
{
	char *text;
	int ret;

	if (!len)
		return 0;
	if (len > MAX_QUERY) {
		pr_warn("expected <%d bytes into control\n", (int)MAX_QUERY);
		return -E2BIG;
	}
	text = memdup_user_nul(ubuf, len);
	if (IS_ERR(text))
		return PTR_ERR(text);
	ret = ddebug_exec_queries(text, NULL);
	kfree(text);
	if (ret < 0)
		return ret;
	*offp += len;
	return len;
}

#ifndef KERNEL_2_6
static const struct file_operations ddebug_proc_fops = {
	.open = ddebug_proc_open,
	.read = seq_read,
	.llseek = seq_lseek,
	.release = seq_release_private,
	.write = ddebug_proc_write,
};

static int __init dynamic_debug_init_control(void)
{
	struct dentry *dir = debugfs_create_dir("dynamic_debug", NULL);

	debugfs_create_file("control", 0644, dir, NULL, &ddebug_proc_fops);
	return 0;
}
fs_initcall(dynamic_debug_init_control);
#endif

// prefix writes what a place's flags put before its text.
static const char *prefix(const struct _ddebug *d, char *buf)
{
	int n = 0;

	*buf = 0;
	if (d->flags & _DPRINTK_FLAGS_INCL_TID)
		n = in_interrupt() ? scnprintf(buf, PREFIX_SIZE, "<intr> ") : scnprintf(buf, PREFIX_SIZE, "[%d] ", current->pid);
	if (d->flags & _DPRINTK_FLAGS_INCL_MODNAME)
		n += scnprintf(buf + n, PREFIX_SIZE - n, "%s:", d->modname);
	if (d->flags & _DPRINTK_FLAGS_INCL_FUNCNAME)
		n += scnprintf(buf + n, PREFIX_SIZE - n, "%s:", d->function);
	if (d->flags & _DPRINTK_FLAGS_INCL_LINENO)
		n += scnprintf(buf + n, PREFIX_SIZE - n, "%d:", d->lineno);
	if (n && buf[n - 1] == ':')
		scnprintf(buf + n, PREFIX_SIZE - n, " ");
	return buf;
}

void __dynamic_pr_debug(struct _ddebug *descriptor, const char *fmt, ...)
{
	char buf[PREFIX_SIZE];
	va_list args;

	va_start(args, fmt);
	printk(KERN_DEBUG "%s%pV", prefix(descriptor, buf), &(struct va_format){ fmt, &args });
	va_end(args);
}
EXPORT_SYMBOL(__dynamic_pr_debug);

void __dynamic_dev_dbg(struct _ddebug *descriptor, const struct device *dev, const char *fmt, ...)
{
	struct va_format vaf;
	char buf[PREFIX_SIZE];
	va_list args;

	va_start(args, fmt);
	vaf = (struct va_format){ fmt, &args };
	if (dev)
		dev_printk_emit(7, dev, "%s%s %s: %pV", prefix(descriptor, buf), dev_driver_string(dev), dev_name(dev), &vaf);
	else
		printk(KERN_DEBUG "(NULL device *): %pV", &vaf);
	va_end(args);
}
EXPORT_SYMBOL(__dynamic_dev_dbg);
