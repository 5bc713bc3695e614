// The list of algorithms, and the objects by which they are used.
#include <linux/crypto.h>
#include <linux/err.h>
#include <linux/export.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/rwsem.h>
#include <linux/slab.h>
#include <linux/string.h>

int fips_enabled;
EXPORT_SYMBOL_GPL(fips_enabled);

LIST_HEAD(crypto_alg_list);
EXPORT_SYMBOL_GPL(crypto_alg_list);
static DECLARE_RWSEM(crypto_alg_sem);
static struct blocking_notifier_head crypto_chain = { __RWSEM_INITIALIZER(crypto_chain.rwsem), NULL };

enum { CRYPTO_MSG_ALG_REQUEST, CRYPTO_MSG_ALG_REGISTER, CRYPTO_MSG_ALG_LOADED };

int crypto_register_notifier(struct notifier_block *nb)
{
	return blocking_notifier_chain_register(&crypto_chain, nb);
}
EXPORT_SYMBOL_GPL(crypto_register_notifier);

int crypto_unregister_notifier(struct notifier_block *nb)
{
	return blocking_notifier_chain_unregister(&crypto_chain, nb);
}
EXPORT_SYMBOL_GPL(crypto_unregister_notifier);

static noinline int crypto_check_alg(struct crypto_alg *alg)
{
	if (!alg->cra_name[0] || !alg->cra_driver_name[0] || alg->cra_alignmask & (alg->cra_alignmask + 1))
		return -EINVAL;
	if (alg->cra_alignmask > 63 || alg->cra_blocksize > 4096)
		return -EINVAL;
	if (!alg->cra_type && (alg->cra_flags & CRYPTO_ALG_TYPE_MASK) == CRYPTO_ALG_TYPE_CIPHER &&
	    (alg->cra_alignmask > 15 || alg->cra_blocksize > 16))
		return -EINVAL;
	return alg->cra_priority < 0 ? -EINVAL : 0;
}

// crypto_register_alg adds an algorithm, which fails with -EEXIST if there is a driver of
// its name, and with -EINVAL if it is incomplete.
noinline int crypto_register_alg(struct crypto_alg *alg)
{
	struct crypto_alg *q;
	int err = crypto_check_alg(alg);

	if (err)
		return err;
	down_write(&crypto_alg_sem);
	list_for_each_entry(q, &crypto_alg_list, cra_list)
		if (q == alg || !strcmp(q->cra_driver_name, alg->cra_driver_name) || !strcmp(q->cra_driver_name, alg->cra_name) ||
		    !strcmp(q->cra_name, alg->cra_driver_name))
			err = -EEXIST;
	if (!err) {
		refcount_set(&alg->cra_refcnt, 1);
		INIT_LIST_HEAD(&alg->cra_users);
		list_add(&alg->cra_list, &crypto_alg_list);
	}
	up_write(&crypto_alg_sem);
	if (!err)
		blocking_notifier_call_chain(&crypto_chain, CRYPTO_MSG_ALG_LOADED, alg);
	return err;
}
EXPORT_SYMBOL_GPL(crypto_register_alg);

// crypto_unregister_alg removes an algorithm. If it is in use, it warns, and leaves it
// where it cannot be found.
noinline void crypto_unregister_alg(struct crypto_alg *alg)
{
	down_write(&crypto_alg_sem);
	list_del_init(&alg->cra_list);
	up_write(&crypto_alg_sem);
	WARN_ON(refcount_read(&alg->cra_refcnt) != 1);
}
EXPORT_SYMBOL_GPL(crypto_unregister_alg);

int crypto_register_algs(struct crypto_alg *algs, int count)
{
	int i, err;

	for (i = 0; i < count; i++) {
		err = crypto_register_alg(&algs[i]);
		if (err) {
			while (i--)
				crypto_unregister_alg(&algs[i]);
			return err;
		}
	}
	return 0;
}
EXPORT_SYMBOL_GPL(crypto_register_algs);

void crypto_unregister_algs(struct crypto_alg *algs, int count)
{
	int i;

	for (i = 0; i < count; i++)
		crypto_unregister_alg(&algs[i]);
}
EXPORT_SYMBOL_GPL(crypto_unregister_algs);

void crypto_mod_put(struct crypto_alg *alg)
{
	struct module *module = alg->cra_module;

	WARN_ON(refcount_dec_and_test(&alg->cra_refcnt));
	module_put(module);
}
EXPORT_SYMBOL_GPL(crypto_mod_put);

// crypto_alg_get finds a driver by its name, or else the one of highest priority for an
// algorithm, and takes references to it and to its module.
static struct crypto_alg *crypto_alg_get(const char *name, u32 type, u32 mask)
{
	struct crypto_alg *q, *alg = NULL;
	int best = -1;

	down_read(&crypto_alg_sem);
	list_for_each_entry(q, &crypto_alg_list, cra_list) {
		bool exact = !strcmp(q->cra_driver_name, name);

		if (((q->cra_flags ^ type) & mask) || (!exact && (strcmp(q->cra_name, name) || q->cra_priority <= best)))
			continue;
		best = exact ? 0x7fffffff : q->cra_priority;
		alg = q;
	}
	if (alg && try_module_get(alg->cra_module))
		refcount_inc(&alg->cra_refcnt);
	else
		alg = NULL;
	up_read(&crypto_alg_sem);
	return alg;
}

