// What reads and writes the values of files below /proc/sys that modules register. Writes at
// a position other than 0 are ignored, as kernel.sysctl_writes_strict 1 has it.
#include <linux/ctype.h>
#include <linux/export.h>
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/sprintf.h>
#include <linux/string.h>
#include <linux/sysctl.h>

const int sysctl_vals[] = { 0, 1, 2, 3, 4, 100, 200, 1000, 3000, INT_MAX, 65535, -1 };
EXPORT_SYMBOL(sysctl_vals);
const unsigned long sysctl_long_vals[] = { 0, 1, LONG_MAX };
EXPORT_SYMBOL(sysctl_long_vals);

// A longer word is no number.
#define WORD_MAX 21

// A call is what a handler has been asked.
struct call {
	CTL_TABLE *table;
	bool write;
	char *buffer;
	size_t *lenp;
	loff_t *ppos;
};

#define CALL { table, write, buffer, lenp, ppos }

// A number is the magnitude and the sign of a value.
struct number {
	unsigned long val;
	bool neg;
};

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n';
}

// parse_magnitude reads digits of base 8, 10 or 16, by their prefix, and returns what follows
// them, or NULL when the number is too large.
static const char *parse_magnitude(const char *s, unsigned long *val)
{
	unsigned int base = 10, digit;

	if (*s == '0') {
		base = 8;
		if (tolower(s[1]) == 'x' && isxdigit(s[2])) {
			base = 16;
			s += 2;
		}
	}
	for (*val = 0; isxdigit(*s); s++) {
		digit = isdigit(*s) ? *s - '0' : tolower(*s) - 'a' + 10;
		if (digit >= base)
			break;
		if (*val > (ULONG_MAX - digit) / base)
			return NULL;
		*val = *val * base + digit;
	}
	return s;
}

// next_number reads the word at *p, of which *left bytes are left.
static int next_number(char **p, size_t *left, struct number *n)
{
	char word[WORD_MAX + 1];
	const char *s = word, *end;
	size_t len = min_t(size_t, *left, WORD_MAX);

	memcpy(word, *p, len);
	word[len] = 0;
	n->neg = *s == '-' && *left > 1;
	s += n->neg;
	if (!isdigit(*s))
		return -EINVAL;
	end = parse_magnitude(s, &n->val);
	if (!end)
		return -EINVAL;
	len = end - word;
	if (len == WORD_MAX || (len < *left && !is_space(*end)))
		return -EINVAL;
	*p += len;
	*left -= len;
	return 0;
}

static void skip_space(char **p, size_t *left)
{
	for (; *left && isspace(**p); ++*p)
		--*left;
}

static void put(char **p, size_t *left, const char *text)
{
	size_t len = min(strlen(text), *left);

	memcpy(*p, text, len);
	*p += len;
	*left -= len;
}

static void put_number(char **p, size_t *left, const struct number *n)
{
	char text[WORD_MAX + 1];

	snprintf(text, sizeof(text), "%s%lu", n->neg ? "-" : "", n->val);
	put(p, left, text);
}

// A convert_fn stores a number as element i of the table's data, or loads it from there.
typedef int convert_fn(const struct ctl_table *table, int i, bool write, struct number *n);

// begins reports whether a handler has something to do; if not, it has ended the call.
static bool begins(const struct call *c)
{
	if (!c->table->data || !c->table->maxlen || !*c->lenp || (*c->ppos && !c->write)) {
		*c->lenp = 0;
		return false;
	}
	if (c->write && *c->ppos) {
		*c->ppos += *c->lenp;
		return false;
	}
	return true;
}

static int do_vec(const struct call *c, size_t size, convert_fn *convert)
{
	size_t count = c->table->maxlen / size, i, left;
	char *p = c->buffer;
	struct number n;
	int err = 0;

	if (!begins(c))
		return 0;
	left = c->write ? min_t(size_t, *c->lenp, PAGE_SIZE - 1) : *c->lenp;
	for (i = 0; left && i < count; i++) {
		if (c->write) {
			skip_space(&p, &left);
			if (!left)
				break;
			err = next_number(&p, &left, &n);
			if (!err)
				err = convert(c->table, i, true, &n);
		} else {
			err = convert(c->table, i, false, &n);
			if (!err && i)
				put(&p, &left, "\t");
			if (!err)
				put_number(&p, &left, &n);
		}
		if (err)
			break;
	}
	if (!c->write && i && !err)
		put(&p, &left, "\n");
	if (c->write && !err)
		skip_space(&p, &left);
	if (c->write && !i)
		return err ? err : -EINVAL;
	*c->lenp -= left;
	*c->ppos += *c->lenp;
	return err;
}

static int *int_at(const struct ctl_table *table, int i)
{
	return (int *)table->data + i;
}

static void set_number(struct number *n, long v)
{
	n->neg = v < 0;
	n->val = n->neg ? -(unsigned long)v : v;
}

