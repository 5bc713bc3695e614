// SipHash, a keyed hash of short inputs (Aumasson and Bernstein): 2-4 rounds for hash
// tables with untrusted keys, 1-3 for speed.
#include <linux/types.h>
#include <linux/string.h>
#include <linux/siphash.h>
#include <linux/export.h>

struct state {
	u64 v0, v1, v2, v3;
};

static inline u64 rotate(u64 x, int n)
{
	return x << n | x >> (64 - n);
}

static inline void sipround(struct state *s)
{
	s->v0 += s->v1;
	s->v1 = rotate(s->v1, 13) ^ s->v0;
	s->v0 = rotate(s->v0, 32);
	s->v2 += s->v3;
	s->v3 = rotate(s->v3, 16) ^ s->v2;
	s->v0 += s->v3;
	s->v3 = rotate(s->v3, 21) ^ s->v0;
	s->v2 += s->v1;
	s->v1 = rotate(s->v1, 17) ^ s->v2;
	s->v2 = rotate(s->v2, 32);
}

static inline void start(struct state *s, const u64 *key)
{
	s->v0 = key[0] ^ 0x736f6d6570736575ULL;
	s->v1 = key[1] ^ 0x646f72616e646f6dULL;
	s->v2 = key[0] ^ 0x6c7967656e657261ULL;
	s->v3 = key[1] ^ 0x7465646279746573ULL;
}

static inline void absorb(struct state *s, u64 word, int rounds)
{
	s->v3 ^= word;
	while (rounds--)
		sipround(s);
	s->v0 ^= word;
}

static inline u64 finish(struct state *s, int rounds)
{
	s->v2 ^= 0xff;
	while (rounds--)
		sipround(s);
	return s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

// The last word is the rest of the input, with the length in its top byte.
static inline u64 hash(const u8 *p, size_t len, const u64 *key, int each, int last)
{
	struct state s;
	u64 tail = (u64)len << 56;
	size_t left;
	u64 word;

	start(&s, key);
	for (left = len; left >= 8; left -= 8, p += 8) {
		memcpy(&word, p, 8);
		absorb(&s, word, each);
	}
	while (left--)
		tail |= (u64)p[left] << (8 * left);
	absorb(&s, tail, each);
	return finish(&s, last);
}

static inline u64 hash_words(const u64 *words, int n, u64 tail, const u64 *key, int each, int last)
{
	struct state s;
	int i;

	start(&s, key);
	for (i = 0; i < n; i++)
		absorb(&s, words[i], each);
	absorb(&s, tail, each);
	return finish(&s, last);
}

u64 __siphash_aligned(const void *data, size_t len, const siphash_key_t *key)
{
	return hash(data, len, key->key, 2, 4);
}

u64 __siphash_unaligned(const void *data, size_t len, const siphash_key_t *key)
{
	return hash(data, len, key->key, 2, 4);
}
EXPORT_SYMBOL(__siphash_unaligned);

u64 siphash_1u64(u64 a, const siphash_key_t *key)
{
	return hash_words(&a, 1, 8ULL << 56, key->key, 2, 4);
}
EXPORT_SYMBOL(siphash_1u64);

u64 siphash_2u64(u64 a, u64 b, const siphash_key_t *key)
{
	u64 words[] = { a, b };

	return hash_words(words, 2, 16ULL << 56, key->key, 2, 4);
}
EXPORT_SYMBOL(siphash_2u64);

u64 siphash_3u64(u64 a, u64 b, u64 c, const siphash_key_t *key)
{
	u64 words[] = { a, b, c };

	return hash_words(words, 3, 24ULL << 56, key->key, 2, 4);
}
EXPORT_SYMBOL(siphash_3u64);

u64 siphash_4u64(u64 a, u64 b, u64 c, u64 d, const siphash_key_t *key)
{
	u64 words[] = { a, b, c, d };

	return hash_words(words, 4, 32ULL << 56, key->key, 2, 4);
}
EXPORT_SYMBOL(siphash_4u64);

u64 siphash_1u32(u32 a, const siphash_key_t *key)
{
	return hash_words(NULL, 0, 4ULL << 56 | a, key->key, 2, 4);
}
EXPORT_SYMBOL(siphash_1u32);

u64 siphash_3u32(u32 a, u32 b, u32 c, const siphash_key_t *key)
{
	u64 word = (u64)b << 32 | a;

	return hash_words(&word, 1, 12ULL << 56 | c, key->key, 2, 4);
}
EXPORT_SYMBOL(siphash_3u32);

static const u64 *words_of(const hsiphash_key_t *key)
{
	return (const u64 *)key->key;
}

u32 __hsiphash_aligned(const void *data, size_t len, const hsiphash_key_t *key)
{
	return hash(data, len, words_of(key), 1, 3);
}

u32 __hsiphash_unaligned(const void *data, size_t len, const hsiphash_key_t *key)
{
	return hash(data, len, words_of(key), 1, 3);
}
EXPORT_SYMBOL(__hsiphash_unaligned);

u32 hsiphash_1u32(u32 a, const hsiphash_key_t *key)
{
	return hash_words(NULL, 0, 4ULL << 56 | a, words_of(key), 1, 3);
}
EXPORT_SYMBOL(hsiphash_1u32);

u32 hsiphash_2u32(u32 a, u32 b, const hsiphash_key_t *key)
{
	u64 word = (u64)b << 32 | a;

	return hash_words(&word, 1, 8ULL << 56, words_of(key), 1, 3);
}
EXPORT_SYMBOL(hsiphash_2u32);

u32 hsiphash_3u32(u32 a, u32 b, u32 c, const hsiphash_key_t *key)
{
	u64 word = (u64)b << 32 | a;

	return hash_words(&word, 1, 12ULL << 56 | c, words_of(key), 1, 3);
}
EXPORT_SYMBOL(hsiphash_3u32);

u32 hsiphash_4u32(u32 a, u32 b, u32 c, u32 d, const hsiphash_key_t *key)
{
	u64 words[] = { (u64)b << 32 | a, (u64)d << 32 | c };

	return hash_words(words, 2, 16ULL << 56, words_of(key), 1, 3);
}
EXPORT_SYMBOL(hsiphash_4u32);
