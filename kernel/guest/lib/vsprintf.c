// printf for the kernel: vsnprintf with flags, widths, precisions and the %p
// extensions that the guest needs (%pS %ps %pB, %px, %pK, %pe, %pV,
// %*ph bytes, %*pb bits, %pM, %pI4, %pU, %pd), simple_strto* and sscanf.
#include <linux/types.h>
#include <linux/errno.h>
#include <linux/ctype.h>
#include <linux/string.h>
#include <linux/export.h>
#include <linux/hex.h>
#include <linux/sprintf.h>
#include <linux/find.h>
#include <linux/kstrtox.h>
#include <linux/siphash.h>
#include <linux/errname.h>
#include <linux/dcache.h>
#include <asm/traps.h>
#include <asm/host.h>

#define LEFT 1
#define PLUS 2
#define SPACE 4
#define ALT 8
#define ZERO 16
#define SIGNED 32
#define UPPER 64

// An out counts the characters written to it, and stores those that fit before end.
struct out {
	char *at, *end;
};

// A spec holds the flags, width, precision and length of a conversion.
struct spec {
	unsigned int flags, base;
	int width, precision; // -1 if there is no precision
	char length;          // 'H' hh, 'h', 0, 'l', 'L' ll, 'z', 't'
};

static void put(struct out *o, char c)
{
	if (o->at < o->end)
		*o->at = c;
	o->at++;
}

static void pad(struct out *o, char c, int n)
{
	while (n-- > 0)
		put(o, c);
}

// put_dec writes the decimal digits of value, least significant first, and returns
// their end.
static char *put_dec(char *buf, unsigned long long value)
{
	do {
		*buf++ = '0' + value % 10;
		value /= 10;
	} while (value);
	return buf;
}

static char *put_power_of_two(char *buf, unsigned long long value, unsigned int base, bool upper)
{
	const char *digits = upper ? hex_asc_upper : hex_asc;
	int shift = base == 16 ? 4 : 3;

	do {
		*buf++ = digits[value & (base - 1)];
		value >>= shift;
	} while (value);
	return buf;
}

static char sign_of(unsigned long long *value, unsigned int flags)
{
	if (!(flags & SIGNED))
		return 0;
	if ((long long)*value < 0) {
		*value = -*value;
		return '-';
	}
	return flags & PLUS ? '+' : flags & SPACE ? ' ' : 0;
}

static void number(struct out *o, unsigned long long value, const struct spec *spec)
{
	char digits[66], sign = sign_of(&value, spec->flags);
	bool zero = !value;
	char *end = spec->base == 10 ? put_dec(digits, value) :
		    put_power_of_two(digits, value, spec->base, spec->flags & UPPER);
	int n = end - digits, precision = spec->precision, prefix = 0, left;

	if (spec->flags & ALT && spec->base == 16)
		prefix = 2;
	else if (spec->flags & ALT && spec->base == 8 && !zero)
		prefix = 1;
	left = spec->width - (sign != 0) - prefix;
	if (precision < 0 && spec->flags & ZERO && !(spec->flags & LEFT))
		precision = left;
	if (precision < n)
		precision = n;
	left -= precision;
	if (!(spec->flags & LEFT))
		pad(o, ' ', left);
	if (sign)
		put(o, sign);
	if (prefix)
		put(o, '0');
	if (prefix == 2)
		put(o, spec->flags & UPPER ? 'X' : 'x');
	pad(o, '0', precision - n);
	while (n)
		put(o, digits[--n]);
	if (spec->flags & LEFT)
		pad(o, ' ', left);
}

static void text(struct out *o, const char *s, size_t n, const struct spec *spec)
{
	int left = spec->width - (int)n;

	if (!(spec->flags & LEFT))
		pad(o, ' ', left);
	while (n--)
		put(o, *s++);
	if (spec->flags & LEFT)
		pad(o, ' ', left);
}