static int get_int(const struct number *n, int *v)
{
	if (n->val > (unsigned long)INT_MAX + n->neg)
		return -EINVAL;
	*v = n->neg ? -n->val : n->val;
	return 0;
}

static int convert_int(const struct ctl_table *table, int i, bool write, struct number *n)
{
	if (write)
		return get_int(n, int_at(table, i));
	set_number(n, *int_at(table, i));
	return 0;
}

int proc_dointvec(CTL_TABLE *table, int write, void *buffer, size_t *lenp, loff_t *ppos)
{
	const struct call c = CALL;

	return do_vec(&c, sizeof(int), convert_int);
}
EXPORT_SYMBOL(proc_dointvec);

static int convert_minmax(const struct ctl_table *table, int i, bool write, struct number *n)
{
	const int *least = table->extra1, *most = table->extra2;
	int v;

	if (!write)
		return convert_int(table, i, write, n);
	if (get_int(n, &v) || (least && v < *least) || (most && v > *most))
		return -EINVAL;
	*int_at(table, i) = v;
	return 0;
}

int proc_dointvec_minmax(CTL_TABLE *table, int write, void *buffer, size_t *lenp, loff_t *ppos)
{
	const struct call c = CALL;

	return do_vec(&c, sizeof(int), convert_minmax);
}
EXPORT_SYMBOL(proc_dointvec_minmax);

static int convert_bool(const struct ctl_table *table, int i, bool write, struct number *n)
{
	bool *b = (bool *)int_at(table, i);

	if (write)
		*b = n->val;
	else
		set_number(n, *b);
	return 0;
}

int proc_dobool(CTL_TABLE *table, int write, void *buffer, size_t *lenp, loff_t *ppos)
{
	const struct call c = CALL;

	return do_vec(&c, sizeof(int), convert_bool);
}
EXPORT_SYMBOL(proc_dobool);

static int convert_seconds(const struct ctl_table *table, int i, bool write, struct number *n)
{
	int *v = int_at(table, i);

	if (!write) {
		set_number(n, *v / HZ);
		return 0;
	}
	if (n->val > INT_MAX / HZ)
		return -EINVAL;
	*v = n->neg ? -(long)n->val * HZ : n->val * HZ;
	return 0;
}

int proc_dointvec_jiffies(CTL_TABLE *table, int write, void *buffer, size_t *lenp, loff_t *ppos)
{
	const struct call c = CALL;

	return do_vec(&c, sizeof(int), convert_seconds);
}
EXPORT_SYMBOL(proc_dointvec_jiffies);

static int convert_clock(const struct ctl_table *table, int i, bool write, struct number *n)
{
	int *v = int_at(table, i);

	if (write) {
		*v = clock_t_to_jiffies(n->neg ? -n->val : n->val);
		return 0;
	}
	set_number(n, *v);
	n->val = jiffies_to_clock_t(n->val);
	return 0;
}

int proc_dointvec_userhz_jiffies(CTL_TABLE *table, int write, void *buffer, size_t *lenp, loff_t *ppos)
{
	const struct call c = CALL;

	return do_vec(&c, sizeof(int), convert_clock);
}
EXPORT_SYMBOL(proc_dointvec_userhz_jiffies);

static int convert_msecs(const struct ctl_table *table, int i, bool write, struct number *n)
{
	int *v = int_at(table, i);
	unsigned long j;

	if (!write) {
		set_number(n, *v);
		n->val = jiffies_to_msecs(n->val);
		return 0;
	}
	j = msecs_to_jiffies(n->neg ? -n->val : n->val);
	if (j > INT_MAX)
		return -EINVAL;
	*v = j;
	return 0;
}

int proc_dointvec_ms_jiffies(CTL_TABLE *table, int write, void *buffer, size_t *lenp, loff_t *ppos)
{
	const struct call c = CALL;

	return do_vec(&c, sizeof(int), convert_msecs);
}
EXPORT_SYMBOL(proc_dointvec_ms_jiffies);

static int store_long(const struct ctl_table *table, int i, const struct number *n)
{
	const unsigned long *least = table->extra1, *most = table->extra2;

	if (n->neg || (least && n->val < *least) || (most && n->val > *most))
		return -EINVAL;
	((unsigned long *)table->data)[i] = n->val;
	return 0;
}

static int convert_long(const struct ctl_table *table, int i, bool write, struct number *n)
{
	if (write)
		return store_long(table, i, n);
	*n = (struct number){ ((unsigned long *)table->data)[i] };
	return 0;
}

int proc_doulongvec_minmax(CTL_TABLE *table, int write, void *buffer, size_t *lenp, loff_t *ppos)
{
	const struct call c = CALL;

	return do_vec(&c, sizeof(long), convert_long);
}
EXPORT_SYMBOL(proc_doulongvec_minmax);

static int convert_long_msecs(const struct ctl_table *table, int i, bool write, struct number *n)
{
	if (!write) {
		*n = (struct number){ ((unsigned long *)table->data)[i] * 1000 / HZ };
		return 0;
	}
	n->val = n->val * HZ / 1000;
	return store_long(table, i, n);
}

