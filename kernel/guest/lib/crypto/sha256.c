// SHA-256 and SHA-224 (FIPS 180-4).
#include <linux/types.h>
#include <linux/string.h>
#include <linux/bitops.h>
#include <linux/export.h>
#include <crypto/hash.h>

// The first 32 bits of the fractions of the first 64 primes' cube roots.
static const u32 SHA256_K[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static inline u32 be32_at(const u8 *p)
{
	u32 v;

	memcpy(&v, p, 4);
	return __builtin_bswap32(v);
}

static inline void put_be32(u8 *p, u32 v)
{
	v = __builtin_bswap32(v);
	memcpy(p, &v, 4);
}

static void schedule_words(u32 *w, const u8 *block)
{
	int i;

	for (i = 0; i < 16; i++)
		w[i] = be32_at(block + 4 * i);
	for (; i < 64; i++) {
		u32 s0 = ror32(w[i - 15], 7) ^ ror32(w[i - 15], 18) ^ w[i - 15] >> 3;
		u32 s1 = ror32(w[i - 2], 17) ^ ror32(w[i - 2], 19) ^ w[i - 2] >> 10;

		w[i] = w[i - 16] + s0 + w[i - 7] + s1;
	}
}

static noinline void sha256_transform(u32 *state, const u8 *block, u32 *w)
{
	u32 v[8], t1, t2;
	int i, j;

	schedule_words(w, block);
	memcpy(v, state, sizeof(v));
	for (i = 0; i < 64; i++) {
		t1 = v[7] + (ror32(v[4], 6) ^ ror32(v[4], 11) ^ ror32(v[4], 25)) +
		     ((v[4] & v[5]) ^ (~v[4] & v[6])) + SHA256_K[i] + w[i];
		t2 = (ror32(v[0], 2) ^ ror32(v[0], 13) ^ ror32(v[0], 22)) +
		     ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
		for (j = 7; j > 0; j--)
			v[j] = v[j - 1];
		v[4] += t1;
		v[0] = t1 + t2;
	}
	for (i = 0; i < 8; i++)
		state[i] += v[i];
}

static noinline void sha256_transform_blocks(u32 *state, const u8 *in, int blocks)
{
	u32 w[64];

	for (; blocks > 0; blocks--, in += SHA256_BLOCK_SIZE)
		sha256_transform(state, in, w);
	memset(w, 0, sizeof(w));
}

noinline void sha256_init(struct sha256_state *s)
{
	static const u32 start[8] = {
		0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
	};

	memcpy(s->state, start, sizeof(start));
	s->count = 0;
}

void sha224_init(struct sha256_state *s)
{
	static const u32 start[8] = {
		0xc1059ed8, 0x367cd507, 0x3070dd17, 0xf70e5939, 0xffc00b31, 0x68581511, 0x64f98fa7, 0xbefa4fa4,
	};

	memcpy(s->state, start, sizeof(start));
	s->count = 0;
}

noinline void sha256_update(struct sha256_state *s, const u8 *data, unsigned int len)
{
	unsigned int have = s->count % SHA256_BLOCK_SIZE, n;

	s->count += len;
	if (have + len >= SHA256_BLOCK_SIZE) {
		if (have) {
			n = SHA256_BLOCK_SIZE - have;
			memcpy(s->buf + have, data, n);
			data += n;
			len -= n;
			sha256_transform_blocks(s->state, s->buf, 1);
			have = 0;
		}
		sha256_transform_blocks(s->state, data, len / SHA256_BLOCK_SIZE);
		data += len & ~(SHA256_BLOCK_SIZE - 1);
		len %= SHA256_BLOCK_SIZE;
	}
	memcpy(s->buf + have, data, len);
}
EXPORT_SYMBOL(sha256_update);

static void final(struct sha256_state *s, u8 *out, int words)
{
	u64 bits = s->count * 8;
	unsigned int have = s->count % SHA256_BLOCK_SIZE;
	u8 tail[SHA256_BLOCK_SIZE + 8] = { 0x80 };
	unsigned int pad = (have < 56 ? 56 : 120) - have;
	int i;

	put_be32(tail + pad, bits >> 32);
	put_be32(tail + pad + 4, bits);
	sha256_update(s, tail, pad + 8);
	for (i = 0; i < words; i++)
		put_be32(out + 4 * i, s->state[i]);
	memset(s, 0, sizeof(*s));
}

noinline void sha256_final(struct sha256_state *s, u8 *out)
{
	final(s, out, 8);
}
EXPORT_SYMBOL(sha256_final);

void sha224_final(struct sha256_state *s, u8 *out)
{
	final(s, out, 7);
}
EXPORT_SYMBOL(sha224_final);

void sha256(const u8 *data, unsigned int len, u8 *out)
{
	struct sha256_state s;

	sha256_init(&s);
	sha256_update(&s, data, len);
	sha256_final(&s, out);
}
EXPORT_SYMBOL(sha256);
