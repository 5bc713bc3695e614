// The ChaCha permutation (Bernstein; RFC 8439), and its use as a stream cipher.
#include <linux/types.h>
#include <linux/export.h>
#include <linux/string.h>
#include <linux/bitops.h>
#include <crypto/hash.h>

static inline void quarter(u32 *x, int a, int b, int c, int d)
{
	x[a] += x[b];
	x[d] = rol32(x[d] ^ x[a], 16);
	x[c] += x[d];
	x[b] = rol32(x[b] ^ x[c], 12);
	x[a] += x[b];
	x[d] = rol32(x[d] ^ x[a], 8);
	x[c] += x[d];
	x[b] = rol32(x[b] ^ x[c], 7);
}

static noinline void chacha_permute(u32 *x, int nrounds)
{
	int i, j;

	for (i = 0; i < nrounds; i += 2) {
		for (j = 0; j < 4; j++)
			quarter(x, j, j + 4, j + 8, j + 12);
		for (j = 0; j < 4; j++)
			quarter(x, j, 4 + ((j + 1) & 3), 8 + ((j + 2) & 3), 12 + ((j + 3) & 3));
	}
}

// chacha_block_generic generates 64 bytes of key stream and increments state[12].
noinline void chacha_block_generic(u32 *state, u8 *stream, int nrounds)
{
	u32 x[16];
	int i;

	memcpy(x, state, 64);
	chacha_permute(x, nrounds);
	for (i = 0; i < 16; i++)
		x[i] += state[i];
	memcpy(stream, x, 64);
	state[12]++;
}
EXPORT_SYMBOL(chacha_block_generic);

// hchacha_block_generic returns eight words from which XChaCha makes its key.
void hchacha_block_generic(const u32 *state, u32 *out, int nrounds)
{
	u32 x[16];

	memcpy(x, state, 64);
	chacha_permute(x, nrounds);
	memcpy(out, x, 16);
	memcpy(out + 4, x + 12, 16);
}
EXPORT_SYMBOL(hchacha_block_generic);

void chacha_crypt_generic(u32 *state, u8 *dst, const u8 *src, unsigned int bytes, int nrounds)
{
	u8 stream[64];
	unsigned int n;

	for (; bytes; bytes -= n, dst += n, src += n) {
		n = bytes < 64 ? bytes : 64;
		chacha_block_generic(state, stream, nrounds);
		__crypto_xor(dst, src, stream, n);
	}
}