int proc_doulongvec_ms_jiffies_minmax(CTL_TABLE *table, int write, void *buffer, size_t *lenp, loff_t *ppos)
{
	const struct call c = CALL;

	return do_vec(&c, sizeof(long), convert_long_msecs);
}
EXPORT_SYMBOL(proc_doulongvec_ms_jiffies_minmax);

// do_uint moves one value, which is from least to most. A write leaves the position.
static int do_uint(const struct call *c, unsigned int *v, unsigned int least, unsigned int most)
{
	char *p = c->buffer;
	size_t left;
	struct number n = {};

	if (!begins(c))
		return 0;
	left = *c->lenp;
	if (!c->write) {
		n.val = *v;
		put_number(&p, &left, &n);
		put(&p, &left, "\n");
		*c->lenp -= left;
		*c->ppos += *c->lenp;
		return 0;
	}
	left = min_t(size_t, left, PAGE_SIZE - 1);
	skip_space(&p, &left);
	if (!left || next_number(&p, &left, &n) || n.neg || n.val < least || n.val > most)
		return -EINVAL;
	*v = n.val;
	return 0;
}

static int uint_handler(const struct call *c, const unsigned int *least, const unsigned int *most)
{
	if (c->table->maxlen && c->table->maxlen / sizeof(int) != 1) {
		*c->lenp = 0;
		return -EINVAL;
	}
	return do_uint(c, c->table->data, least ? *least : 0, most ? *most : UINT_MAX);
}

int proc_douintvec(CTL_TABLE *table, int write, void *buffer, size_t *lenp, loff_t *ppos)
{
	const struct call c = CALL;

	return uint_handler(&c, NULL, NULL);
}
EXPORT_SYMBOL(proc_douintvec);

int proc_douintvec_minmax(CTL_TABLE *table, int write, void *buffer, size_t *lenp, loff_t *ppos)
{
	const struct call c = CALL;

	return uint_handler(&c, table->extra1, table->extra2);
}
EXPORT_SYMBOL(proc_douintvec_minmax);

int proc_dou8vec_minmax(CTL_TABLE *table, int write, void *buffer, size_t *lenp, loff_t *ppos)
{
	const struct call c = CALL;
	const unsigned int *least = table->extra1, *most = table->extra2;
	unsigned int v;
	int err;

	if (table->maxlen != sizeof(u8))
		return -EINVAL;
	v = table->data ? *(u8 *)table->data : 0;
	err = do_uint(&c, &v, least ? *least : 0, most ? min(*most, 255U) : 255);
	if (!err && write && table->data)
		*(u8 *)table->data = v;
	return err;
}
EXPORT_SYMBOL(proc_dou8vec_minmax);

// A write to a text continues it at the position, but leaves no hole.
static void write_text(const struct call *c)
{
	char *text = c->table->data;
	size_t size = c->table->maxlen, at = *c->ppos, i;

	if (at > min(strlen(text), size - 1))
		return;
	*c->ppos += *c->lenp;
	for (i = 0; i < *c->lenp && at < size - 1 && c->buffer[i] && c->buffer[i] != '\n'; i++)
		text[at++] = c->buffer[i];
	text[at] = 0;
}

static void read_text(const struct call *c)
{
	const char *text = c->table->data;
	size_t len = strnlen(text, c->table->maxlen), left = *c->lenp;
	char *p = c->buffer;

	if (*c->ppos > len) {
		*c->lenp = 0;
		return;
	}
	len = min(len - (size_t)*c->ppos, left);
	memcpy(p, text + *c->ppos, len);
	p += len;
	left -= len;
	put(&p, &left, "\n");
	*c->lenp -= left;
	*c->ppos += *c->lenp;
}

int proc_dostring(CTL_TABLE *table, int write, void *buffer, size_t *lenp, loff_t *ppos)
{
	const struct call c = CALL;

	if (!table->data || !table->maxlen || !*lenp)
		*lenp = 0;
	else if (write)
		write_text(&c);
	else
		read_text(&c);
	return 0;
}
EXPORT_SYMBOL(proc_dostring);

bool sysctl_check_array(const struct ctl_table *t)
{
	if (t->proc_handler == proc_douintvec || t->proc_handler == proc_douintvec_minmax)
		return t->maxlen != sizeof(unsigned int);
	return t->proc_handler == proc_dou8vec_minmax && t->maxlen != sizeof(u8);
}

bool sysctl_has_data(const struct ctl_table *t)
{
	static proc_handler *const with[] = {
		proc_dostring, proc_dobool, proc_dointvec, proc_douintvec, proc_dointvec_minmax, proc_douintvec_minmax, proc_dou8vec_minmax,
		proc_dointvec_jiffies, proc_dointvec_userhz_jiffies, proc_dointvec_ms_jiffies, proc_doulongvec_minmax, proc_doulongvec_ms_jiffies_minmax,
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(with); i++)
		if (t->proc_handler == with[i])
			return true;
	return false;
}
