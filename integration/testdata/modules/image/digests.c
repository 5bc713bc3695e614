// SPDX-License-Identifier: MIT
/* digests computes what hash algorithms, ciphers and compressions of other modules give. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <crypto/hash.h>
#include <crypto/internal/cipher.h>
#include <linux/crypto.h>
#include <linux/module.h>
#include <linux/slab.h>

MODULE_IMPORT_NS(CRYPTO_INTERNAL);

static char *hash[32], *cipher[16], *comp[8];
static int hashes, ciphers, comps;
module_param_array(hash, charp, &hashes, 0);
module_param_array(cipher, charp, &ciphers, 0);
module_param_array(comp, charp, &comps, 0);

static const char text[] = "The quick brown fox jumps over the lazy dog";

static void digest(const char *name)
{
	struct crypto_shash *tfm = crypto_alloc_shash(name, 0, 0);
	u8 key[64], out[64];
	int err = 0;

	if (IS_ERR(tfm)) {
		pr_info("%s: error %ld\n", name, PTR_ERR(tfm));
		return;
	}
	memset(key, 0x5a, sizeof(key));
	if (crypto_shash_get_flags(tfm) & CRYPTO_TFM_NEED_KEY)
		err = crypto_shash_setkey(tfm, key, crypto_shash_blocksize(tfm) > 8 ? 32 : 8);
	if (!err)
		err = crypto_shash_tfm_digest(tfm, text, sizeof(text) - 1, out);
	pr_info("%s (%s): %d %*phN\n", name, crypto_shash_driver_name(tfm), err, (int)crypto_shash_digestsize(tfm), out);
	crypto_free_shash(tfm);
}

static void parts(const char *name)
{
	struct crypto_shash *tfm = crypto_alloc_shash(name, 0, 0);
	u8 out[64];
	int i, err;

	if (IS_ERR(tfm))
		return;
	if (!(crypto_shash_get_flags(tfm) & CRYPTO_TFM_NEED_KEY)) {
		SHASH_DESC_ON_STACK(desc, tfm);

		desc->tfm = tfm;
		err = crypto_shash_init(desc);
		for (i = 0; !err && i < 1000; i++)
			err = crypto_shash_update(desc, text, i % sizeof(text));
		err = err ?: crypto_shash_final(desc, out);
		pr_info("%s in parts: %d %*phN\n", name, err, (int)crypto_shash_digestsize(tfm), out);
	}
	crypto_free_shash(tfm);
}

static void block(const char *name)
{
	struct crypto_cipher *tfm = crypto_alloc_cipher(name, 0, 0);
	u8 key[32], in[16], out[16], back[16];
	int i, n;

	if (IS_ERR(tfm)) {
		pr_info("%s: error %ld\n", name, PTR_ERR(tfm));
		return;
	}
	for (i = 0; i < sizeof(key); i++)
		key[i] = 7 * i + 1;
	memcpy(in, text, sizeof(in));
	n = crypto_cipher_blocksize(tfm);
	for (i = 8; i <= 32; i += 8) {
		if (crypto_cipher_setkey(tfm, key, i))
			continue;
		crypto_cipher_encrypt_one(tfm, out, in);
		crypto_cipher_decrypt_one(tfm, back, out);
		pr_info("%s, key of %d: %*phN, back %d\n", name, i, n, out, !memcmp(in, back, n));
	}
	crypto_free_cipher(tfm);
}

static void squeeze(const char *name)
{
	struct crypto_comp *tfm = crypto_alloc_comp(name, 0, 0);
	unsigned int n = 8192, back = 4096;
	u8 *in, *out, *again;
	int i, err;

	if (IS_ERR(tfm)) {
		pr_info("%s: error %ld\n", name, PTR_ERR(tfm));
		return;
	}
	in = kmalloc(4096, GFP_KERNEL);
	out = kmalloc(8192, GFP_KERNEL);
	again = kzalloc(4096, GFP_KERNEL);
	for (i = 0; i < 4096; i++)
		in[i] = text[(i * i / 7 + i / 43) % (sizeof(text) - 1)];
	err = crypto_comp_compress(tfm, in, 4096, out, &n);
	pr_info("%s: %d, %u bytes, begin with %*phN\n", name, err, n, 16, out);
	err = crypto_comp_decompress(tfm, out, n, again, &back);
	pr_info("%s: %d, %u bytes, the same %d\n", name, err, back, !memcmp(in, again, 4096));
	back = 100;
	pr_info("%s into 100 bytes: %d\n", name, crypto_comp_decompress(tfm, out, n, again, &back) != 0);
	kfree(in);
	kfree(out);
	kfree(again);
	crypto_free_comp(tfm);
}

static int __init digests_init(void)
{
	int i;

	for (i = 0; i < hashes; i++) {
		digest(hash[i]);
		parts(hash[i]);
	}
	for (i = 0; i < ciphers; i++)
		block(cipher[i]);
	for (i = 0; i < comps; i++)
		squeeze(comp[i]);
	return 0;
}

static void __exit digests_exit(void)
{
}

module_init(digests_init);
module_exit(digests_exit);
MODULE_LICENSE("GPL");
