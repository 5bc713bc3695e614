// SHA-1's compression function (FIPS 180-4).
#include <linux/types.h>
#include <linux/export.h>
#include <linux/string.h>
#include <linux/bitops.h>
#include <crypto/hash.h>

notrace_before_6_1 void sha1_init(u32 *digest)
{
	digest[0] = 0x67452301;
	digest[1] = 0xefcdab89;
	digest[2] = 0x98badcfe;
	digest[3] = 0x10325476;
	digest[4] = 0xc3d2e1f0;
}
EXPORT_SYMBOL(sha1_init);

// The next schedule word replaces the one that is 16 rounds old.
static u32 schedule_word(u32 *w, int t)
{
	if (t >= 16)
		w[t & 15] = rol32(w[(t + 13) & 15] ^ w[(t + 8) & 15] ^ w[(t + 2) & 15] ^ w[t & 15], 1);
	return w[t & 15];
}

static u32 mixed(int t, u32 b, u32 c, u32 d)
{
	if (t < 20)
		return ((b & c) | (~b & d)) + 0x5a827999;
	if (t < 40)
		return (b ^ c ^ d) + 0x6ed9eba1;
	if (t < 60)
		return ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc;
	return (b ^ c ^ d) + 0xca62c1d6;
}

// sha1_transform processes a block of 64 bytes. The workspace is 16 words.
notrace_before_6_1 void sha1_transform(u32 *digest, const char *data, u32 *workspace)
{
	u32 a = digest[0], b = digest[1], c = digest[2], d = digest[3], e = digest[4], next;
	int t;

	for (t = 0; t < 16; t++) {
		memcpy(&next, data + 4 * t, 4);
		workspace[t] = __builtin_bswap32(next);
	}
	for (t = 0; t < 80; t++) {
		next = rol32(a, 5) + mixed(t, b, c, d) + e + schedule_word(workspace, t);
		e = d;
		d = c;
		c = rol32(b, 30);
		b = a;
		a = next;
	}
	digest[0] += a;
	digest[1] += b;
	digest[2] += c;
	digest[3] += d;
	digest[4] += e;
}
EXPORT_SYMBOL(sha1_transform);
