// The kernel command line and module parameters: numbers, lists, sizes, name=value.
#include <linux/types.h>
#include <linux/ctype.h>
#include <linux/string.h>
#include <linux/kstrtox.h>
#include <linux/cmdline.h>
#include <linux/export.h>

// get_option reads a number from *str. It returns 0 if there is none, 1 if nothing
// follows, 2 if a comma follows, 3 if a hyphen follows (a range).
noinline int get_option(char **str, int *pint)
{
	char *at = *str;
	int value;

	if (!at || !*at)
		return 0;
	value = *at == '-' ? -(int)simple_strtoull(++at, str, 0) : (int)simple_strtoull(at, str, 0);
	if (pint)
		*pint = value;
	if (at == *str)
		return 0;
	if (**str == ',') {
		(*str)++;
		return 2;
	}
	return **str == '-' ? 3 : 1;
}
EXPORT_SYMBOL(get_option);

// get_options reads a comma-separated list with ranges into ints[1...] and sets
// ints[0] to their number. If nints is 0 it only counts. It returns the rest of the
// string.
char *get_options(const char *str, int nints, int *ints)
{
	bool count_only = !nints;
	int i = 1, first, kind, last;

	while (count_only || i < nints) {
		kind = get_option((char **)&str, &first);
		if (!kind)
			break;
		if (!count_only)
			ints[i] = first;
		if (kind == 3) {
			str++;
			last = simple_strtol(str, NULL, 0);
			if (last < first)
				break;
			for (; first < last && (count_only || i < nints); i++) {
				if (!count_only)
					ints[i] = first;
				first++;
			}
			// The next iteration reads the range's end.
			continue;
		}
		i++;
		if (kind == 1)
			break;
	}
	ints[0] = i - 1;
	return (char *)str;
}
EXPORT_SYMBOL(get_options);

// memparse reads a number with an optional binary suffix K, M, G, T, P or E.
unsigned long long memparse(const char *s, char **end)
{
	static const char suffixes[] = "kmgtpe";
	char *stop;
	unsigned long long value = simple_strtoull(s, &stop, 0);
	const char *p = *stop ? strchr(suffixes, tolower(*stop)) : NULL;

	if (p) {
		value <<= 10 * (p - suffixes + 1);
		stop++;
	}
	if (end)
		*end = stop;
	return value;
}
EXPORT_SYMBOL(memparse);

// parse_option_str reports whether option is one of the comma-separated words of s.
bool parse_option_str(const char *s, const char *option)
{
	size_t n = strlen(option);

	while (*s) {
		if (!strncmp(s, option, n) && (!s[n] || s[n] == ','))
			return true;
		s = strchrnul(s, ',');
		if (*s)
			s++;
	}
	return false;
}

// next_arg takes one word from a command line, splits it at the first =, removes
// quotes, and returns the rest.
char *next_arg(char *args, char **param, char **val)
{
	bool quoted = *args == '"', in_quote = quoted;
	size_t i, equals = 0;
	char *next;

	if (quoted)
		args++;
	for (i = 0; args[i] && (in_quote || !isspace(args[i])); i++) {
		if (!equals && args[i] == '=')
			equals = i;
		if (args[i] == '"')
			in_quote = !in_quote;
	}
	next = args + i;
	if (*next)
		*next++ = 0;
	*param = args;
	*val = NULL;
	if (equals) {
		args[equals] = 0;
		*val = args + equals + 1;
		if (**val == '"') {
			(*val)++;
			if (args[i - 1] == '"')
				args[i - 1] = 0;
		}
	}
	if (quoted && i && args[i - 1] == '"')
		args[i - 1] = 0;
	return skip_spaces(next);
}
EXPORT_SYMBOL(next_arg);
