// Synchronous hashes.
#include <linux/crypto.h>
#include <linux/err.h>
#include <linux/export.h>
#include <linux/kernel.h>
#include <linux/slab.h>
#include <linux/string.h>

#define HASH_MAX_DIGESTSIZE 64
#define HASH_MAX_DESCSIZE 368 // sizeof(struct shash_desc) + 360
#define HASH_MAX_STATESIZE 512

static struct shash_alg *shash_of(struct crypto_shash *tfm)
{
	return container_of(tfm->base.__crt_alg, struct shash_alg, base);
}

static int shash_finup_default(struct shash_desc *desc, const u8 *data, unsigned int len, u8 *out)
{
	struct shash_alg *alg = shash_of(desc->tfm);

	return alg->update(desc, data, len) ?: alg->final(desc, out);
}

static int shash_digest_default(struct shash_desc *desc, const u8 *data, unsigned int len, u8 *out)
{
	struct shash_alg *alg = shash_of(desc->tfm);

	return alg->init(desc) ?: alg->finup(desc, data, len, out);
}

static int shash_default_export(struct shash_desc *desc, void *out)
{
	memcpy(out, desc->ctx, desc->tfm->descsize);
	return 0;
}

static int shash_default_import(struct shash_desc *desc, const void *in)
{
	memcpy(desc->ctx, in, desc->tfm->descsize);
	return 0;
}

static int shash_no_setkey(struct crypto_shash *tfm, const u8 *key, unsigned int keylen)
{
	return -ENOSYS;
}

bool crypto_shash_alg_has_setkey(struct shash_alg *alg)
{
	return alg->setkey != shash_no_setkey;
}
EXPORT_SYMBOL_GPL(crypto_shash_alg_has_setkey);

static noinline int shash_prepare_alg(struct shash_alg *alg)
{
	if (alg->digestsize > HASH_MAX_DIGESTSIZE || alg->descsize > HASH_MAX_DESCSIZE || alg->statesize > HASH_MAX_STATESIZE)
		return -EINVAL;
	if (!!alg->export != !!alg->import || (alg->export && !alg->statesize))
		return -EINVAL;
	alg->base.cra_flags = (alg->base.cra_flags & ~CRYPTO_ALG_TYPE_MASK) | CRYPTO_ALG_TYPE_SHASH;
	if (!alg->finup)
		alg->finup = shash_finup_default;
	if (!alg->digest)
		alg->digest = shash_digest_default;
	if (!alg->export) {
		alg->export = shash_default_export;
		alg->import = shash_default_import;
		alg->statesize = alg->descsize;
	}
	if (!alg->setkey)
		alg->setkey = shash_no_setkey;
	return 0;
}

int crypto_register_shash(struct shash_alg *alg)
{
	return shash_prepare_alg(alg) ?: crypto_register_alg(&alg->base);
}
EXPORT_SYMBOL_GPL(crypto_register_shash);

void crypto_unregister_shash(struct shash_alg *alg)
{
	crypto_unregister_alg(&alg->base);
}
EXPORT_SYMBOL_GPL(crypto_unregister_shash);

int crypto_register_shashes(struct shash_alg *algs, int count)
{
	int i, err;

	for (i = 0; i < count; i++) {
		err = crypto_register_shash(&algs[i]);
		if (err) {
			while (i--)
				crypto_unregister_shash(&algs[i]);
			return err;
		}
	}
	return 0;
}
EXPORT_SYMBOL_GPL(crypto_register_shashes);

void crypto_unregister_shashes(struct shash_alg *algs, int count)
{
	while (count--)
		crypto_unregister_shash(&algs[count]);
}
EXPORT_SYMBOL_GPL(crypto_unregister_shashes);

static void shash_set_needkey(struct crypto_shash *tfm, struct shash_alg *alg)
{
	if (crypto_shash_alg_has_setkey(alg) && !(alg->base.cra_flags & CRYPTO_ALG_OPTIONAL_KEY))
		tfm->base.crt_flags |= CRYPTO_TFM_NEED_KEY;
}

