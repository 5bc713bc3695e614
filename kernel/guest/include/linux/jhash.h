// jhash.h: the hash function of Bob Jenkins's lookup3, which he gave to the public domain.
#ifndef _LINUX_JHASH_H
#define _LINUX_JHASH_H

#include <linux/bitops.h>
#include <linux/string.h>
#include <linux/types.h>

#define JHASH_INITVAL 0xdeadbeef
#define jhash_size(n) (1U << (n))
#define jhash_mask(n) (jhash_size(n) - 1)

static inline void __jhash_step(u32 *x, u32 *y, u32 *z, int by)
{
	*x = (*x - *z) ^ rol32(*z, by);
	*z += *y;
}

static inline void __jhash_mix(u32 s[3])
{
	__jhash_step(&s[0], &s[1], &s[2], 4);
	__jhash_step(&s[1], &s[2], &s[0], 6);
	__jhash_step(&s[2], &s[0], &s[1], 8);
	__jhash_step(&s[0], &s[1], &s[2], 16);
	__jhash_step(&s[1], &s[2], &s[0], 19);
	__jhash_step(&s[2], &s[0], &s[1], 4);
}

static inline u32 __jhash_final(u32 s[3])
{
	static const unsigned char by[] = {14, 11, 25, 16, 4, 14, 24};
	unsigned int i;

	for (i = 0; i < sizeof(by); i++) {
		u32 *to = &s[(i + 2) % 3], from = s[(i + 1) % 3];

		*to = (*to ^ from) - rol32(from, by[i]);
	}
	return s[2];
}

static inline u32 __jhash_words(u32 a, u32 b, u32 c, u32 initval)
{
	u32 s[] = {a + initval, b + initval, c + initval};

	return __jhash_final(s);
}

// jhash hashes length bytes.
static inline u32 jhash(const void *key, u32 length, u32 initval)
{
	u32 first = JHASH_INITVAL + length + initval, s[] = {first, first, first}, w[3];
	const char *k = key;

	if (!length)
		return first;
	for (;; k += 12, length -= 12) {
		unsigned int n = length > 12 ? 12 : length;

		memset(w, 0, sizeof(w));
		memcpy(w, k, n);
		s[0] += w[0];
		s[1] += w[1];
		s[2] += w[2];
		if (length <= 12)
			return __jhash_final(s);
		__jhash_mix(s);
	}
}

// jhash2 hashes length words.
static inline u32 jhash2(const u32 *k, u32 length, u32 initval)
{
	return jhash(k, length * 4, initval);
}

static inline u32 jhash_3words(u32 a, u32 b, u32 c, u32 initval) { return __jhash_words(a, b, c, initval + JHASH_INITVAL + 12); }
static inline u32 jhash_2words(u32 a, u32 b, u32 initval) { return __jhash_words(a, b, 0, initval + JHASH_INITVAL + 8); }
static inline u32 jhash_1word(u32 a, u32 initval) { return __jhash_words(a, 0, 0, initval + JHASH_INITVAL + 4); }

#endif
