// printf for the kernel: vsnprintf with flags, widths and precisions, what the letters
// behind %p make of a pointer (Documentation/core-api/printk-formats), and the same from
// arguments that were stored before.
#include <linux/types.h>
#include <linux/errno.h>
#include <linux/ctype.h>
#include <linux/string.h>
#include <linux/export.h>
#include <linux/hex.h>
#include <linux/sprintf.h>
#include <linux/find.h>
#include <linux/blk_types.h>
#include <linux/bug.h>
#include <linux/clk.h>
#include <linux/cred.h>
#include <linux/dcache.h>
#include <linux/errname.h>
#include <linux/fs.h>
#include <linux/fwnode.h>
#include <linux/inet.h>
#include <linux/ioport.h>
#include <linux/mm.h>
#include <linux/mmflags.h>
#include <linux/preempt.h>
#include <linux/rtc.h>
#include <linux/sched.h>
#include <linux/siphash.h>
#include <linux/string_helpers.h>
#include <linux/timeconv.h>
#include <asm/traps.h>
#include <asm/host.h>

#if defined(KERNEL_2_6) || defined(KERNEL_4_15)
#define OLD_POINTERS true	// NULL and what is near is "(null)" in each conversion
#else
#define OLD_POINTERS false
#endif

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
	int width, precision; // -1 if there is none
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
static noinline char *put_dec(char *buf, unsigned long long value)
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
	if (spec->flags & ZERO && !(spec->flags & LEFT) && precision < left)
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

// cut_text writes s up to the precision.
static void cut_text(struct out *o, const char *s, const struct spec *spec)
{
	text(o, s, strnlen(s, spec->precision < 0 ? ~0UL >> 1 : (size_t)spec->precision), spec);
}

// bad_pointer writes what stands for an address that nothing can be read from.
static bool bad_pointer(struct out *o, const void *p, const struct spec *spec)
{
	if (p && (unsigned long)p >= PAGE_SIZE && (unsigned long)p < -4095UL)
		return false;
	cut_text(o, p && !OLD_POINTERS ? "(efault)" : "(null)", spec);
	return true;
}

static noinline void string(struct out *o, const char *s, const struct spec *spec)
{
	if (!bad_pointer(o, s, spec))
		cut_text(o, s, spec);
}

