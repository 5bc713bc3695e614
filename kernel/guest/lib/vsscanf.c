// Numbers at the beginning of a text (simple_strto*), and scanf for the kernel.
#include <linux/types.h>
#include <linux/ctype.h>
#include <linux/string.h>
#include <linux/export.h>
#include <linux/sprintf.h>
#include <linux/kstrtox.h>

static unsigned long long strntoull(const char *s, size_t max, char **end, unsigned int base)
{
	unsigned long long value = 0;
	const char *digits = _parse_integer_fixup_radix(s, &base);
	size_t skipped = digits - s;
	unsigned int n;

	if (skipped < max) {
		n = _parse_integer_limit(digits, base, &value, max - skipped);
		digits += n & ~KSTRTOX_OVERFLOW;
	} else {
		digits = s + max;
	}
	if (end)
		*end = (char *)digits;
	return value;
}

noinline unsigned long long simple_strtoull(const char *s, char **end, unsigned int base)
{
	return strntoull(s, 0x7fffffff, end, base);
}
EXPORT_SYMBOL(simple_strtoull);

unsigned long simple_strtoul(const char *s, char **end, unsigned int base)
{
	return simple_strtoull(s, end, base);
}
EXPORT_SYMBOL(simple_strtoul);

long long simple_strtoll(const char *s, char **end, unsigned int base)
{
	if (*s == '-')
		return -simple_strtoull(s + 1, end, base);
	return simple_strtoull(s, end, base);
}
EXPORT_SYMBOL(simple_strtoll);

long simple_strtol(const char *s, char **end, unsigned int base)
{
	return simple_strtoll(s, end, base);
}
EXPORT_SYMBOL(simple_strtol);

// A conversion of scanf: what was given between its % and its letter.
struct conversion {
	int width;   // -1 if none was given
	char length; // 'H' hh, 'h', 0, 'l', 'L' ll, 'z'
};

static void store(void *to, unsigned long long v, char length)
{
	switch (length) {
	case 'H': *(u8 *)to = v; break;
	case 'h': *(u16 *)to = v; break;
	case 0: *(u32 *)to = v; break;
	default: *(u64 *)to = v; break;
	}
}

// read_conversion reads width and length. It returns false if the width is 0.
static bool read_conversion(const char **fmt, struct conversion *c)
{
	char l;

	c->width = -1;
	if (isdigit(**fmt))
		for (c->width = 0; isdigit(**fmt); ++*fmt)
			c->width = c->width * 10 + **fmt - '0';
	l = **fmt;
	c->length = 0;
	if (l == 'h' || l == 'l' || l == 'L' || l == 'z') {
		c->length = l;
		if (*++*fmt == l && (l == 'h' || l == 'l')) {
			c->length = l == 'h' ? 'H' : 'L';
			++*fmt;
		}
	}
	return c->width;
}

// scan_number stores a number. It returns false if there is none.
static bool scan_number(const char **s, const struct conversion *c, unsigned int base, bool sign, void *to)
{
	const char *at = *s;
	size_t max = c->width > 0 ? (size_t)c->width : 0x7fffffff;
	bool negative = sign && *at == '-';
	unsigned long long v;
	char *end;

	if (negative && max-- == 1)
		return false;
	at += negative;
	if (base == 16 ? !isxdigit(*at) : !isdigit(*at) || (base == 8 && *at > '7'))
		return false;
	v = strntoull(at, max, &end, base);
	store(to, negative ? -v : v, c->length);
	*s = end;
	return true;
}

// scan_set copies characters of the set that begins at *fmt, and moves that past it. It
// returns false if the set needs a width, is empty or does not end, or none is there.
static bool scan_set(const char **fmt, const char **s, int width, char *to)
{
	bool set[256] = { false }, negate = **fmt == '^';
	const char *first = *fmt += negate;

	while (**fmt && **fmt != ']')
		set[(u8)*(*fmt)++] = true;
	if (width < 0 || !**fmt || *fmt == first)
		return false;
	++*fmt;
	if (!**s || set[(u8)**s] == negate)
		return false;
	while (width-- && **s && set[(u8)**s] != negate)
		*to++ = *(*s)++;
	*to = 0;
	return true;
}

// skip_conversion moves past %*..., and past the word that it stands for. It returns
// false for a set.
static bool skip_conversion(const char **fmt, const char **s)
{
	while (**fmt && !isspace(**fmt) && **fmt != '%')
		if (*(*fmt)++ == '[')
			return false;
	while (**s && !isspace(**s))
		++*s;
	return true;
}

static void scan_chars(const char **s, int width, char *to)
{
	int n = width < 0 ? 1 : width;

	while (n-- && **s)
		*to++ = *(*s)++;
}

static void scan_word(const char **s, int width, char *to)
{
	int n = width < 0 ? 0x7fff : width;

	*s = skip_spaces(*s);
	while (n-- && **s && !isspace(**s))
		*to++ = *(*s)++;
	*to = 0;
}

// scan_one stores what one conversion reads. It returns false if that is not there.
static bool scan_one(const char **fmt, const char **s, const struct conversion *c, void *to)
{
	char letter = *(*fmt)++;

	switch (letter) {
	case 'c':
		scan_chars(s, c->width, to);
		return true;
	case 's':
		scan_word(s, c->width, to);
		return true;
	case '[':
		return scan_set(fmt, s, c->width, to);
	}
	*s = skip_spaces(*s);
	return scan_number(s, c, letter == 'i' ? 0 : letter == 'o' ? 8 : letter == 'd' || letter == 'u' ? 10 : 16,
			   letter == 'd' || letter == 'i', to);
}

// vsscanf returns the number of conversions stored.
noinline int vsscanf(const char *s, const char *fmt, va_list args)
{
	const char *start = s;
	struct conversion c;
	int done = 0;

	while (*fmt) {
		if (isspace(*fmt)) {
			fmt = skip_spaces(fmt);
			s = skip_spaces(s);
		} else if (*fmt != '%') {
			if (*s++ != *fmt++)
				return done;
		} else if (*++fmt == '*') {
			if (!*s || !skip_conversion(&fmt, &s))
				return done;
		} else if (!read_conversion(&fmt, &c)) {
			return done;
		} else if (*fmt == 'n') {
			*va_arg(args, int *) = s - start;
			fmt++;
		} else if (!*s) {
			return done;
		} else if (*fmt == '%') {
			if (*s++ != *fmt++)
				return done;
		} else if (!*fmt || !strchr("cs[oxXidu", *fmt) || !scan_one(&fmt, &s, &c, va_arg(args, void *))) {
			return done;
		} else {
			done++;
		}
	}
	return done;
}
EXPORT_SYMBOL(vsscanf);

int sscanf(const char *s, const char *fmt, ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsscanf(s, fmt, args);
	va_end(args);
	return n;
}
EXPORT_SYMBOL(sscanf);