static void string(struct out *o, const char *s, const struct spec *spec)
{
	if ((unsigned long)s < 4096)
		s = s ? "(efault)" : "(null)";
	text(o, s, strnlen(s, spec->precision < 0 ? ~0UL >> 1 : (size_t)spec->precision), spec);
}

static void pointer_digits(struct out *o, unsigned long value, struct spec spec)
{
	spec.base = 16;
	if (spec.width <= 0) {
		spec.width = 2 * sizeof(void *);
		spec.flags |= ZERO;
	}
	number(o, value, &spec);
}

// Before 4.15 %p shows the address.
#ifdef KERNEL_2_6
static void ptr_to_id(struct out *o, const void *p, struct spec spec)
{
	pointer_digits(o, (unsigned long)p, spec);
}
#else
// A plain %p shows a hash of the pointer. NULL and error pointers are shown as they
// are. The machine makes the key at boot, and uses it in the tracing files too.
static void ptr_to_id(struct out *o, const void *p, struct spec spec)
{
	const siphash_key_t *key = (const siphash_key_t *)(boot_params + BOOT_PTR_KEY);
	unsigned long value = (unsigned long)p;

#ifdef KERNEL_4_15
	value = (u32)siphash_1u64(value, key);
#else
	if (value && value < -4095UL)
		value = (u32)siphash_1u64(value, key);
#endif
	pointer_digits(o, value, spec);
}
#endif

// The symbol table is outside of the guest: the machine looks it up.
static void symbol_string(struct out *o, unsigned long addr, char kind, const struct spec *spec)
{
	char name[256];
	long n = hypercall4(HC_SYMBOL, addr, name, kind, sizeof(name));

	if (n < 0)
		n = 0;
	text(o, name, spec->precision >= 0 && spec->precision < n ? spec->precision : n, spec);
}

static void error_string(struct out *o, const void *p, const struct spec *spec)
{
	const char *name = errname((long)p);

	if (name)
		text(o, name, strlen(name), spec);
	else
		ptr_to_id(o, p, *spec);
}

static void hex_string(struct out *o, const u8 *p, const struct spec *spec, char separator)
{
	int i, n = spec->width <= 0 ? 1 : spec->width > 64 ? 64 : spec->width;

	for (i = 0; i < n; i++) {
		if (i && separator)
			put(o, separator);
		put(o, hex_asc[p[i] >> 4]);
		put(o, hex_asc[p[i] & 15]);
	}
}

static void ip4_string(struct out *o, const u8 *p)
{
	struct spec spec = { .base = 10, .precision = -1 };
	int i;

	for (i = 0; i < 4; i++) {
		if (i)
			put(o, '.');
		number(o, p[i], &spec);
	}
}

static void uuid_string(struct out *o, const u8 *p, char kind)
{
	static const u8 be[16] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
	static const u8 le[16] = { 3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15 };
	const u8 *order = kind == 'l' || kind == 'L' ? le : be;
	const char *digits = kind == 'B' || kind == 'L' ? hex_asc_upper : hex_asc;
	int i;

	for (i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			put(o, '-');
		put(o, digits[p[order[i]] >> 4]);
		put(o, digits[p[order[i]] & 15]);
	}
}

static void dentry_name(struct out *o, const struct dentry *d, const struct spec *spec)
{
	text(o, (const char *)d->d_name.name, d->d_name.len, spec);
}

static void format(struct out *o, const char *fmt, va_list args);

static void va_format(struct out *o, const struct va_format *vaf)
{
	va_list copy;

	va_copy(copy, *vaf->va);
	format(o, vaf->fmt, copy);
	va_end(copy);
}

