// Parsing of options such as uid=%u.
#include <linux/types.h>
#include <linux/errno.h>
#include <linux/ctype.h>
#include <linux/string.h>
#include <linux/kstrtox.h>
#include <linux/slab.h>
#include <linux/parser.h>
#include <linux/export.h>

// match_arg reads the argument of a %-conversion: s, d, u, o or x.
static bool match_arg(char **s, char kind, substring_t *arg)
{
	static const unsigned int bases[] = { ['d'] = 10, ['u'] = 10, ['o'] = 8, ['x'] = 16 };
	char *end;

	arg->from = *s;
	if (kind == 's') {
		end = *s + strlen(*s);
	} else {
		if (kind == 'd')
			simple_strtol(*s, &end, bases[(u8)kind]);
		else
			simple_strtoul(*s, &end, bases[(u8)kind]);
	}
	arg->to = *s = end;
	return end != arg->from;
}

static bool match_one(char *s, const char *p, substring_t args[])
{
	int argc = 0;

	if (!p)
		return true;
	for (; *p; p++) {
		if (*p != '%') {
			if (*s++ != *p)
				return false;
			continue;
		}
		p++;
		if (*p == '%') {
			if (*s++ != '%')
				return false;
		} else if (!strchr("sduox", *p) || argc >= MAX_OPT_ARGS || !match_arg(&s, *p, &args[argc++])) {
			return false;
		}
	}
	return !*s;
}

// match_token returns the token of the first pattern that s matches as a whole.
int match_token(char *s, const struct match_token *table, substring_t args[])
{
	while (!match_one(s, table->pattern, args))
		table++;
	return table->token;
}
EXPORT_SYMBOL(match_token);

static noinline int match_number(substring_t *s, int *result, int base)
{
	char buf[16];

	if (match_strlcpy(buf, s, sizeof(buf)) >= sizeof(buf))
		return -ERANGE;
	return kstrtoint(buf, base, result);
}

int match_int(substring_t *s, int *result)
{
	return match_number(s, result, 0);
}
EXPORT_SYMBOL(match_int);

int match_octal(substring_t *s, int *result)
{
	return match_number(s, result, 8);
}
EXPORT_SYMBOL(match_octal);

int match_hex(substring_t *s, int *result)
{
	return match_number(s, result, 16);
}
EXPORT_SYMBOL(match_hex);

int match_u64(substring_t *s, u64 *result)
{
	char buf[24];

	if (match_strlcpy(buf, s, sizeof(buf)) >= sizeof(buf))
		return -ERANGE;
	return kstrtoull(buf, 0, result);
}
EXPORT_SYMBOL(match_u64);

// match_strlcpy returns the length of the whole argument.
noinline size_t match_strlcpy(char *dest, const substring_t *src, size_t size)
{
	size_t len = src->to - src->from, n = len < size ? len : size - 1;

	if (size) {
		memcpy(dest, src->from, n);
		dest[n] = 0;
	}
	return len;
}
EXPORT_SYMBOL(match_strlcpy);

char *match_strdup(const substring_t *s)
{
	return kstrndup(s->from, s->to - s->from, GFP_KERNEL);
}
EXPORT_SYMBOL(match_strdup);

// match_wildcard reports whether the whole of str matches a pattern with * and ?.
bool match_wildcard(const char *pattern, const char *str)
{
	const char *after_star = NULL, *from = NULL; // where to go on when what follows the last * does not match

	while (*str) {
		if (*pattern == '*') {
			after_star = ++pattern;
			from = str;
		} else if (*pattern == '?' || *pattern == *str) {
			pattern++;
			str++;
		} else if (after_star) {
			pattern = after_star;
			str = ++from;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}
EXPORT_SYMBOL(match_wildcard);
