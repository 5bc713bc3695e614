// BLAKE2s (RFC 7693).
#include <linux/types.h>
#include <linux/export.h>
#include <linux/string.h>
#include <linux/bitops.h>
#include <crypto/hash.h>

static const u32 blake2s_iv[8] = {
	0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};

static const u8 blake2s_sigma[10][16] = {
	{ 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 },
	{ 14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3 },
	{ 11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4 },
	{ 7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8 },
	{ 9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13 },
	{ 2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9 },
	{ 12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11 },
	{ 13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10 },
	{ 6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5 },
	{ 10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0 },
};

static inline void mix(u32 *v, int a, int b, int c, int d, u32 x, u32 y)
{
	v[a] += v[b] + x;
	v[d] = ror32(v[d] ^ v[a], 16);
	v[c] += v[d];
	v[b] = ror32(v[b] ^ v[c], 12);
	v[a] += v[b] + y;
	v[d] = ror32(v[d] ^ v[a], 8);
	v[c] += v[d];
	v[b] = ror32(v[b] ^ v[c], 7);
}

static void mix_round(u32 *v, const u32 *m, const u8 *s)
{
	int i;

	for (i = 0; i < 4; i++)
		mix(v, i, i + 4, i + 8, i + 12, m[s[2 * i]], m[s[2 * i + 1]]);
	for (i = 0; i < 4; i++)
		mix(v, i, 4 + ((i + 1) & 3), 8 + ((i + 2) & 3), 12 + ((i + 3) & 3), m[s[8 + 2 * i]], m[s[9 + 2 * i]]);
}

// blake2s_compress_generic processes nblocks blocks. inc is the number of bytes that
// each adds to the counter.
noinline void blake2s_compress_generic(struct blake2s_state *s, const u8 *block, size_t nblocks, u32 inc)
{
	u32 m[16], v[16];
	int i;

	for (; nblocks; nblocks--, block += 64) {
		s->t[0] += inc;
		s->t[1] += s->t[0] < inc;
		memcpy(m, block, 64);
		memcpy(v, s->h, 32);
		memcpy(v + 8, blake2s_iv, 32);
		v[12] ^= s->t[0];
		v[13] ^= s->t[1];
		v[14] ^= s->f[0];
		v[15] ^= s->f[1];
		for (i = 0; i < 10; i++)
			mix_round(v, m, blake2s_sigma[i]);
		for (i = 0; i < 8; i++)
			s->h[i] ^= v[i] ^ v[i + 8];
	}
}

void blake2s_init(struct blake2s_state *s, size_t outlen, const u8 *key, size_t keylen)
{
	memset(s, 0, sizeof(*s));
	memcpy(s->h, blake2s_iv, 32);
	s->h[0] ^= 0x01010000 | keylen << 8 | outlen;
	s->outlen = outlen;
	if (keylen) {
		memcpy(s->buf, key, keylen);
		s->buflen = 64;
	}
}

// The last block, full or not, is kept: it is compressed with f set.
void blake2s_update(struct blake2s_state *s, const u8 *in, size_t len)
{
	while (len) {
		size_t n = 64 - s->buflen;

		if (!n) {
			blake2s_compress_generic(s, s->buf, 1, 64);
			s->buflen = 0;
			n = 64;
		}
		if (n > len)
			n = len;
		memcpy(s->buf + s->buflen, in, n);
		s->buflen += n;
		in += n;
		len -= n;
	}
}
EXPORT_SYMBOL(blake2s_update);

void blake2s_final(struct blake2s_state *s, u8 *out)
{
	s->f[0] = -1;
	memset(s->buf + s->buflen, 0, 64 - s->buflen);
	blake2s_compress_generic(s, s->buf, 1, s->buflen);
	memcpy(out, s->h, s->outlen);
}
EXPORT_SYMBOL(blake2s_final);