// bitmap_string writes a bitmap of nbits bits: as hexadecimal numbers of 32 bits, the
// highest first, or as a list of bits and ranges of them.
static void bitmap_string(struct out *o, const unsigned long *bits, int nbits, bool list)
{
	static const struct spec plain = { .precision = -1 };
	char buf[32];
	int i, end, n;
	bool first = true;

	if (!list) {
		for (i = (nbits - 1) / 32; i >= 0 && nbits; i--, first = false) {
			int digits = ((nbits - i * 32 < 32 ? nbits - i * 32 : 32) + 3) / 4;
			u32 word = bits[i / 2] >> (i % 2 * 32);

			if (nbits - i * 32 < 32)
				word &= (1U << (nbits - i * 32)) - 1;
			n = snprintf(buf, sizeof(buf), "%s%0*x", first ? "" : ",", digits, word);
			text(o, buf, n, &plain);
		}
		return;
	}
	for (i = 0; i < nbits; i = end + 1) {
		i = _find_next_bit(bits, nbits, i);
		end = i >= nbits ? nbits : (int)_find_next_zero_bit(bits, nbits, i);
		if (i >= nbits)
			break;
		n = snprintf(buf, sizeof(buf), end - i == 1 ? "%s%d" : "%s%d-%d", first ? "" : ",", i, end - 1);
		text(o, buf, n, &plain);
		first = false;
	}
}

// pointer writes %p and its extension.
static void pointer(struct out *o, const char *fmt, const void *p, const struct spec *spec)
{
#if defined(KERNEL_2_6) || defined(KERNEL_4_15)
	if (!p && *fmt != 'K') {	/* whatever it is */
		struct spec wide = *spec;

#ifdef KERNEL_4_15
		if (!wide.width)
			wide.width = 2 * sizeof(void *);
#endif
		string(o, NULL, &wide);
		return;
	}
#endif
	switch (*fmt) {
	case 'S': case 's': case 'B':
		symbol_string(o, (unsigned long)p, *fmt, spec);
		break;
#if defined(KERNEL_2_6) || defined(KERNEL_4_15)
	case 'F': case 'f':	// function pointers, which are plain addresses on x86
		symbol_string(o, (unsigned long)p, *fmt == 'F' ? 'S' : 's', spec);
		break;
	case 'K':
#endif
	case 'x':
		pointer_digits(o, (unsigned long)p, *spec);
		break;
	case 'e':
		error_string(o, p, spec);
		break;
	case 'V':
		va_format(o, p);
		break;
	case 'd':
		dentry_name(o, p, spec);
		break;
	case 'M':
		hex_string(o, p, &(struct spec){ .width = 6 }, ':');
		break;
	case 'h':
		if (fmt[1] == 'C' || fmt[1] == 'D' || fmt[1] == 'N') {
			hex_string(o, p, spec, fmt[1] == 'C' ? ':' : fmt[1] == 'D' ? '-' : 0);
			break;
		}
		hex_string(o, p, spec, ' ');
		break;
	case 'b':
		bitmap_string(o, p, spec->width, fmt[1] == 'l');
		break;
	case 'I':
		ip4_string(o, p);
		break;
	case 'U':
		uuid_string(o, p, fmt[1]);
		break;
	default:	// also for %pK: kptr_restrict does not apply to the log
		ptr_to_id(o, p, *spec);
	}
}

static const char *read_flags(const char *fmt, struct spec *spec)
{
	for (;; fmt++) {
		switch (*fmt) {
		case '-': spec->flags |= LEFT; break;
		case '+': spec->flags |= PLUS; break;
		case ' ': spec->flags |= SPACE; break;
		case '#': spec->flags |= ALT; break;
		case '0': spec->flags |= ZERO; break;
		default: return fmt;
		}
	}
}

static int read_decimal(const char **fmt)
{
	int n = 0;

	while (isdigit(**fmt))
		n = n * 10 + *(*fmt)++ - '0';
	return n;
}

static const char *read_length(const char *fmt, struct spec *spec)
{
	char c = *fmt;

	spec->length = 0;
	if (c != 'h' && c != 'l' && c != 'L' && c != 'z' && c != 't')
		return fmt;
	spec->length = c;
	if (fmt[1] == c && (c == 'h' || c == 'l')) {
		spec->length = c == 'h' ? 'H' : 'L';
		return fmt + 2;
	}
	return fmt + 1;
}

