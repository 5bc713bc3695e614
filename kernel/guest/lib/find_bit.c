// Searching bitmaps by words.
#include <linux/types.h>
#include <linux/find.h>
#include <linux/export.h>

// find looks for a set bit of (a[i] & b[i]) ^ invert from start; b may be NULL.
static inline unsigned long find(const unsigned long *a, const unsigned long *b, unsigned long size, unsigned long start, unsigned long invert)
{
	unsigned long i, word, bit;

	if (start >= size)
		return size;
	for (i = start / 64; i * 64 < size; i++) {
		word = (b ? a[i] & b[i] : a[i]) ^ invert;
		if (i == start / 64)
			word &= ~0UL << start % 64;
		if (word) {
			bit = i * 64 + __ffs(word);
			return bit < size ? bit : size;
		}
	}
	return size;
}

unsigned long _find_first_bit(const unsigned long *p, unsigned long size)
{
	return find(p, NULL, size, 0, 0);
}
EXPORT_SYMBOL(_find_first_bit);

unsigned long _find_first_zero_bit(const unsigned long *p, unsigned long size)
{
	return find(p, NULL, size, 0, ~0UL);
}
EXPORT_SYMBOL(_find_first_zero_bit);

unsigned long _find_first_and_bit(const unsigned long *a, const unsigned long *b, unsigned long size)
{
	return find(a, b, size, 0, 0);
}
EXPORT_SYMBOL(_find_first_and_bit);

unsigned long _find_next_bit(const unsigned long *p, unsigned long size, unsigned long start)
{
	return find(p, NULL, size, start, 0);
}
EXPORT_SYMBOL(_find_next_bit);

unsigned long _find_next_zero_bit(const unsigned long *p, unsigned long size, unsigned long start)
{
	return find(p, NULL, size, start, ~0UL);
}
EXPORT_SYMBOL(_find_next_zero_bit);

unsigned long _find_next_and_bit(const unsigned long *a, const unsigned long *b, unsigned long size, unsigned long start)
{
	return find(a, b, size, start, 0);
}
EXPORT_SYMBOL(_find_next_and_bit);

unsigned long _find_last_bit(const unsigned long *p, unsigned long size)
{
	unsigned long i, word;

	for (i = (size + 63) / 64; i-- > 0;) {
		word = p[i];
		if (i == size / 64)
			word &= (1UL << size % 64) - 1;
		if (word)
			return i * 64 + __fls(word);
	}
	return size;
}
EXPORT_SYMBOL(_find_last_bit);