static void crypto_shash_exit_tfm(struct crypto_tfm *tfm)
{
	struct crypto_shash *hash = container_of(tfm, struct crypto_shash, base);

	shash_of(hash)->exit_tfm(hash);
}

// crypto_alloc_shash returns a hash, or ERR_PTR: -ENOENT if there is none of that name.
struct crypto_shash *crypto_alloc_shash(const char *name, u32 type, u32 mask)
{
	struct crypto_shash *tfm = crypto_alloc_tfm_of(name, (type & ~CRYPTO_ALG_TYPE_MASK) | CRYPTO_ALG_TYPE_SHASH,
						      mask | CRYPTO_ALG_TYPE_MASK, offsetof(struct crypto_shash, base));
	struct shash_alg *alg;
	int err = 0;

	if (IS_ERR(tfm))
		return tfm;
	alg = shash_of(tfm);
	tfm->descsize = alg->descsize;
	shash_set_needkey(tfm, alg);
	if (alg->init_tfm)
		err = alg->init_tfm(tfm);
	if (!err && alg->exit_tfm)
		tfm->base.exit = crypto_shash_exit_tfm;
	else if (!err && alg->base.cra_init)
		err = alg->base.cra_init(&tfm->base);
	if (!err)
		return tfm;
	tfm->base.exit = NULL;
	crypto_destroy_tfm(tfm, &tfm->base);
	return ERR_PTR(err);
}
EXPORT_SYMBOL_GPL(crypto_alloc_shash);

int crypto_has_alg(const char *name, u32 type, u32 mask);

int crypto_has_shash(const char *name, u32 type, u32 mask)
{
	return crypto_has_alg(name, (type & ~CRYPTO_ALG_TYPE_MASK) | CRYPTO_ALG_TYPE_SHASH, mask | CRYPTO_ALG_TYPE_MASK);
}
EXPORT_SYMBOL_GPL(crypto_has_shash);

int crypto_shash_setkey(struct crypto_shash *tfm, const u8 *key, unsigned int keylen)
{
	struct shash_alg *alg = shash_of(tfm);
	int err = alg->setkey(tfm, key, keylen);

	if (err)
		shash_set_needkey(tfm, alg);
	else
		tfm->base.crt_flags &= ~CRYPTO_TFM_NEED_KEY;
	return err;
}
EXPORT_SYMBOL_GPL(crypto_shash_setkey);

int crypto_shash_update(struct shash_desc *desc, const u8 *data, unsigned int len)
{
	return shash_of(desc->tfm)->update(desc, data, len);
}
EXPORT_SYMBOL_GPL(crypto_shash_update);

int crypto_shash_final(struct shash_desc *desc, u8 *out)
{
	return shash_of(desc->tfm)->final(desc, out);
}
EXPORT_SYMBOL_GPL(crypto_shash_final);

int crypto_shash_finup(struct shash_desc *desc, const u8 *data, unsigned int len, u8 *out)
{
	return shash_of(desc->tfm)->finup(desc, data, len, out);
}
EXPORT_SYMBOL_GPL(crypto_shash_finup);

// crypto_shash_digest is -ENOKEY if the hash has no key and needs one.
noinline int crypto_shash_digest(struct shash_desc *desc, const u8 *data, unsigned int len, u8 *out)
{
	if (desc->tfm->base.crt_flags & CRYPTO_TFM_NEED_KEY)
		return -ENOKEY;
	return shash_of(desc->tfm)->digest(desc, data, len, out);
}
EXPORT_SYMBOL_GPL(crypto_shash_digest);

int crypto_shash_tfm_digest(struct crypto_shash *tfm, const u8 *data, unsigned int len, u8 *out)
{
	struct shash_desc *desc = kzalloc(sizeof(*desc) + tfm->descsize, GFP_KERNEL);
	int err;

	if (!desc)
		return -ENOMEM;
	desc->tfm = tfm;
	err = crypto_shash_digest(desc, data, len, out);
	kfree_sensitive(desc);
	return err;
}
EXPORT_SYMBOL_GPL(crypto_shash_tfm_digest);
