// Further string functions: trimming, matching, human-readable sizes, escapes.
#include <linux/kernel.h>
#include <linux/types.h>
#include <linux/errno.h>
#include <linux/ctype.h>
#include <linux/string.h>
#include <linux/hex.h>
#include <linux/sprintf.h>
#include <linux/string_helpers.h>
#include <linux/export.h>

char *skip_spaces(const char *s)
{
	while (isspace(*s))
		s++;
	return (char *)s;
}
EXPORT_SYMBOL(skip_spaces);

// strim removes white space at the end of s and skips it at the beginning.
char *strim(char *s)
{
	size_t n = strlen(s);

	while (n && isspace(s[n - 1]))
		n--;
	s[n] = 0;
	return skip_spaces(s);
}
EXPORT_SYMBOL(strim);

// sysfs_streq reports whether a and b are equal except for a newline at the end.
bool sysfs_streq(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	if (*a == *b)
		return true;
	if (!*a)
		return b[0] == '\n' && !b[1];
	return !*b && a[0] == '\n' && !a[1];
}
EXPORT_SYMBOL(sysfs_streq);

// match_string returns the index of string in array (n entries, or up to a NULL), or
// -EINVAL.
int match_string(const char *const *array, size_t n, const char *string)
{
	size_t i;

	for (i = 0; i < n && array[i]; i++) {
		if (!strcmp(array[i], string))
			return i;
	}
	return -EINVAL;
}
EXPORT_SYMBOL(match_string);

int __sysfs_match_string(const char *const *array, size_t n, const char *string)
{
	size_t i;

	for (i = 0; i < n && array[i]; i++) {
		if (sysfs_streq(array[i], string))
			return i;
	}
	return -EINVAL;
}
EXPORT_SYMBOL(__sysfs_match_string);

// strreplace replaces the character from by to, and returns the end of s.
char *strreplace(char *s, char from, char to)
{
	for (; *s; s++) {
		if (*s == from)
			*s = to;
	}
	return s;
}
EXPORT_SYMBOL(strreplace);

void memcpy_and_pad(void *dest, size_t dest_len, const void *src, size_t count, int pad)
{
	size_t n = count < dest_len ? count : dest_len;

	memcpy(dest, src, n);
	memset((char *)dest + n, pad, dest_len - n);
}
EXPORT_SYMBOL(memcpy_and_pad);

// string_upper and string_lower copy src with its NUL.
void string_upper(char *dst, const char *src)
{
	do {
		*dst++ = toupper(*src);
	} while (*src++);
}

void string_lower(char *dst, const char *src)
{
	do {
		*dst++ = tolower(*src);
	} while (*src++);
}

// scale divides a product of two 64-bit numbers by divisor until it is less than
// divisor. It returns the number of steps and the last remainder.
static u32 scale(unsigned __int128 *value, u32 divisor, u32 *rem)
{
	u32 steps = 0;

	while (*value >= divisor) {
		u64 high = *value >> 64, low = *value;
		u64 mid = (high % divisor) << 32 | low >> 32;
		u64 last = (mid % divisor) << 32 | (u32)low;

		*rem = last % divisor;
		*value = (unsigned __int128)(high / divisor) << 64;
		*value += (unsigned __int128)(mid / divisor) << 32;
		*value += last / divisor;
		steps++;
	}
	return steps;
}