// widen truncates an argument to the conversion's length.
static unsigned long long widen(unsigned long long v, const struct spec *spec)
{
	bool sign = spec->flags & SIGNED;

	switch (spec->length) {
	case 'H': return sign ? (unsigned long long)(s8)v : (u8)v;
	case 'h': return sign ? (unsigned long long)(s16)v : (u16)v;
	case 0: return sign ? (unsigned long long)(s32)v : (u32)v;
	}
	return v;
}

static void format(struct out *o, const char *fmt, va_list args)
{
	while (*fmt) {
		struct spec spec = { .base = 10, .precision = -1 };

		if (*fmt != '%') {
			put(o, *fmt++);
			continue;
		}
		fmt = read_flags(fmt + 1, &spec);
		if (*fmt == '*') {
			spec.width = va_arg(args, int);
			fmt++;
			if (spec.width < 0) {
				spec.width = -spec.width;
				spec.flags |= LEFT;
			}
		} else {
			spec.width = read_decimal(&fmt);
		}
		if (*fmt == '.') {
			fmt++;
			if (*fmt == '*') {
				spec.precision = va_arg(args, int);
				fmt++;
			} else {
				spec.precision = read_decimal(&fmt);
			}
			if (spec.precision < 0)
				spec.precision = 0;
		}
		fmt = read_length(fmt, &spec);
		switch (*fmt) {
		case 0:
			return;
		case '%':
			put(o, '%');
			break;
		case 'c': {
			char c = va_arg(args, int);

			text(o, &c, 1, &spec);
			break;
		}
		case 's':
			string(o, va_arg(args, const char *), &spec);
			break;
		case 'p': {
			const void *p = va_arg(args, const void *);

			pointer(o, ++fmt, p, &spec);
			while (isalnum(*fmt))	// whatever they mean
				fmt++;
			continue;
		}
		case 'd': case 'i':
			spec.flags |= SIGNED;
			number(o, widen(va_arg(args, unsigned long long), &spec), &spec);
			break;
		case 'u':
			number(o, widen(va_arg(args, unsigned long long), &spec), &spec);
			break;
		case 'X':
			spec.flags |= UPPER;
			// fall through
		case 'x':
			spec.base = 16;
			number(o, widen(va_arg(args, unsigned long long), &spec), &spec);
			break;
		case 'o':
			spec.base = 8;
			number(o, widen(va_arg(args, unsigned long long), &spec), &spec);
			break;
		default:
			// Stop at an unknown conversion, since its argument's size is unknown.
			put(o, '%');
			put(o, *fmt);
			return;
		}
		fmt++;
	}
}

// vsnprintf returns the length of the whole text, even if it did not fit into size
// bytes with the NUL, or 0 if size is above INT_MAX.
noinline int vsnprintf(char *buf, size_t size, const char *fmt, va_list args)
{
	struct out o = { buf, size ? buf + size - 1 : buf };

	if (size > 0x7fffffff)
		return 0;
	if (o.end < buf)	/* sprintf to a module's memory, near the end of the address space */
		o.end = (char *)-1;
	format(&o, fmt, args);
	if (size)
		*(o.at < o.end ? o.at : o.end) = 0;
	return o.at - buf;
}

// vscnprintf returns the length of the text in buf.
noinline int vscnprintf(char *buf, size_t size, const char *fmt, va_list args)
{
	int n = vsnprintf(buf, size, fmt, args);

	if (!size)
		return 0;
	return (size_t)n < size ? n : (int)size - 1;
}

int vsprintf(char *buf, const char *fmt, va_list args)
{
	return vsnprintf(buf, 0x7fffffff, fmt, args);
}

int snprintf(char *buf, size_t size, const char *fmt, ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(buf, size, fmt, args);
	va_end(args);
	return n;
}

int scnprintf(char *buf, size_t size, const char *fmt, ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
	n = vscnprintf(buf, size, fmt, args);
	va_end(args);
	return n;
}