// crypto_has_alg tells if there is an algorithm of that kind. No module is loaded for it.
int crypto_has_alg(const char *name, u32 type, u32 mask)
{
	struct crypto_alg *alg = crypto_alg_get(name, type, mask);

	if (alg)
		crypto_mod_put(alg);
	return alg != NULL;
}
EXPORT_SYMBOL_GPL(crypto_has_alg);

// crypto_alloc_tfm_of returns an object of an algorithm with head bytes before its struct
// crypto_tfm, or ERR_PTR: -ENOENT if there is no such algorithm, -ENOMEM.
void *crypto_alloc_tfm_of(const char *name, u32 type, u32 mask, size_t head)
{
	struct crypto_alg *alg = crypto_alg_get(name, type, mask);
	struct crypto_tfm *tfm;
	void *mem;

	if (!alg)
		return ERR_PTR(-ENOENT);
	mem = kzalloc(head + sizeof(*tfm) + alg->cra_ctxsize + (alg->cra_alignmask & ~7U), GFP_KERNEL);
	if (!mem) {
		crypto_mod_put(alg);
		return ERR_PTR(-ENOMEM);
	}
	tfm = mem + head;
	tfm->__crt_alg = alg;
	tfm->node = -1;
	refcount_set(&tfm->refcnt, 1);
	return mem;
}

// crypto_alloc_base returns an object of a cipher or of a compression.
struct crypto_tfm *crypto_alloc_base(const char *name, u32 type, u32 mask)
{
	struct crypto_tfm *tfm = crypto_alloc_tfm_of(name, type, mask, 0);
	int err;

	if (IS_ERR(tfm) || !tfm->__crt_alg->cra_init)
		return tfm;
	err = tfm->__crt_alg->cra_init(tfm);
	if (!err)
		return tfm;
	crypto_mod_put(tfm->__crt_alg);
	kfree(tfm);
	return ERR_PTR(err);
}
EXPORT_SYMBOL_GPL(crypto_alloc_base);

void crypto_destroy_tfm(void *mem, struct crypto_tfm *tfm)
{
	if (IS_ERR_OR_NULL(mem) || !refcount_dec_and_test(&tfm->refcnt))
		return;
	if (tfm->exit)
		tfm->exit(tfm);
	else if (tfm->__crt_alg->cra_exit)
		tfm->__crt_alg->cra_exit(tfm);
	crypto_mod_put(tfm->__crt_alg);
	kfree_sensitive(mem);
}
EXPORT_SYMBOL_GPL(crypto_destroy_tfm);

// A cipher of one block. All are called with blocks of the algorithm's size.
int crypto_cipher_setkey(struct crypto_tfm *tfm, const u8 *key, unsigned int keylen)
{
	struct cipher_alg *c = &tfm->__crt_alg->cra_u.cipher;

	if (keylen < c->cia_min_keysize || keylen > c->cia_max_keysize)
		return -EINVAL;
	return c->cia_setkey(tfm, key, keylen);
}
EXPORT_SYMBOL_GPL(crypto_cipher_setkey);

void crypto_cipher_encrypt_one(struct crypto_tfm *tfm, u8 *dst, const u8 *src)
{
	tfm->__crt_alg->cra_u.cipher.cia_encrypt(tfm, dst, src);
}
EXPORT_SYMBOL_GPL(crypto_cipher_encrypt_one);

void crypto_cipher_decrypt_one(struct crypto_tfm *tfm, u8 *dst, const u8 *src)
{
	tfm->__crt_alg->cra_u.cipher.cia_decrypt(tfm, dst, src);
}
EXPORT_SYMBOL_GPL(crypto_cipher_decrypt_one);

int crypto_comp_compress(struct crypto_tfm *tfm, const u8 *src, unsigned int slen, u8 *dst, unsigned int *dlen)
{
	return tfm->__crt_alg->cra_u.compress.coa_compress(tfm, src, slen, dst, dlen);
}
EXPORT_SYMBOL_GPL(crypto_comp_compress);

int crypto_comp_decompress(struct crypto_tfm *tfm, const u8 *src, unsigned int slen, u8 *dst, unsigned int *dlen)
{
	return tfm->__crt_alg->cra_u.compress.coa_decompress(tfm, src, slen, dst, dlen);
}
EXPORT_SYMBOL_GPL(crypto_comp_decompress);

static int crypto_register_as(struct crypto_alg *base, u32 type)
{
	base->cra_flags = (base->cra_flags & ~CRYPTO_ALG_TYPE_MASK) | type;
	return crypto_register_alg(base);
}

// Compression of type scomp and random number generators are only registered: users get at
// them by calls that are not there.
int crypto_register_scomp(struct scomp_alg *alg)
{
	return crypto_register_as(&alg->base, CRYPTO_ALG_TYPE_SCOMPRESS);
}
EXPORT_SYMBOL_GPL(crypto_register_scomp);

void crypto_unregister_scomp(struct scomp_alg *alg)
{
	crypto_unregister_alg(&alg->base);
}
EXPORT_SYMBOL_GPL(crypto_unregister_scomp);