// string_get_size writes size blocks of blk_size bytes with three significant
// digits, rounded half up, and a unit: 1.50 MiB, 1.57 MB.
void string_get_size(u64 size, u64 blk_size, enum string_size_units units, char *buf, int len)
{
	static const char *const units_10[] = { "B", "kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB" };
	static const char *const units_2[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB" };
	static const u32 half_of_last[] = { 500, 50, 5 };
	u32 divisor = units == STRING_UNITS_10 ? 1000 : 1024;
	unsigned __int128 total = (unsigned __int128)size * blk_size;
	u32 rem = 0, step = scale(&total, divisor, &rem);
	u32 whole = total, digits = whole >= 100 || !whole ? 0 : whole >= 10 ? 1 : 2;
	u32 thousandths = rem * 1000 / divisor + half_of_last[digits];
	const char *unit = step >= 9 ? "UNK" : units == STRING_UNITS_10 ? units_10[step] : units_2[step];
	char fraction[8] = "";

	if (thousandths >= 1000) {
		thousandths -= 1000;
		whole++;
	}
	if (digits) {
		snprintf(fraction, sizeof(fraction), ".%03u", thousandths);
		fraction[digits + 1] = 0;
	}
	snprintf(buf, len, "%u%s %s", whole, fraction, unit);
}
EXPORT_SYMBOL(string_get_size);

static bool unescape_char(char **src, char *out, const char *from, const char *to)
{
	const char *p = strchr(from, **src);

	if (!p || !*p)
		return false;
	*out = to[p - from];
	(*src)++;
	return true;
}

static bool unescape_octal(char **src, char *out)
{
	char *s = *src;
	int value = 0, n = 0;

	while (n < 3 && s[n] >= '0' && s[n] <= '7' && value * 8 + s[n] - '0' <= 255)
		value = value * 8 + s[n++] - '0';
	if (!n)
		return false;
	*out = value;
	*src += n;
	return true;
}

static bool unescape_hex(char **src, char *out)
{
	char *s = *src;
	int high, low;

	if (s[0] != 'x' || (high = hex_to_bin(s[1])) < 0)
		return false;
	low = hex_to_bin(s[2]);
	*out = low < 0 ? high : high * 16 + low;
	*src += low < 0 ? 2 : 3;
	return true;
}

// string_unescape replaces the escapes selected by flags, writes at most size bytes
// with the NUL (any number if size is 0), and returns the length.
int string_unescape(char *src, char *dst, size_t size, unsigned int flags)
{
	char *out = dst;

	while (*src && --size) {
		if (*src == '\\' && src[1] && size > 1) {
			src++;
			size--;
			if ((flags & UNESCAPE_SPACE && unescape_char(&src, out, "nrtvf", "\n\r\t\v\f")) ||
			    (flags & UNESCAPE_OCTAL && unescape_octal(&src, out)) ||
			    (flags & UNESCAPE_HEX && unescape_hex(&src, out)) ||
			    (flags & UNESCAPE_SPECIAL && unescape_char(&src, out, "\"\\ae", "\"\\\a\033"))) {
				out++;
				continue;
			}
			*out++ = '\\';
		}
		*out++ = *src++;
	}
	*out = 0;
	return out - dst;
}
EXPORT_SYMBOL(string_unescape);

// A sink counts the bytes written to it, and stores those that fit.
struct sink {
	char *at, *end;
};

static void put(struct sink *s, char c)
{
	if (s->at < s->end)
		*s->at = c;
	s->at++;
}

static bool escape_by_table(struct sink *s, u8 c, const char *from, const char *to)
{
	const char *p = c ? strchr(from, c) : NULL;

	if (!p)
		return false;
	put(s, '\\');
	put(s, to[p - from]);
	return true;
}

static void escape_octal(struct sink *s, u8 c)
{
	put(s, '\\');
	put(s, '0' + (c >> 6));
	put(s, '0' + (c >> 3 & 7));
	put(s, '0' + (c & 7));
}

static noinline void escape_hex(struct sink *s, u8 c)
{
	put(s, '\\');
	put(s, 'x');
	put(s, hex_asc[c >> 4]);
	put(s, hex_asc[c & 15]);
}

// wanted reports whether c must be escaped. Characters in only always are, unless
// flags restrict this (with ESCAPE_APPEND they are escaped in addition to those
// selected by flags).
static bool wanted(u8 c, unsigned int flags, const char *only)
{
	bool in_only = only && *only && c && strchr(only, c);
	bool printable = isascii(c) && isprint(c);

	if (flags & ESCAPE_APPEND && in_only)
		return true;
	if (!(flags & ESCAPE_APPEND) && only && *only && !in_only)
		return false;
	if (flags & ESCAPE_NAP && printable)
		return false;
	if (flags & ESCAPE_NP && isprint(c))
		return false;
	if (flags & ESCAPE_NA && isascii(c))
		return false;
	return true;
}

static void escape_one(struct sink *s, u8 c, unsigned int flags)
{
	if (flags & ESCAPE_SPACE && escape_by_table(s, c, "\n\r\t\v\f", "nrtvf"))
		return;
	if (flags & ESCAPE_SPECIAL && escape_by_table(s, c, "\\\a\033\"", "\\ae\""))
		return;
	if (flags & ESCAPE_NULL && !c) {
		put(s, '\\');
		put(s, '0');
		return;
	}
	if (flags & ESCAPE_OCTAL)
		escape_octal(s, c);
	else if (flags & ESCAPE_HEX)
		escape_hex(s, c);
	else
		put(s, c);
}

// string_escape_mem escapes isz bytes into dst, without a NUL, and returns the full
// length, which may be more than osz.
int string_escape_mem(const char *src, size_t isz, char *dst, size_t osz, unsigned int flags, const char *only)
{
	struct sink s = { dst, dst + osz };
	size_t i;

	for (i = 0; i < isz; i++) {
		if (wanted(src[i], flags, only))
			escape_one(&s, src[i], flags);
		else
			put(&s, src[i]);
	}
	return s.at - dst;
}
EXPORT_SYMBOL(string_escape_mem);

// fortify_panic kills a task that is about to write or read past the end of an
// object.
void fortify_panic(const char *name)
{
	pr_emerg("detected buffer overflow in %s\n", name);
	BUG();
}
EXPORT_SYMBOL(fortify_panic);
