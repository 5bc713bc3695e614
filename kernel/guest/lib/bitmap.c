// Bitmaps.
#include <linux/slab.h>
#include <linux/mm.h>
#include <linux/types.h>
#include <linux/errno.h>
#include <linux/ctype.h>
#include <linux/kernel.h>
#include <linux/kstrtox.h>
#include <linux/hex.h>
#include <linux/bitmap.h>

#define WORDS(bits) (((bits) + 63) / 64)

// last_mask is the mask of used bits in the last word.
static unsigned long last_mask(unsigned int i, unsigned int bits)
{
	return i == bits / 64 ? (1UL << bits % 64) - 1 : ~0UL;
}

bool __bitmap_and(unsigned long *dst, const unsigned long *a, const unsigned long *b, unsigned int bits)
{
	unsigned long any = 0;
	unsigned int i;

	for (i = 0; i < WORDS(bits); i++)
		any |= dst[i] = a[i] & b[i] & last_mask(i, bits);
	return any;
}
EXPORT_SYMBOL(__bitmap_and);

void __bitmap_or(unsigned long *dst, const unsigned long *a, const unsigned long *b, unsigned int bits)
{
	unsigned int i;

	for (i = 0; i < WORDS(bits); i++)
		dst[i] = a[i] | b[i];
}
EXPORT_SYMBOL(__bitmap_or);

void __bitmap_xor(unsigned long *dst, const unsigned long *a, const unsigned long *b, unsigned int bits)
{
	unsigned int i;

	for (i = 0; i < WORDS(bits); i++)
		dst[i] = a[i] ^ b[i];
}
EXPORT_SYMBOL(__bitmap_xor);

bool __bitmap_andnot(unsigned long *dst, const unsigned long *a, const unsigned long *b, unsigned int bits)
{
	unsigned long any = 0;
	unsigned int i;

	for (i = 0; i < WORDS(bits); i++)
		any |= dst[i] = a[i] & ~b[i] & last_mask(i, bits);
	return any;
}
EXPORT_SYMBOL(__bitmap_andnot);

void __bitmap_complement(unsigned long *dst, const unsigned long *src, unsigned int bits)
{
	unsigned int i;

	for (i = 0; i < WORDS(bits); i++)
		dst[i] = ~src[i];
}
EXPORT_SYMBOL(__bitmap_complement);

bool __bitmap_equal(const unsigned long *a, const unsigned long *b, unsigned int bits)
{
	unsigned int i;

	for (i = 0; i < WORDS(bits); i++) {
		if ((a[i] ^ b[i]) & last_mask(i, bits))
			return false;
	}
	return true;
}
EXPORT_SYMBOL(__bitmap_equal);

bool __bitmap_intersects(const unsigned long *a, const unsigned long *b, unsigned int bits)
{
	unsigned int i;

	for (i = 0; i < WORDS(bits); i++) {
		if (a[i] & b[i] & last_mask(i, bits))
			return true;
	}
	return false;
}
EXPORT_SYMBOL(__bitmap_intersects);

bool __bitmap_subset(const unsigned long *a, const unsigned long *b, unsigned int bits)
{
	unsigned int i;

	for (i = 0; i < WORDS(bits); i++) {
		if (a[i] & ~b[i] & last_mask(i, bits))
			return false;
	}
	return true;
}
EXPORT_SYMBOL(__bitmap_subset);

unsigned long __sw_hweight64(unsigned long w);

int __bitmap_weight(const unsigned long *p, unsigned int bits)
{
	unsigned int i;
	int n = 0;

	for (i = 0; i < WORDS(bits); i++)
		n += __sw_hweight64(p[i] & last_mask(i, bits));
	return n;
}
EXPORT_SYMBOL(__bitmap_weight);

void __bitmap_set(unsigned long *map, unsigned int start, int len)
{
	unsigned int end = start + len, stop;

	for (; start < end; start = stop) {
		stop = (start | 63) + 1;
		map[start / 64] |= ~0UL << start % 64 & (end < stop ? (1UL << end % 64) - 1 : ~0UL);
	}
}
EXPORT_SYMBOL(__bitmap_set);

void __bitmap_clear(unsigned long *map, unsigned int start, int len)
{
	unsigned int end = start + len, stop;

	for (; start < end; start = stop) {
		stop = (start | 63) + 1;
		map[start / 64] &= ~(~0UL << start % 64 & (end < stop ? (1UL << end % 64) - 1 : ~0UL));
	}
}
EXPORT_SYMBOL(__bitmap_clear);

static unsigned long word_at(const unsigned long *src, long i, unsigned int bits)
{
	return i < 0 || i >= WORDS(bits) ? 0 : src[i] & last_mask(i, bits);
}

void __bitmap_shift_right(unsigned long *dst, const unsigned long *src, unsigned int shift, unsigned int bits)
{
	unsigned int i, words = shift / 64, rest = shift % 64;

	for (i = 0; i < WORDS(bits); i++) {
		dst[i] = word_at(src, i + words, bits) >> rest;
		if (rest)
			dst[i] |= word_at(src, i + words + 1, bits) << (64 - rest);
	}
}
EXPORT_SYMBOL(__bitmap_shift_right);

void __bitmap_shift_left(unsigned long *dst, const unsigned long *src, unsigned int shift, unsigned int bits)
{
	unsigned int words = shift / 64, rest = shift % 64;
	long i;

	for (i = (long)WORDS(bits) - 1; i >= 0; i--) {
		dst[i] = word_at(src, i - words, bits) << rest;
		if (rest)
			dst[i] |= word_at(src, i - words - 1, bits) >> (64 - rest);
	}
}
EXPORT_SYMBOL(__bitmap_shift_left);

