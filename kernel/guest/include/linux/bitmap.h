#ifndef _LINUX_BITMAP_H
#define _LINUX_BITMAP_H

#include <linux/types.h>
#include <linux/string.h>
#include <linux/find.h>

// Bitmaps. Unused bits of the last word are ignored.
bool __bitmap_and(unsigned long *dst, const unsigned long *a, const unsigned long *b, unsigned int bits);
void __bitmap_or(unsigned long *dst, const unsigned long *a, const unsigned long *b, unsigned int bits);
void __bitmap_xor(unsigned long *dst, const unsigned long *a, const unsigned long *b, unsigned int bits);
bool __bitmap_andnot(unsigned long *dst, const unsigned long *a, const unsigned long *b, unsigned int bits);
void __bitmap_complement(unsigned long *dst, const unsigned long *src, unsigned int bits);
bool __bitmap_equal(const unsigned long *a, const unsigned long *b, unsigned int bits);
bool __bitmap_intersects(const unsigned long *a, const unsigned long *b, unsigned int bits);
bool __bitmap_subset(const unsigned long *a, const unsigned long *b, unsigned int bits);
int __bitmap_weight(const unsigned long *p, unsigned int bits);
void __bitmap_set(unsigned long *map, unsigned int start, int len);
void __bitmap_clear(unsigned long *map, unsigned int start, int len);
void __bitmap_shift_right(unsigned long *dst, const unsigned long *src, unsigned int shift, unsigned int bits);
void __bitmap_shift_left(unsigned long *dst, const unsigned long *src, unsigned int shift, unsigned int bits);
unsigned long bitmap_find_next_zero_area_off(unsigned long *map, unsigned long size, unsigned long start, unsigned int nr, unsigned long align_mask, unsigned long align_offset);
int bitmap_parse(const char *start, unsigned int buflen, unsigned long *dst, int bits);
unsigned long *bitmap_alloc(unsigned int nbits, gfp_t flags);
unsigned long *bitmap_zalloc(unsigned int nbits, gfp_t flags);
void bitmap_free(const unsigned long *bitmap);
int bitmap_print_to_pagebuf(bool list, char *buf, const unsigned long *maskp, int nmaskbits);
int bitmap_parselist(const char *buf, unsigned long *dst, int bits);
int bitmap_print_list(char *buf, size_t size, const unsigned long *map, int bits);

static inline void bitmap_zero(unsigned long *dst, unsigned int bits)
{
	memset(dst, 0, BITS_TO_LONGS(bits) * sizeof(long));
}
#define bitmap_weight __bitmap_weight
#define bitmap_set __bitmap_set
#define bitmap_clear __bitmap_clear
#define bitmap_and __bitmap_and
#define bitmap_or __bitmap_or
#define bitmap_xor __bitmap_xor
#define bitmap_andnot __bitmap_andnot
#define bitmap_equal __bitmap_equal
#define bitmap_intersects __bitmap_intersects
#define bitmap_subset __bitmap_subset
#define bitmap_empty(src, bits) (find_first_bit(src, bits) == (bits))
#define bitmap_full(src, bits) (find_first_zero_bit(src, bits) == (bits))
#endif
