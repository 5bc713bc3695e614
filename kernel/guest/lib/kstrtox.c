// Strict parsing of integers: the kstrto* functions refuse text after the number,
// except for a newline, and numbers that do not fit.
#include <linux/types.h>
#include <linux/errno.h>
#include <linux/ctype.h>
#include <linux/string.h>
#include <linux/kstrtox.h>
#include <linux/uaccess.h>
#include <linux/export.h>

// _parse_integer_fixup_radix determines the base if it is 0 (0x: 16, 0: 8, else 10),
// and skips 0x for base 16.
noinline const char *_parse_integer_fixup_radix(const char *s, unsigned int *base)
{
	bool hex = s[0] == '0' && tolower(s[1]) == 'x' && isxdigit(s[2]);

	if (!*base)
		*base = hex ? 16 : s[0] == '0' ? 8 : 10;
	if (*base == 16 && s[0] == '0' && tolower(s[1]) == 'x')
		s += 2;
	return s;
}

static unsigned int digit_value(char c)
{
	if (isdigit(c))
		return c - '0';
	c = tolower(c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 255;
}

// _parse_integer_limit reads at most max_chars digits and returns their number, with
// KSTRTOX_OVERFLOW set if the value does not fit into 64 bits.
noinline unsigned int _parse_integer_limit(const char *s, unsigned int base, unsigned long long *p, size_t max_chars)
{
	unsigned long long value = 0;
	unsigned int n = 0, overflow = 0, d;

	for (; n < max_chars && (d = digit_value(s[n])) < base; n++) {
		unsigned long long times;

		if (__builtin_mul_overflow(value, (unsigned long long)base, &times) ||
		    __builtin_add_overflow(times, (unsigned long long)d, &times))
			overflow = KSTRTOX_OVERFLOW;
		value = value * base + d;
	}
	*p = value;
	return n | overflow;
}

noinline unsigned int _parse_integer(const char *s, unsigned int base, unsigned long long *p)
{
	return _parse_integer_limit(s, base, p, 0x7fffffff);
}

static int _kstrtoull(const char *s, unsigned int base, unsigned long long *res)
{
	unsigned long long value;
	unsigned int n;

	s = _parse_integer_fixup_radix(s, &base);
	n = _parse_integer(s, base, &value);
	if (n & KSTRTOX_OVERFLOW)
		return -ERANGE;
	if (!n)
		return -EINVAL;
	s += n;
	if (*s == '\n')
		s++;
	if (*s)
		return -EINVAL;
	*res = value;
	return 0;
}

noinline int kstrtoull(const char *s, unsigned int base, unsigned long long *res)
{
	if (*s == '+')
		s++;
	return _kstrtoull(s, base, res);
}
EXPORT_SYMBOL(kstrtoull);

noinline int kstrtoll(const char *s, unsigned int base, long long *res)
{
	unsigned long long value;
	bool negative = *s == '-';
	int err = negative ? _kstrtoull(s + 1, base, &value) : kstrtoull(s, base, &value);

	if (err)
		return err;
	if (value > (unsigned long long)(negative ? 1ULL << 63 : (1ULL << 63) - 1))
		return -ERANGE;
	*res = negative ? -value : value;
	return 0;
}
EXPORT_SYMBOL(kstrtoll);

int _kstrtoul(const char *s, unsigned int base, unsigned long *res)
{
	unsigned long long value;
	int err = kstrtoull(s, base, &value);

	if (!err)
		*res = value;
	return err;
}
EXPORT_SYMBOL(_kstrtoul);

int _kstrtol(const char *s, unsigned int base, long *res)
{
	long long value;
	int err = kstrtoll(s, base, &value);

	if (!err)
		*res = value;
	return err;
}
EXPORT_SYMBOL(_kstrtol);

// NARROW defines kstrto<what> by the 64-bit parser, with -ERANGE if the value does
// not fit.
#define NARROW(name, type, wide, parse)					\
noinline int name(const char *s, unsigned int base, type *res)		\
{									\
	wide value;							\
	int err = parse(s, base, &value);				\
									\
	if (err)							\
		return err;						\
	if (value != (type)value)					\
		return -ERANGE;						\
	*res = value;							\
	return 0;							\
}									\
EXPORT_SYMBOL(name)

NARROW(kstrtouint, unsigned int, unsigned long long, kstrtoull);
NARROW(kstrtoint, int, long long, kstrtoll);
NARROW(kstrtou16, u16, unsigned long long, kstrtoull);
NARROW(kstrtos16, s16, long long, kstrtoll);
NARROW(kstrtou8, u8, unsigned long long, kstrtoull);
NARROW(kstrtos8, s8, long long, kstrtoll);

// kstrtobool accepts y, 1, n, 0, on and off in either case, by their first letters.
int kstrtobool(const char *s, bool *res)
{
	char c, d;

	if (!s)
		return -EINVAL;
	c = tolower(s[0]);
	d = c ? tolower(s[1]) : 0;
	if (c == 'y' || c == '1' || (c == 'o' && d == 'n'))
		*res = true;
	else if (c == 'n' || c == '0' || (c == 'o' && d == 'f'))
		*res = false;
	else
		return -EINVAL;
	return 0;
}
EXPORT_SYMBOL(kstrtobool);

static int number_from_user(char *buf, size_t size, const char *s, size_t count)
{
	if (count > size - 1)
		count = size - 1;
	if (copy_from_user(buf, s, count))
		return -EFAULT;
	buf[count] = 0;
	return 0;
}

int kstrtobool_from_user(const char *s, size_t count, bool *res)
{
	char buf[4];
	int err = number_from_user(buf, sizeof(buf), s, count);

	return err ? err : kstrtobool(buf, res);
}
EXPORT_SYMBOL(kstrtobool_from_user);

int kstrtouint_from_user(const char *s, size_t count, unsigned int base, unsigned int *res)
{
	char buf[1 + 32 + 1 + 1];
	int err = number_from_user(buf, sizeof(buf), s, count);

	return err ? err : kstrtouint(buf, base, res);
}
EXPORT_SYMBOL(kstrtouint_from_user);

int kstrtoint_from_user(const char *s, size_t count, unsigned int base, int *res)
{
	char buf[1 + 32 + 1 + 1];
	int err = number_from_user(buf, sizeof(buf), s, count);

	return err ? err : kstrtoint(buf, base, res);
}
EXPORT_SYMBOL(kstrtoint_from_user);

noinline int kstrtoll_from_user(const char *s, size_t count, unsigned int base, long long *res)
{
	char buf[1 + 64 + 1 + 1];
	int err = number_from_user(buf, sizeof(buf), s, count);

	return err ? err : kstrtoll(buf, base, res);
}
EXPORT_SYMBOL(kstrtoll_from_user);

int kstrtol_from_user(const char *s, size_t count, unsigned int base, long *res)
{
	return kstrtoll_from_user(s, count, base, (long long *)res);
}
EXPORT_SYMBOL(kstrtol_from_user);

int kstrtoul_from_user(const char *s, size_t count, unsigned int base, unsigned long *res)
{
	return kstrtoull_from_user(s, count, base, (unsigned long long *)res);
}
EXPORT_SYMBOL(kstrtoul_from_user);

noinline int kstrtoull_from_user(const char *s, size_t count, unsigned int base, unsigned long long *res)
{
	char buf[1 + 64 + 1 + 1];
	int err = number_from_user(buf, sizeof(buf), s, count);

	return err ? err : kstrtoull(buf, base, res);
}
EXPORT_SYMBOL(kstrtoull_from_user);