int sprintf(char *buf, const char *fmt, ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsprintf(buf, fmt, args);
	va_end(args);
	return n;
}

// num_to_str writes num without a NUL, padded with spaces up to width, and returns
// the length, or 0 if it does not fit.
int num_to_str(char *buf, int size, unsigned long long num, unsigned int width)
{
	char digits[24];
	int n = put_dec(digits, num) - digits;
	int pad_by = (int)width > n ? (int)width - n : 0, at = 0;

	if (n + pad_by > size)
		return 0;
	while (at < pad_by)
		buf[at++] = ' ';
	while (n)
		buf[at++] = digits[--n];
	return at;
}

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

unsigned long long simple_strtoull(const char *s, char **end, unsigned int base)
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

static void store(void *to, unsigned long long v, char length)
{
	switch (length) {
	case 'H': *(u8 *)to = v; break;
	case 'h': *(u16 *)to = v; break;
	case 0: *(u32 *)to = v; break;
	default: *(u64 *)to = v; break;
	}
}

// scan_number reads a number of at most width characters. It returns false if there
// is none.
static bool scan_number(const char **s, int width, unsigned int base, bool sign, unsigned long long *v)
{
	const char *at = *s;
	bool negative = sign && *at == '-';
	char *end;
	size_t max = width > 0 ? (size_t)width : 0x7fffffff;

	if (negative)
		at++, max--;
	if (base == 16 || !base ? !isxdigit(*at) : !isdigit(*at) || *at - '0' >= (int)base)
		return false;
	*v = strntoull(at, max, &end, base);
	if (negative)
		*v = -*v;
	*s = end;
	return true;
}

// scan_set reads characters of a %[...] set, and moves *fmt past it.
static int scan_set(const char **fmt, const char **s, int width, char *to)
{
	bool set[256] = { false }, negate = *++*fmt == '^';
	int n = 0;

	if (negate)
		++*fmt;
	do {
		u8 first = **fmt, last = (*fmt)[1] == '-' && (*fmt)[2] != ']' ? (*fmt)[2] : first;

		if (last != first)
			*fmt += 2;
		while (first <= last) {
			set[first] = true;
			if (first++ == 255)
				break;
		}
	} while (*++*fmt && **fmt != ']');
	while (**s && (width <= 0 || n < width) && set[(u8)**s] != negate)
		to[n++] = *(*s)++;
	to[n] = 0;
	return n;
}

