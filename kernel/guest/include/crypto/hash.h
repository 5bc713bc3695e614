#ifndef _CRYPTO_HASH_H
#define _CRYPTO_HASH_H

#include <linux/types.h>

#define SHA1_DIGEST_SIZE 20
#define SHA1_DIGEST_WORDS 5
#define SHA1_WORKSPACE_WORDS 16
#define SHA256_DIGEST_SIZE 32
#define SHA224_DIGEST_SIZE 28
#define SHA256_BLOCK_SIZE 64

struct sha256_state {
	u32 state[8];
	u64 count; // bytes taken
	u8 buf[SHA256_BLOCK_SIZE];
};

void sha256_init(struct sha256_state *s);
void sha224_init(struct sha256_state *s);
void sha256_update(struct sha256_state *s, const u8 *data, unsigned int len);
void sha256_final(struct sha256_state *s, u8 *out);
void sha224_final(struct sha256_state *s, u8 *out);
void sha256(const u8 *data, unsigned int len, u8 *out);

void sha1_init(u32 *digest);
void sha1_transform(u32 *digest, const char *data, u32 *workspace);

struct blake2s_state {
	u32 h[8], t[2], f[2];
	u8 buf[64];
	unsigned int buflen, outlen;
};

void blake2s_init(struct blake2s_state *s, size_t outlen, const u8 *key, size_t keylen);
void blake2s_compress_generic(struct blake2s_state *s, const u8 *block, size_t nblocks, u32 inc);
void blake2s_update(struct blake2s_state *s, const u8 *in, size_t len);
void blake2s_final(struct blake2s_state *s, u8 *out);

void chacha_block_generic(u32 *state, u8 *stream, int nrounds);
void hchacha_block_generic(const u32 *state, u32 *out, int nrounds);
void chacha_crypt_generic(u32 *state, u8 *dst, const u8 *src, unsigned int bytes, int nrounds);

struct crypto_aes_ctx {
	u32 key_enc[60];
	u32 key_dec[60];
	u32 key_length; // bytes
};

int aes_expandkey(struct crypto_aes_ctx *ctx, const u8 *key, unsigned int len);
void aes_encrypt(const struct crypto_aes_ctx *ctx, u8 *out, const u8 *in);
void aes_decrypt(const struct crypto_aes_ctx *ctx, u8 *out, const u8 *in);

unsigned long __crypto_memneq(const void *a, const void *b, size_t size);
void __crypto_xor(u8 *dst, const u8 *a, const u8 *b, unsigned int len);

#endif