// bitmap_find_next_zero_area_off returns the first bit of nr zero bits from start on
// with the requested alignment, or a number above size.
unsigned long bitmap_find_next_zero_area_off(unsigned long *map, unsigned long size, unsigned long start, unsigned int nr, unsigned long align_mask, unsigned long align_offset)
{
	unsigned long at, used;

	for (;;) {
		at = _find_next_zero_bit(map, size, start);
		at = ((at + align_offset + align_mask) & ~align_mask) - align_offset;
		if (at + nr > size)
			return at + nr;
		used = _find_next_bit(map, at + nr, at);
		if (used >= at + nr)
			return at;
		start = used + 1;
	}
}
EXPORT_SYMBOL(bitmap_find_next_zero_area_off);

// bitmap_parse reads comma-separated hexadecimal chunks of 32 bits, highest first. It
// returns -EOVERFLOW if a chunk or the bitmap is too small.
int bitmap_parse(const char *start, unsigned int buflen, unsigned long *dst, int bits)
{
	const char *end = strnchrnul(start, buflen, '\n'), *at = end;
	int digits = 0, chunk = 0, nibble = 0, v;

	bitmap_zero(dst, bits);
	while (at > start && isspace(at[-1]))
		at--;
	for (; at > start && !isspace(at[-1]); at--) {
		if (at[-1] == ',') {
			if (!digits)
				return -EINVAL;
			digits = 0;
			chunk++;
			nibble = 0;
			continue;
		}
		v = hex_to_bin(at[-1]);
		if (v < 0)
			return -EINVAL;
		digits++;
		if (nibble >= 8)
			return -EOVERFLOW;
		for (int bit = 0; bit < 4; bit++) {
			if (!(v >> bit & 1))
				continue;
			if (chunk * 32 + nibble * 4 + bit >= bits)
				return -EOVERFLOW;
			__set_bit(chunk * 32 + nibble * 4 + bit, dst);
		}
		nibble++;
	}
	if (*skip_spaces(start) && !digits && start != end)
		return -EINVAL;
	while (at > start && isspace(at[-1]))
		at--;
	return at == start ? 0 : -EINVAL;
}
EXPORT_SYMBOL(bitmap_parse);

static const char *read_number(const char *s, unsigned int *n)
{
	unsigned long long v;
	unsigned int digits = _parse_integer(s, 10, &v);

	if (!digits || digits & KSTRTOX_OVERFLOW || v > UINT_MAX)
		return NULL;
	*n = v;
	return s + digits;
}

// bitmap_parselist reads 0-3,8,10-20:2/4 (the first two of each group of four). It
// returns -EINVAL for other text, -ERANGE for numbers beyond the bitmap.
int bitmap_parselist(const char *buf, unsigned long *dst, int bits)
{
	unsigned int first, last, used, group, i;

	bitmap_zero(dst, bits);
	for (;;) {
		while (*buf == ',' || isspace(*buf))
			buf++;
		if (!*buf)
			return 0;
		buf = read_number(buf, &first);
		if (!buf)
			return -EINVAL;
		last = first;
		used = group = 1;
		if (*buf == '-') {
			buf = read_number(buf + 1, &last);
			if (!buf)
				return -EINVAL;
			if (*buf == ':') {
				buf = read_number(buf + 1, &used);
				if (!buf || *buf != '/')
					return -EINVAL;
				buf = read_number(buf + 1, &group);
				if (!buf || !group || used > group)
					return -EINVAL;
			}
		}
		if (*buf && *buf != ',' && !isspace(*buf))
			return -EINVAL;
		if (first > last)
			return -EINVAL;
		if (last >= (unsigned int)bits)
			return -ERANGE;
		for (i = first; i <= last; i++) {
			if ((i - first) % group < used)
				__set_bit(i, dst);
		}
	}
}
EXPORT_SYMBOL(bitmap_parselist);

// bitmap_print_list writes a list (0-3,8) and returns its length.
int bitmap_print_list(char *buf, size_t size, const unsigned long *map, int bits)
{
	unsigned long first, end;
	int n = 0;

	for (first = _find_first_bit(map, bits); first < bits; first = _find_next_bit(map, bits, end)) {
		end = _find_next_zero_bit(map, bits, first);
		n += scnprintf(buf + n, size - n, end - first > 1 ? "%s%lu-%lu" : "%s%lu", n ? "," : "", first, end - 1);
	}
	return n;
}

unsigned long *bitmap_alloc(unsigned int nbits, gfp_t flags)
{
	return kmalloc(BITS_TO_LONGS(nbits) * sizeof(long), flags);
}
EXPORT_SYMBOL(bitmap_alloc);

unsigned long *bitmap_zalloc(unsigned int nbits, gfp_t flags)
{
	return bitmap_alloc(nbits, flags | __GFP_ZERO);
}
EXPORT_SYMBOL(bitmap_zalloc);

void bitmap_free(const unsigned long *bitmap)
{
	kfree(bitmap);
}
EXPORT_SYMBOL(bitmap_free);

// bitmap_print_to_pagebuf writes a bitmap, as a list (0-3,8) or in words, and a new line,
// to a page of which buf may be a part.
int bitmap_print_to_pagebuf(bool list, char *buf, const unsigned long *maskp, int nmaskbits)
{
	ptrdiff_t len = PAGE_SIZE - ((unsigned long)buf & (PAGE_SIZE - 1));

	return scnprintf(buf, len, list ? "%*pbl\n" : "%*pb\n", nmaskbits, maskp);
}
EXPORT_SYMBOL(bitmap_print_to_pagebuf);