// vsscanf returns the number of conversions stored.
noinline int vsscanf(const char *s, const char *fmt, va_list args)
{
	const char *start = s;
	int done = 0, width, n;
	struct spec spec = { 0 };
	unsigned long long v;
	unsigned int base;
	bool skip;
	char *to;

	for (; *fmt; fmt++) {
		if (isspace(*fmt)) {
			s = skip_spaces(s);
			continue;
		}
		if (*fmt != '%' || *++fmt == '%') {
			if (*s++ != *fmt)
				return done;
			continue;
		}
		skip = *fmt == '*';
		fmt += skip;
		width = read_decimal(&fmt);
		fmt = read_length(fmt, &spec);
		if (*fmt == 'n') {
			*va_arg(args, int *) = s - start;
			continue;
		}
		if (*fmt != 'c' && *fmt != '[')
			s = skip_spaces(s);
		if (!*s)
			return done;
		switch (*fmt) {
		case 'c':
			to = skip ? NULL : va_arg(args, char *);
			for (n = width > 0 ? width : 1; n && *s; n--, s++) {
				if (to)
					*to++ = *s;
			}
			break;
		case 's':
			to = skip ? NULL : va_arg(args, char *);
			for (n = 0; *s && !isspace(*s) && (width <= 0 || n < width); n++, s++) {
				if (to)
					to[n] = *s;
			}
			if (to)
				to[n] = 0;
			break;
		case '[':
			if (skip || !scan_set(&fmt, &s, width, va_arg(args, char *)))
				return done;
			break;
		case 'd': case 'i': case 'u': case 'x': case 'X': case 'o':
			base = *fmt == 'i' ? 0 : *fmt == 'o' ? 8 : *fmt == 'x' || *fmt == 'X' ? 16 : 10;
			if (!scan_number(&s, width, base, *fmt == 'd' || *fmt == 'i', &v))
				return done;
			if (!skip)
				store(va_arg(args, void *), v, spec.length);
			break;
		default:
			return done;
		}
		if (!skip)
			done++;
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

// A bin is where the arguments of a format are stored: each aligned to its size, but at
// most to 4.
struct bin {
	char *at, *end;
};

static void save(struct bin *b, unsigned long long v, size_t size)
{
	size_t align = size < 4 ? size : 4;

	b->at = (char *)(((unsigned long)b->at + align - 1) & -align);
	if (b->at + size <= b->end)
		memcpy(b->at, &v, size);
	b->at += size;
}

static void save_string(struct bin *b, const char *s)
{
	size_t n;

	if ((unsigned long)s < 4096)
		s = s ? "(efault)" : "(null)";
	n = strlen(s) + 1;
	if (b->at + n <= b->end)
		memcpy(b->at, s, n);
	b->at += n;
}

// save_pointer stores an address if nothing but it is needed later, or else its text.
static void save_pointer(struct bin *b, const char *fmt, const void *p, const struct spec *spec)
{
	struct out o = { b->at, b->end - 1 };

	if (strchr("SsxKe", *fmt) || !isalnum(*fmt)) {
		save(b, (unsigned long)p, sizeof(p));
		return;
	}
	pointer(&o, fmt, p, spec);
	if (o.at < b->end)
		*o.at = 0;
	b->at = o.at + 1;
}

static size_t stored_size(char conversion, const struct spec *spec)
{
	if (conversion == 'c' || spec->length == 'H')
		return 1;
	return spec->length == 'h' ? 2 : spec->length ? 8 : 4;
}

// save_count stores a width or a precision that is an argument.
static int save_count(struct bin *b, const char **fmt, int n)
{
	++*fmt;
	save(b, n, sizeof(int));
	return n;
}

// vbin_printf stores the arguments of a format in bin_buf, which has size words, for a
// later bstr_printf. It returns how many words they take, even if that is more.
int vbin_printf(u32 *bin_buf, size_t size, const char *fmt, va_list args)
{
	struct bin b = { (char *)bin_buf, (char *)(bin_buf + size) };

	while ((fmt = strchr(fmt, '%'))) {
		struct spec spec = { .base = 10, .precision = -1 };

		fmt = read_flags(fmt + 1, &spec);
		spec.width = *fmt == '*' ? save_count(&b, &fmt, va_arg(args, int)) : read_decimal(&fmt);
		if (*fmt == '.') {
			fmt++;
			spec.precision = *fmt == '*' ? save_count(&b, &fmt, va_arg(args, int)) : read_decimal(&fmt);
		}
		fmt = read_length(fmt, &spec);
		switch (*fmt) {
		case 's':
			save_string(&b, va_arg(args, const char *));
			break;
		case 'p':
			save_pointer(&b, fmt + 1, va_arg(args, const void *), &spec);
			break;
		case 'c': case 'd': case 'i': case 'u': case 'x': case 'X': case 'o':
			save(&b, va_arg(args, unsigned long long), stored_size(*fmt, &spec));
			break;
		case '%':
			break;
		default:
			goto out;
		}
		fmt++;
	}
out:
	return (b.at - (char *)bin_buf + 3) / 4;
}
EXPORT_SYMBOL_GPL(vbin_printf);

EXPORT_SYMBOL(vsnprintf);
EXPORT_SYMBOL(vscnprintf);
EXPORT_SYMBOL(vsprintf);
EXPORT_SYMBOL(snprintf);
EXPORT_SYMBOL(scnprintf);
EXPORT_SYMBOL(sprintf);
