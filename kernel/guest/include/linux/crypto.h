// crypto.h: algorithms that modules bring, and the objects that their users get. The
// layouts are 6.1's.
#ifndef _LINUX_CRYPTO_H
#define _LINUX_CRYPTO_H

#include <linux/types.h>
#include <linux/list.h>
#include <linux/refcount.h>

#define CRYPTO_ALG_TYPE_MASK 0xf
#define CRYPTO_ALG_TYPE_CIPHER 1
#define CRYPTO_ALG_TYPE_COMPRESS 2
#define CRYPTO_ALG_TYPE_SCOMPRESS 0xb
#define CRYPTO_ALG_TYPE_RNG 0xc
#define CRYPTO_ALG_TYPE_SHASH 0xe
#define CRYPTO_ALG_OPTIONAL_KEY 0x4000
#define CRYPTO_TFM_NEED_KEY 1
#define CRYPTO_MAX_ALG_NAME 128

struct module;
struct crypto_tfm;

struct cipher_alg {
	unsigned int cia_min_keysize, cia_max_keysize; // bytes
	int (*cia_setkey)(struct crypto_tfm *tfm, const u8 *key, unsigned int keylen);
	void (*cia_encrypt)(struct crypto_tfm *tfm, u8 *dst, const u8 *src);
	void (*cia_decrypt)(struct crypto_tfm *tfm, u8 *dst, const u8 *src);
};

struct compress_alg {
	int (*coa_compress)(struct crypto_tfm *tfm, const u8 *src, unsigned int slen, u8 *dst, unsigned int *dlen);
	int (*coa_decompress)(struct crypto_tfm *tfm, const u8 *src, unsigned int slen, u8 *dst, unsigned int *dlen);
};

struct crypto_alg {
	struct list_head cra_list, cra_users;
	u32 cra_flags;
	unsigned int cra_blocksize, cra_ctxsize, cra_alignmask;
	int cra_priority;
	refcount_t cra_refcnt;
	char cra_name[CRYPTO_MAX_ALG_NAME], cra_driver_name[CRYPTO_MAX_ALG_NAME];
	const void *cra_type;
	union {
		struct cipher_alg cipher;
		struct compress_alg compress;
	} cra_u;
	int (*cra_init)(struct crypto_tfm *tfm);
	void (*cra_exit)(struct crypto_tfm *tfm);
	void (*cra_destroy)(struct crypto_alg *alg);
	struct module *cra_module;
};
static_assert(offsetof(struct crypto_alg, cra_name) == 56 && offsetof(struct crypto_alg, cra_u) == 320, "struct crypto_alg");
static_assert(sizeof(struct crypto_alg) == 384, "struct crypto_alg");

struct crypto_tfm {
	refcount_t refcnt;
	u32 crt_flags;
	int node;
	void (*exit)(struct crypto_tfm *tfm);
	struct crypto_alg *__crt_alg;
	void *__crt_ctx[];
};
static_assert(offsetof(struct crypto_tfm, __crt_ctx) == 32, "struct crypto_tfm");

// The synchronous hashes.
struct crypto_shash {
	unsigned int descsize; // bytes
	struct crypto_tfm base;
};
static_assert(offsetof(struct crypto_shash, base) == 8, "struct crypto_shash");

struct shash_desc {
	struct crypto_shash *tfm;
	u8 ctx[];
};

struct shash_alg {
	int (*init)(struct shash_desc *desc);
	int (*update)(struct shash_desc *desc, const u8 *data, unsigned int len);
	int (*final)(struct shash_desc *desc, u8 *out);
	int (*finup)(struct shash_desc *desc, const u8 *data, unsigned int len, u8 *out);
	int (*digest)(struct shash_desc *desc, const u8 *data, unsigned int len, u8 *out);
	int (*export)(struct shash_desc *desc, void *out);
	int (*import)(struct shash_desc *desc, const void *in);
	int (*setkey)(struct crypto_shash *tfm, const u8 *key, unsigned int keylen);
	int (*init_tfm)(struct crypto_shash *tfm);
	void (*exit_tfm)(struct crypto_shash *tfm);
	unsigned int descsize;
	unsigned int digestsize __aligned(8);
	unsigned int statesize;
	struct crypto_alg base;
};
static_assert(offsetof(struct shash_alg, descsize) == 80 && offsetof(struct shash_alg, digestsize) == 88, "struct shash_alg");
static_assert(offsetof(struct shash_alg, base) == 96 && sizeof(struct shash_alg) == 480, "struct shash_alg");

// Compression with a context that the user does not see.
struct scomp_alg {
	void *(*alloc_ctx)(void *tfm);
	void (*free_ctx)(void *tfm, void *ctx);
	int (*compress)(void *tfm, const u8 *src, unsigned int slen, u8 *dst, unsigned int *dlen, void *ctx);
	int (*decompress)(void *tfm, const u8 *src, unsigned int slen, u8 *dst, unsigned int *dlen, void *ctx);
	struct crypto_alg base;
};

int crypto_register_alg(struct crypto_alg *alg);
void crypto_unregister_alg(struct crypto_alg *alg);
void *crypto_alloc_tfm_of(const char *name, u32 type, u32 mask, size_t head);
void crypto_destroy_tfm(void *mem, struct crypto_tfm *tfm);
#endif