static void pointer_digits(struct out *o, unsigned long value, struct spec spec)
{
	spec.base = 16;
	if (spec.width == -1) {
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

#define CAP_SYSLOG 34

// kptr_restrict is kernel.kptr_restrict.
int kptr_restrict;

// restricted_pointer is %pK.
static noinline void restricted_pointer(struct out *o, const void *p, struct spec spec)
{
#ifndef KERNEL_2_6
	const struct cred *cred = current->cred;

	if (!kptr_restrict) {
#ifdef KERNEL_4_15	/* does not hash it */
		pointer_digits(o, (unsigned long)p, spec);
#else
		ptr_to_id(o, p, spec);
#endif
		return;
	}
	if (kptr_restrict == 1 && irq_count()) {
		if (spec.width == -1)
			spec.width = 2 * sizeof(void *);
		cut_text(o, "pK-error", &spec);
		return;
	}
	if (kptr_restrict != 1 || !capable(CAP_SYSLOG) || cred->euid.val != cred->uid.val || cred->egid.val != cred->gid.val)
		p = NULL;
#endif
	pointer_digits(o, (unsigned long)p, spec);
}

// The symbol table is outside of the guest: the machine looks it up.
static noinline void symbol_string(struct out *o, unsigned long addr, char kind, const struct spec *spec)
{
	char name[256];
	long n = hypercall4(HC_SYMBOL, addr, name, kind, sizeof(name));

	if (n < 0)
		n = 0;
	text(o, name, spec->precision >= 0 && spec->precision < n ? spec->precision : n, spec);
}

static void error_string(struct out *o, const void *p, struct spec spec)
{
	const char *name = errname((long)p);

	if ((unsigned long)p < -4095UL) {
		ptr_to_id(o, p, spec);
	} else if (name) {
		cut_text(o, name, &spec);
	} else {
		spec.flags |= SIGNED;
		number(o, (long)p, &spec);
	}
}

static void hex_byte(struct out *o, u8 byte)
{
	put(o, hex_asc[byte >> 4]);
	put(o, hex_asc[byte & 15]);
}

// finish writes a text that was built in buf, with room for its NUL behind end.
static void finish(struct out *o, struct out *built, char *buf, const struct spec *spec)
{
	*(built->at < built->end ? built->at : built->end) = 0;
	cut_text(o, buf, spec);
}

static const struct spec decimal = { .base = 10, .width = -1, .precision = -1 };
static const struct spec flag_number = { .flags = ALT, .base = 16, .width = -1, .precision = -1 };
static const struct spec whole_text = { .width = -1, .precision = -1 };

// special_hex_number writes all digits of a number of size bytes, behind 0x.
static noinline void special_hex_number(struct out *o, unsigned long long v, int size)
{
	struct spec spec = { .flags = ALT | ZERO, .base = 16, .width = 2 + 2 * size, .precision = -1 };

	number(o, v, &spec);
}

static noinline void hex_string(struct out *o, const u8 *p, const struct spec *spec, char letter)
{
	char separator = letter == 'C' ? ':' : letter == 'D' ? '-' : letter == 'N' ? 0 : ' ';
	int i, n = spec->width < 0 ? 1 : spec->width > 64 ? 64 : spec->width;

	if (!n || bad_pointer(o, p, spec))
		return;
	for (i = 0; i < n; i++) {
		if (i && separator)
			put(o, separator);
		hex_byte(o, p[i]);
	}
}

// mac_address_string is %pM and %pm: R reverses the bytes, F separates them by dashes.
static noinline void mac_address_string(struct out *o, const u8 *p, const char *fmt, const struct spec *spec)
{
	char buf[20];
	struct out built = { buf, buf + sizeof(buf) - 1 };
	int i;

	if (bad_pointer(o, p, spec))
		return;
	for (i = 0; i < 6; i++) {
		if (i && *fmt == 'M')
			put(&built, fmt[1] == 'F' ? '-' : ':');
		hex_byte(&built, p[fmt[1] == 'R' ? 5 - i : i]);
	}
	finish(o, &built, buf, spec);
}

// ip4_string writes an address in network order, or in the host's order. zeros stands for
// three digits each.
static void ip4_string(struct out *o, const u8 *p, bool zeros, char order)
{
	struct spec spec = { .flags = ZERO, .base = 10, .width = zeros ? 3 : -1, .precision = -1 };
	int i;

	for (i = 0; i < 4; i++) {
		if (i)
			put(o, '.');
		number(o, p[order == 'h' || order == 'l' ? 3 - i : i], &spec);
	}
}

static void ip6_string(struct out *o, const u8 *p, bool colons)
{
	int i;

	for (i = 0; i < 16; i++) {
		if (i && i % 2 == 0 && colons)
			put(o, ':');
		hex_byte(o, p[i]);
	}
}

// longest_zeros returns the first of the longest runs of at least two zero words of an
// address, and its length.
static int longest_zeros(const u8 *p, int words, int *length)
{
	int best = -1, i, n;

	*length = 1;
	for (i = 0; i < words; i += n ? n : 1) {
		for (n = 0; i + n < words && !p[2 * (i + n)] && !p[2 * (i + n) + 1]; n++)
			;
		if (n > *length) {
			*length = n;
			best = i;
		}
	}
	return best;
}

// ip6_compressed_string writes an address as RFC 5952 says. The last part of a mapped or
// ISATAP address is an IPv4 one.
static void ip6_compressed_string(struct out *o, const u8 *p)
{
	static const u8 mapped[12] = { [10] = 0xff, 0xff }, isatap[4] = { 2, 0, 0x5e, 0xfe };
	struct spec word = { .base = 16, .width = -1, .precision = -1 };
	bool with4 = !memcmp(p, mapped, 12) || ((p[8] | 2) == isatap[0] && !memcmp(p + 9, isatap + 1, 3));
	int words = with4 ? 6 : 8, length, zeros = longest_zeros(p, words, &length), i;
	bool colon = false;

	for (i = 0; i < words; i++) {
		if (i == zeros) {
			if (colon || !i)
				put(o, ':');
			put(o, ':');
			colon = false;
			i += length - 1;
			continue;
		}
		if (colon)
			put(o, ':');
		number(o, p[2 * i] << 8 | p[2 * i + 1], &word);
		colon = true;
	}
	if (with4) {
		if (colon)
			put(o, ':');
		ip4_string(o, p + 12, false, 'n');
	}
}

// has reports whether c is among the letters at the beginning of fmt.
static bool has(const char *fmt, char c)
{
	for (; isalpha(*fmt); fmt++)
		if (*fmt == c)
			return true;
	return false;
}

static u16 be16(const u8 *p)
{
	return p[0] << 8 | p[1];
}

#define AF_INET 2
#define AF_INET6 10

// sockaddr6_string writes an IPv6 socket's address: with port, flow and scope if p, f and
// s are there, compressed for c. The width holds for each of these numbers too.
static void sockaddr6_string(struct out *o, const u8 *p, const char *fmt, const struct spec *spec)
{
	bool brackets = has(fmt + 2, 'p') || has(fmt + 2, 'f') || has(fmt + 2, 's');

	if (brackets)
		put(o, '[');
	if (*fmt == 'I' && has(fmt + 2, 'c'))
		ip6_compressed_string(o, p + 8);
	else
		ip6_string(o, p + 8, *fmt == 'I');
	if (brackets)
		put(o, ']');
	if (has(fmt + 2, 'p')) {
		put(o, ':');
		number(o, be16(p + 2), spec);
	}
	if (has(fmt + 2, 'f')) {
		put(o, '/');
		number(o, (p[4] & 0x0f) << 24 | p[5] << 16 | be16(p + 6), spec);
	}
	if (has(fmt + 2, 's')) {
		put(o, '%');
		number(o, *(const u32 *)(p + 24), spec);
	}
}

// sockaddr4_string writes an IPv4 socket's address: the last letter that is an order counts.
static void sockaddr4_string(struct out *o, const u8 *p, const char *fmt, const struct spec *spec)
{
	const char *at;
	char order = 'n';

	for (at = fmt + 2; isalpha(*at); at++)
		if (strchr("hlnb", *at))
			order = *at;
	ip4_string(o, p + 4, *fmt == 'i', order);
	if (has(fmt + 2, 'p')) {
		put(o, ':');
		number(o, be16(p + 2), spec);
	}
}

static noinline void ip_addr_string(struct out *o, const u8 *p, const char *fmt, const struct spec *spec)
{
	char buf[256], unknown[] = "(%pI?)";
	struct out built = { buf, buf + sizeof(buf) - 1 };
	u16 family;

	if (bad_pointer(o, p, spec))
		return;
	unknown[3] = *fmt;
	family = fmt[1] == 'S' ? *(const u16 *)p : 0;
	if (fmt[1] == '4')
		ip4_string(&built, p, *fmt == 'i', fmt[2]);
	else if (fmt[1] == '6' && *fmt == 'I' && fmt[2] == 'c')
		ip6_compressed_string(&built, p);
	else if (fmt[1] == '6')
		ip6_string(&built, p, *fmt == 'I');
	else if (family == AF_INET)
		sockaddr4_string(&built, p, fmt, spec);
	else if (family == AF_INET6)
		sockaddr6_string(&built, p, fmt, spec);
	else
		cut_text(&built, fmt[1] == 'S' ? "(einval)" : unknown, &whole_text);
	finish(o, &built, buf, spec);
}

// escaped_string is %*pE: the letters say what is escaped.
static noinline void escaped_string(struct out *o, const char *p, const char *fmt, const struct spec *spec)
{
	static const struct { char letter; unsigned int flag; } kinds[] = {
		{ 'a', ESCAPE_ANY }, { 'c', ESCAPE_SPECIAL }, { 'h', ESCAPE_HEX }, { 'n', ESCAPE_NULL },
		{ 'o', ESCAPE_OCTAL }, { 'p', ESCAPE_NP }, { 's', ESCAPE_SPACE }, { 0 },
	};
	unsigned int flags = 0;
	int i;

	if (!spec->width || bad_pointer(o, p, spec))
		return;
	while (*++fmt) {
		for (i = 0; kinds[i].letter && kinds[i].letter != *fmt; i++)
			;
		if (!kinds[i].letter)
			break;
		flags |= kinds[i].flag;
	}
	o->at += string_escape_mem(p, spec->width < 0 ? 1 : spec->width, o->at, o->at < o->end ? o->end - o->at : 0,
				   flags ? flags : ESCAPE_ANY_NP, NULL);
}

static noinline void uuid_string(struct out *o, const u8 *p, char kind, const struct spec *spec)
{
	static const u8 be[16] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
	static const u8 le[16] = { 3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15 };
	const u8 *order = kind == 'l' || kind == 'L' ? le : be;
	const char *digits = kind == 'B' || kind == 'L' ? hex_asc_upper : hex_asc;
	char buf[37];
	struct out built = { buf, buf + sizeof(buf) - 1 };
	int i;

	if (bad_pointer(o, p, spec))
		return;
	for (i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			put(&built, '-');
		put(&built, digits[p[order[i]] >> 4]);
		put(&built, digits[p[order[i]] & 15]);
	}
	finish(o, &built, buf, spec);
}

// dentry_name writes the last parts of a path, at most four. What has no name ends it.
static void dentry_name(struct out *o, const struct dentry *d, const struct spec *spec, char letter)
{
	const char *names[4], *s;
	int depth = letter >= '2' && letter <= '4' ? letter - '0' : 1, n, length = 0, i;
	struct out start;

	for (n = 0; n < depth; n++, d = d->d_parent) {
		if (bad_pointer(o, d, spec))
			return;
		names[n] = (const char *)d->d_name.name;
		if (IS_ROOT(d)) {
			if (n)
				names[n] = "";
			n++;
			break;
		}
	}
	start = *o;
	for (i = n; i--; length += i != 0)
		length += strlen(names[i]);
	if (spec->precision >= 0 && length > spec->precision)
		length = spec->precision;
	if (!(spec->flags & LEFT))
		pad(o, ' ', spec->width - length);
	start.at = o->at;
	for (i = n - 1, s = names[i]; o->at - start.at < length;) {
		if (*s) {
			put(o, *s++);
		} else {
			put(o, '/');
			s = names[--i];
		}
	}
	if (spec->flags & LEFT)
		pad(o, ' ', spec->width - length);
}

static noinline void file_dentry_name(struct out *o, const struct file *f, const struct spec *spec, char letter)
{
	if (!bad_pointer(o, f, spec))
		dentry_name(o, f->f_path.dentry, spec, letter);
}

static noinline void bdev_name(struct out *o, const struct block_device *b, const struct spec *spec)
{
	const char *name;

	if (bad_pointer(o, b, spec))
		return;
	name = b->bd_disk->disk_name;
	string(o, name, spec);
	if (!b->bd_partno)
		return;
	if (isdigit(name[strlen(name) - 1]))
		put(o, 'p');
	number(o, b->bd_partno, spec);
}

static struct fwnode_handle *fwnode_parent(const struct fwnode_handle *n)
{
	return n && n->ops && n->ops->get_parent ? n->ops->get_parent(n) : NULL;
}

static void put_node(struct fwnode_handle *n)
{
	if (n && n->ops && n->ops->put)
		n->ops->put(n);
}

// fwnode_name writes the name of a node, if it says one.
static void fwnode_name(struct out *o, const struct fwnode_handle *n, const struct spec *spec, bool prefix)
{
	const char *(*name)(const struct fwnode_handle *) = !n->ops ? NULL : prefix ? n->ops->get_name_prefix : n->ops->get_name;

	string(o, name ? name(n) : NULL, spec);
}

#define MAX_DEPTH 32

// fwnode_path writes the names of nodes, the last first.
static void fwnode_path(struct out *o, struct fwnode_handle *const *path, int depth)
{
	while (depth--) {
		fwnode_name(o, path[depth], &whole_text, true);
		fwnode_name(o, path[depth], &whole_text, false);
	}
}

// fwnode_string is %pfw: the path of a node, or with P its name.
static void fwnode_string(struct out *o, struct fwnode_handle *n, const char *fmt, const struct spec *spec)
{
	struct fwnode_handle *path[MAX_DEPTH] = { n };
	struct out length = { NULL, NULL };
	int depth = 1, left;

	if (fmt[1] != 'w') {
		cut_text(o, "(%pf?)", spec);
		return;
	}
	if (bad_pointer(o, n, spec))
		return;
	if (fmt[2] == 'P') {
		fwnode_name(o, n, spec, false);
		return;
	}
	while (depth < MAX_DEPTH && (path[depth] = fwnode_parent(path[depth - 1])))
		depth++;
	fwnode_path(&length, path, depth);
	left = spec->width - (int)(unsigned long)length.at;
	if (!(spec->flags & LEFT))
		pad(o, ' ', left);
	fwnode_path(o, path, depth);
	if (spec->flags & LEFT)
		pad(o, ' ', left);
	while (--depth)
		put_node(path[depth]);
}

static void clock_name(struct out *o, const struct clk *c, const struct spec *spec)
{
	if (!bad_pointer(o, c, spec))
		string(o, c->core->name, spec);
}

static void resource_name(struct out *o, const struct resource *r, bool decode, const struct spec *spec)
{
	static const struct { unsigned long type; const char *name; struct spec number; } types[] = {
		{ IORESOURCE_IO, "io  ", { ALT | ZERO, 16, 6, -1 } }, { IORESOURCE_MEM, "mem ", { ALT | ZERO, 16, 10, -1 } },
		{ IORESOURCE_IRQ, "irq ", { 0, 10, -1, -1 } }, { IORESOURCE_DMA, "dma ", { 0, 10, -1, -1 } },
		{ IORESOURCE_BUS, "bus ", { ZERO, 16, 2, -1 } }, { 0, "??? ", { ALT | ZERO, 16, 10, -1 } },
	};
	static const struct { unsigned long flag; const char *name; } flags[] = {
		{ IORESOURCE_MEM_64, " 64bit" }, { IORESOURCE_PREFETCH, " pref" },
		{ IORESOURCE_WINDOW, " window" }, { IORESOURCE_DISABLED, " disabled" },
	};
	char buf[128];
	struct out built = { buf, buf + sizeof(buf) - 1 };
	int i;

	if (bad_pointer(o, r, spec))
		return;
	for (i = 0; types[i].type && !(r->flags & types[i].type); i++)
		;
	decode = decode && types[i].type;
	put(&built, '[');
	cut_text(&built, types[i].name, &whole_text);
	if (decode && r->flags & IORESOURCE_UNSET) {
		cut_text(&built, "size ", &whole_text);
		number(&built, r->end - r->start + 1, &types[i].number);
	} else {
		number(&built, r->start, &types[i].number);
		if (r->start != r->end) {
			put(&built, '-');
			number(&built, r->end, &types[i].number);
		}
	}
	for (i = 0; decode && i < 4; i++)
		if (r->flags & flags[i].flag)
			cut_text(&built, flags[i].name, &whole_text);
	if (!decode) {
		cut_text(&built, " flags ", &whole_text);
		number(&built, r->flags, &flag_number);
	}
	put(&built, ']');
	finish(o, &built, buf, spec);
}

// two_digits writes a separator, unless it is 0, and a part of a date or time.
static void two_digits(struct out *o, char separator, int v)
{
	struct spec spec = { .flags = ZERO, .base = 10, .width = 2, .precision = -1 };

	if (separator)
		put(o, separator);
	number(o, v, &spec);
}

// rtc_str writes a time: d is only the date, t only the time; r writes the numbers as they
// are, s a space in the middle.
static void rtc_str(struct out *o, const struct rtc_time *tm, const char *fmt)
{
	struct spec year = { .flags = ZERO, .base = 10, .width = 4, .precision = -1 };
	bool date = *fmt != 't', time = *fmt != 'd', raw = false;
	char separator = 'T';

	for (fmt += !date || !time; *fmt == 'r' || *fmt == 's'; fmt++) {
		if (*fmt == 'r')
			raw = true;
		else
			separator = ' ';
	}
	if (date) {
		number(o, tm->tm_year + (raw ? 0 : 1900), &year);
		two_digits(o, '-', tm->tm_mon + !raw);
		two_digits(o, '-', tm->tm_mday);
	}
	if (date && time)
		put(o, separator);
	if (time) {
		two_digits(o, 0, tm->tm_hour);
		two_digits(o, ':', tm->tm_min);
		two_digits(o, ':', tm->tm_sec);
	}
}

static noinline void time_and_date(struct out *o, const void *p, const char *fmt, const struct spec *spec)
{
	struct rtc_time time;
	struct tm tm;

	if (fmt[1] != 'R' && fmt[1] != 'T') {
		cut_text(o, "(%pt?)", spec);
		return;
	}
	if (bad_pointer(o, p, spec))
		return;
	if (fmt[1] == 'R') {
		rtc_str(o, p, fmt + 2);
		return;
	}
	time64_to_tm(*(const time64_t *)p, 0, &tm);
	time = (struct rtc_time){ tm.tm_sec, tm.tm_min, tm.tm_hour, tm.tm_mday, tm.tm_mon, tm.tm_year };
	rtc_str(o, &time, fmt + 2);
}

// flag_names writes the names of flags, and what has none as a number.
static void flag_names(struct out *o, unsigned long flags, const struct trace_print_flags *names)
{
	for (; flags && names->mask; names++) {
		if ((flags & names->mask) != names->mask)
			continue;
		cut_text(o, names->name, &whole_text);
		flags &= ~names->mask;
		if (flags)
			put(o, '|');
	}
	if (flags)
		number(o, flags, &flag_number);
}

// page_flags writes the flags of a page, and the numbers that are kept with them.
static void page_flags(struct out *o, unsigned long flags)
{
	static const struct { const char *name; int shift, width; const struct spec *spec; } fields[] = {
		{ "node=", NODES_PGSHIFT, NODES_WIDTH, &decimal }, { "zone=", ZONES_PGSHIFT, ZONES_WIDTH, &decimal },
		{ "lastcpupid=", LAST_CPUPID_PGSHIFT, LAST_CPUPID_WIDTH, &flag_number },
	};
	unsigned long names = flags & ((1UL << NR_PAGEFLAGS) - 1);
	int i;

	number(o, flags, &flag_number);
	put(o, '(');
	flag_names(o, names, pageflag_names);
	for (i = 0; i < 3; i++) {
		if (i || names)
			put(o, '|');
		cut_text(o, fields[i].name, &whole_text);
		number(o, flags >> fields[i].shift & ((1UL << fields[i].width) - 1), fields[i].spec);
	}
	put(o, ')');
}

static noinline void flags_string(struct out *o, const void *p, char kind, const struct spec *spec)
{
	if (bad_pointer(o, p, spec))
		return;
	if (kind == 'p')
		page_flags(o, *(const unsigned long *)p);
	else if (kind == 'v')
		flag_names(o, *(const unsigned long *)p, vmaflag_names);
	else if (kind == 'g')
		flag_names(o, *(const gfp_t *)p, gfpflag_names);
	else
		cut_text(o, "(%pG?)", spec);
}

// fourcc_string is %p4cc: the name of a format of pixels, the order of its bytes, the number.
static noinline void fourcc_string(struct out *o, const u32 *p, const char *fmt, const struct spec *spec)
{
	char buf[48];
	struct out built = { buf, buf + sizeof(buf) - 1 };
	int i;

	if (fmt[1] != 'c' || fmt[2] != 'c') {
		cut_text(o, "(%p4?)", spec);
		return;
	}
	if (bad_pointer(o, p, spec))
		return;
	for (i = 0; i < 4; i++) {
		u8 c = (*p & ~(1U << 31)) >> (8 * i);

		put(&built, isascii(c) && isprint(c) ? c : '.');
	}
	cut_text(&built, *p >> 31 ? " big-endian (" : " little-endian (", &whole_text);
	special_hex_number(&built, *p, 4);
	put(&built, ')');
	finish(o, &built, buf, spec);
}

static noinline void address_val(struct out *o, const u64 *p, const struct spec *spec)
{
	if (!bad_pointer(o, p, spec))
		special_hex_number(o, *p, 8);
}

static noinline void netdev_bits(struct out *o, const u64 *p, char kind, const struct spec *spec)
{
	if (bad_pointer(o, p, spec))
		return;
	if (kind == 'F')
		special_hex_number(o, *p, 8);
	else
		cut_text(o, "(%pN?)", spec);
}

// An args is where arguments come from: a call, or what vbin_printf stored.
struct args {
	va_list *va;
	const char *bin;
};

static void format(struct out *o, const char *fmt, struct args *args);

static void va_format(struct out *o, const struct va_format *vaf, const struct spec *spec)
{
	struct args args;
	va_list copy;

	if (bad_pointer(o, vaf, spec))
		return;
	va_copy(copy, *vaf->va);
	args = (struct args){ .va = &copy };
	format(o, vaf->fmt, &args);
	va_end(copy);
}

// bitmap_words writes a bitmap as hexadecimal numbers of 32 bits, the highest first.
static void bitmap_words(struct out *o, const unsigned long *bits, int nbits)
{
	int chunk = nbits % 32 ? nbits % 32 : 32, i;

	for (i = (nbits + 31) / 32 - 1; i >= 0; i--, chunk = 32) {
		struct spec spec = { .flags = ZERO, .base = 16, .width = (chunk + 3) / 4, .precision = -1 };

		number(o, (u32)(bits[i / 2] >> (i % 2 * 32)) & (~0U >> (32 - chunk)), &spec);
		if (i)
			put(o, ',');
	}
}

// bitmap_list writes a bitmap as a list of bits and of ranges of them.
static void bitmap_list(struct out *o, const unsigned long *bits, int nbits)
{
	int first, end = 0;
	bool more = false;

	while ((first = _find_next_bit(bits, nbits, end)) < nbits) {
		end = _find_next_zero_bit(bits, nbits, first);
		if (more)
			put(o, ',');
		more = true;
		number(o, first, &decimal);
		if (end - first > 1) {
			put(o, '-');
			number(o, end - 1, &decimal);
		}
	}
}

static noinline void bitmap_string(struct out *o, const unsigned long *bits, bool list, const struct spec *spec)
{
	int nbits = spec->width > 0 ? spec->width : 0;

	if (bad_pointer(o, bits, spec))
		return;
	if (list)
		bitmap_list(o, bits, nbits);
	else
		bitmap_words(o, bits, nbits);
}

// of_string stands for nodes of a device tree, which x86 does not have.
static void of_string(struct out *o, char kind, const struct spec *spec)
{
	cut_text(o, kind == 'F' ? "(%pOF?)" : "(%pO?)", spec);
}

// pointer writes %p and its extension.
static void pointer(struct out *o, const char *fmt, const void *p, const struct spec *spec)
{
	if (OLD_POINTERS && !p && *fmt != 'K') {	/* whatever it is */
		struct spec wide = *spec;

#ifdef KERNEL_4_15
		if (wide.width == -1)
			wide.width = 2 * sizeof(void *);
#endif
		string(o, NULL, &wide);
		return;
	}
	switch (*fmt) {
	case 'S': case 's': case 'B': symbol_string(o, (unsigned long)p, *fmt, spec); break;
	case 'R': case 'r': resource_name(o, p, *fmt == 'R', spec); break;
	case 'h': hex_string(o, p, spec, fmt[1]); break;
	case 'b': bitmap_string(o, p, fmt[1] == 'l', spec); break;
	case 'M': case 'm': mac_address_string(o, p, fmt, spec); break;
	case 'I': case 'i': ip_addr_string(o, p, fmt, spec); break;
	case 'E': escaped_string(o, p, fmt, spec); break;
	case 'U': uuid_string(o, p, fmt[1], spec); break;
	case 'V': va_format(o, p, spec); break;
	case 'K': restricted_pointer(o, p, *spec); break;
	case 'N': netdev_bits(o, p, fmt[1], spec); break;
	case '4': fourcc_string(o, p, fmt, spec); break;
	case 'a': address_val(o, p, spec); break;
	case 'd': dentry_name(o, p, spec, fmt[1]); break;
	case 'D': file_dentry_name(o, p, spec, fmt[1]); break;
	case 't': time_and_date(o, p, fmt, spec); break;
	case 'C': clock_name(o, p, spec); break;
	case 'g': bdev_name(o, p, spec); break;
	case 'G': flags_string(o, p, fmt[1], spec); break;
	case 'O': of_string(o, fmt[1], spec); break;
	case 'x': pointer_digits(o, (unsigned long)p, *spec); break;
	case 'e': error_string(o, p, *spec); break;
#if defined(KERNEL_2_6) || defined(KERNEL_4_15)
	case 'F': case 'f': // function pointers, which are plain addresses on x86
		symbol_string(o, (unsigned long)p, *fmt == 'F' ? 'S' : 's', spec);
		break;
#else
	case 'f': fwnode_string(o, (void *)p, fmt, spec); break;
	case 'A':
		WARN_ONCE(1, "Please remove %%pA from non-Rust code\n");
		cut_text(o, "(%pA?)", spec);
		break;
	case 'u': case 'k':
		if (fmt[1] == 's')
			string(o, p, spec);
		else
			cut_text(o, "(einval)", spec);
		break;
#endif
	default: ptr_to_id(o, p, *spec);
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

// from_bin reads a number of size bytes that vbin_printf stored.
static unsigned long long from_bin(struct args *args, size_t size)
{
	unsigned long align = size < 4 ? size : 4;
	unsigned long long v = 0;

	args->bin = (const char *)(((unsigned long)args->bin + align - 1) & -align);
	memcpy(&v, args->bin, size);
	args->bin += size;
	return v;
}

static unsigned long long next_number(struct args *args, size_t size)
{
	return args->va ? va_arg(*args->va, unsigned long long) : from_bin(args, size);
}

static const char *next_string(struct args *args)
{
	const char *s = args->bin;

	if (args->va)
		return va_arg(*args->va, const char *);
	args->bin += strlen(s) + 1;
	return s;
}

// What is stored of a pointer: the address if nothing but it is needed, or else its text.
static bool stored_address(const char *fmt)
{
	return !isalnum(*fmt) || strchr("SsxKe", *fmt);
}

static void next_pointer(struct out *o, const char *fmt, struct args *args, const struct spec *spec)
{
	if (args->va || stored_address(fmt))
		pointer(o, fmt, (const void *)next_number(args, sizeof(void *)), spec);
	else
		cut_text(o, next_string(args), &whole_text);
}

#define WIDTH_MAX ((1 << 23) - 1)
#define PRECISION_MAX ((1 << 15) - 1)

// A width has 24 bits and a precision 16. An argument that does not fit is cut, with a
// warning; digits in a format are not looked at.
static int cut_width(int n)
{
	int cut = n > WIDTH_MAX ? WIDTH_MAX : n < -WIDTH_MAX ? -WIDTH_MAX : n;

	WARN_ONCE(cut != n && n != -WIDTH_MAX - 1, "field width %d too large", n);
	return cut;
}

static int cut_precision(int n)
{
	bool fits = n == (s16)n;

	WARN_ONCE(!fits, "precision %d too large", n);
	return n < 0 ? 0 : fits ? n : PRECISION_MAX;
}

static const char *read_width(const char *fmt, struct spec *spec, struct args *args)
{
	if (*fmt == '*') {
		spec->width = cut_width(next_number(args, sizeof(int)));
		fmt++;
		if (spec->width < 0) {
			spec->width = -spec->width;
			spec->flags |= LEFT;
		}
	} else if (isdigit(*fmt)) {
		spec->width = read_decimal(&fmt) << 8 >> 8;
	}
	return fmt;
}

static const char *read_precision(const char *fmt, struct spec *spec, struct args *args)
{
	if (*fmt != '.')
		return fmt;
	fmt++;
	if (*fmt == '*') {
		spec->precision = cut_precision(next_number(args, sizeof(int)));
		fmt++;
	} else if (isdigit(*fmt)) {
		spec->precision = (s16)read_decimal(&fmt);
		if (spec->precision < 0)
			spec->precision = 0;
	}
	return fmt;
}

static const char *read_spec(const char *fmt, struct spec *spec, struct args *args)
{
	*spec = decimal;
	fmt = read_flags(fmt, spec);
	fmt = read_width(fmt, spec, args);
	fmt = read_precision(fmt, spec, args);
	return read_length(fmt, spec);
}

static size_t stored_size(char conversion, const struct spec *spec)
{
	if (conversion == 'c' || spec->length == 'H')
		return 1;
	return spec->length == 'h' ? 2 : spec->length ? 8 : 4;
}

// integer writes a number as its letter says.
static void integer(struct out *o, char letter, struct args *args, struct spec *spec)
{
	if (letter == 'd' || letter == 'i')
		spec->flags |= SIGNED;
	if (letter == 'X')
		spec->flags |= UPPER;
	spec->base = letter == 'o' ? 8 : letter == 'x' || letter == 'X' ? 16 : 10;
	number(o, widen(next_number(args, stored_size(letter, spec)), spec), spec);
}

// unsupported is for a conversion that there is not. Its argument's size is unknown, so the
// format ends there.
static bool unsupported(struct out *o, char letter)
{
#ifdef KERNEL_2_6
	put(o, '%');
	if (letter)
		put(o, letter);
	return letter;
#else
	WARN_ONCE(1, "Please remove unsupported %%%c in format string\n", letter);
	return false;
#endif
}

static void format(struct out *o, const char *fmt, struct args *args)
{
	struct spec spec;
	char letter;

	while (*fmt) {
		if (*fmt != '%') {
			put(o, *fmt++);
			continue;
		}
		fmt = read_spec(fmt + 1, &spec, args);
		letter = *fmt++;
		switch (letter) {
		case '%':
			put(o, '%');
			break;
		case 'c': {
			char c = next_number(args, 1);

			text(o, &c, 1, &spec);
			break;
		}
		case 's':
			string(o, next_string(args), &spec);
			break;
		case 'p':
			next_pointer(o, fmt, args, &spec);
			while (isalnum(*fmt))	// whatever they mean
				fmt++;
			break;
		case 'd': case 'i': case 'u': case 'x': case 'X': case 'o':
			integer(o, letter, args, &spec);
			break;
		default:
			if (!unsupported(o, letter))
				return;
		}
	}
}

// format_to writes to size bytes at buf with the NUL, and returns the length of the whole
// text, even if it did not fit, or 0 if size is above INT_MAX.
static int format_to(char *buf, size_t size, const char *fmt, struct args *args)
{
	struct out o = { buf, size ? buf + size - 1 : buf };

	if (WARN_ON_ONCE(size > 0x7fffffff))
		return 0;
	if (o.end < buf)	/* sprintf to a module's memory, near the end of the address space */
		o.end = (char *)-1;
	format(&o, fmt, args);
	if (size)
		*(o.at < o.end ? o.at : o.end) = 0;
	return o.at - buf;
}

// vsnprintf is format_to with a call's arguments.
noinline int vsnprintf(char *buf, size_t size, const char *fmt, va_list args)
{
	struct args from;
	va_list copy;
	int n;

	va_copy(copy, args);
	from = (struct args){ .va = &copy };
	n = format_to(buf, size, fmt, &from);
	va_end(copy);
	return n;
}

// bstr_printf is vsnprintf with arguments that vbin_printf stored.
int bstr_printf(char *buf, size_t size, const char *fmt, const u32 *bin_buf)
{
	struct args args = { .bin = (const char *)bin_buf };

	return format_to(buf, size, fmt, &args);
}
EXPORT_SYMBOL_GPL(bstr_printf);

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

	if (!s || (unsigned long)s < PAGE_SIZE || (unsigned long)s >= -4095UL)
		s = s ? "(efault)" : "(null)";
	n = strlen(s) + 1;
	if (b->at + n <= b->end)
		memcpy(b->at, s, n);
	b->at += n;
}

static void save_pointer(struct bin *b, const char *fmt, const void *p, const struct spec *spec)
{
	struct out o = { b->at, b->end - 1 };

	if (stored_address(fmt)) {
		save(b, (unsigned long)p, sizeof(p));
		return;
	}
	pointer(&o, fmt, p, spec);
	if (o.at < b->end)
		*o.at = 0;
	b->at = o.at + 1;
}

// save_count stores a width or a precision that is an argument.
static int save_count(struct bin *b, const char **fmt, int n)
{
	++*fmt;
	save(b, n, sizeof(int));
	return n;
}

// save_spec is read_spec, but stores what is an argument.
static const char *save_spec(struct bin *b, const char *fmt, struct spec *spec, va_list *args)
{
	struct args none = { .va = args };

	*spec = decimal;
	fmt = read_flags(fmt, spec);
	if (*fmt == '*') {
		spec->width = save_count(b, &fmt, va_arg(*args, int));
		if (spec->width < 0) {
			spec->width = -spec->width;
			spec->flags |= LEFT;
		}
	} else {
		fmt = read_width(fmt, spec, &none);
	}
	if (fmt[0] == '.' && fmt[1] == '*') {
		fmt++;
		spec->precision = cut_precision(save_count(b, &fmt, va_arg(*args, int)));
	} else {
		fmt = read_precision(fmt, spec, &none);
	}
	return read_length(fmt, spec);
}

// save_all stores the arguments of a format up to one that is not supported.
static void save_all(struct bin *b, const char *fmt, va_list *args)
{
	struct spec spec;

	while ((fmt = strchr(fmt, '%'))) {
		fmt = save_spec(b, fmt + 1, &spec, args);
		switch (*fmt++) {
		case 's':
			save_string(b, va_arg(*args, const char *));
			break;
		case 'p':
			save_pointer(b, fmt, va_arg(*args, const void *), &spec);
			break;
		case 'c': case 'd': case 'i': case 'u': case 'x': case 'X': case 'o':
			save(b, va_arg(*args, unsigned long long), stored_size(fmt[-1], &spec));
			break;
		case '%':
			break;
		default:
			return;
		}
	}
}

// vbin_printf stores the arguments of a format in bin_buf, which has size words, for a
// later bstr_printf. It returns how many words they take, even if that is more.
int vbin_printf(u32 *bin_buf, size_t size, const char *fmt, va_list args)
{
	struct bin b = { (char *)bin_buf, (char *)(bin_buf + size) };
	va_list copy;

	va_copy(copy, args);
	save_all(&b, fmt, &copy);
	va_end(copy);
	return (b.at - (char *)bin_buf + 3) / 4;
}
EXPORT_SYMBOL_GPL(vbin_printf);

// bprintf is vbin_printf with the arguments of its call.
int bprintf(u32 *bin_buf, size_t size, const char *fmt, ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
	n = vbin_printf(bin_buf, size, fmt, args);
	va_end(args);
	return n;
}
EXPORT_SYMBOL_GPL(bprintf);

EXPORT_SYMBOL(vsnprintf);
EXPORT_SYMBOL(vscnprintf);
EXPORT_SYMBOL(vsprintf);
EXPORT_SYMBOL(snprintf);
EXPORT_SYMBOL(scnprintf);
EXPORT_SYMBOL(sprintf);
