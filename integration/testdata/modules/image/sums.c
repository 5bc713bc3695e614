// SPDX-License-Identifier: MIT
/* sums calls what library modules export: checksums, codes that correct errors, angles, compression, searching. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <crypto/arc4.h>
#include <crypto/des.h>
#include <linux/bch.h>
#include <linux/cordic.h>
#include <linux/crc-t10dif.h>
#include <linux/crc32c.h>
#include <linux/crc64.h>
#include <linux/crc7.h>
#include <linux/lz4.h>
#include <linux/module.h>
#include <linux/nls.h>
#include <linux/rslib.h>
#include <linux/slab.h>
#include <linux/textsearch.h>

static const char text[] = "The quick brown fox jumps over the lazy dog";
#define LEN (sizeof(text) - 1)

static void checks(void)
{
	pr_info("crc7 %#x\n", crc7_be(0, text, LEN));
	pr_info("crc64 %#llx\n", crc64_be(0, text, LEN));
	pr_info("crc64 of rocksoft %#llx\n", crc64_rocksoft_generic(~0ULL, text, LEN));
	pr_info("crc32c %#x\n", crc32c(~0, text, LEN));
	pr_info("t10dif %#x %#x\n", crc_t10dif(text, LEN), crc_t10dif_generic(0, text, LEN));
}

static void codes(void)
{
	struct rs_control *rs = init_rs(8, 0x11d, 0, 1, 16);
	struct bch_control *bch = bch_init(13, 4, 0, false);
	unsigned int where[4];
	u8 data[LEN], ecc[8] = {};
	u16 par[16] = {};
	int n;

	memcpy(data, text, LEN);
	if (rs) {
		encode_rs8(rs, data, LEN, par, 0);
		pr_info("parity %*ph\n", (int)sizeof(par), par);
		data[3] ^= 0x55;
		data[20] ^= 1;
		n = decode_rs8(rs, data, par, LEN, NULL, 0, NULL, 0, NULL);
		pr_info("corrected %d, right %d\n", n, !memcmp(data, text, LEN));
		free_rs(rs);
	}
	if (!IS_ERR_OR_NULL(bch)) {
		bch_encode(bch, text, LEN, ecc);
		pr_info("BCH %*ph of %u bytes\n", bch->ecc_bytes, ecc, bch->ecc_bytes);
		data[7] ^= 0x10;
		n = bch_decode(bch, data, LEN, ecc, NULL, NULL, where);
		pr_info("errors %d, at bit %u\n", n, n > 0 ? where[0] : 0);
		bch_free(bch);
	}
}

static void ciphers(void)
{
	struct des_ctx des;
	struct arc4_ctx *arc4 = kmalloc(sizeof(*arc4), GFP_KERNEL);
	u8 out[LEN], back[8];

	if (!arc4)
		return;
	arc4_setkey(arc4, "a key", 5);
	arc4_crypt(arc4, out, text, LEN);
	pr_info("arc4 %*phN\n", 16, out);
	kfree(arc4);
	pr_info("des %d\n", des_expand_key(&des, "12345678", 8));
	des_encrypt(&des, out, text);
	des_decrypt(&des, back, out);
	pr_info("des %*phN, back %d\n", 8, out, !memcmp(back, text, 8));
}

static void angles(void)
{
	int theta;

	for (theta = -180; theta <= 180; theta += 60) {
		struct cordic_iq iq = cordic_calc_iq(CORDIC_FIXED(theta));

		pr_info("%d degrees: %d %d\n", theta, iq.i, iq.q);
	}
}

static void compression(void)
{
	char *in = kmalloc(4096, GFP_KERNEL), *out = kmalloc(8192, GFP_KERNEL), *back = kmalloc(4096, GFP_KERNEL);
	void *mem = kmalloc(LZ4_MEM_COMPRESS, GFP_KERNEL);
	int i, n, m;

	for (i = 0; i < 4096; i++)
		in[i] = text[i % 50 < LEN ? i % 50 : i % 7];
	for (i = 1; i < 100; i += 40) {
		n = LZ4_compress_fast(in, out, 4096, 8192, i, mem);
		m = LZ4_decompress_safe(out, back, n, 4096);
		pr_info("lz4, acceleration %d: %d bytes, back %d, the same %d\n", i, n, m, !memcmp(in, back, 4096));
	}
	pr_info("lz4, too little room: %d\n", LZ4_compress_default(in, out, 4096, 20, mem));
	kfree(mem);
	kfree(in);
	kfree(out);
	kfree(back);
}

static void search(const char *algo)
{
	struct ts_config *conf = textsearch_prepare(algo, "over", 4, GFP_KERNEL, TS_IGNORECASE);
	struct ts_state state;

	if (IS_ERR(conf)) {
		pr_info("%s: %ld\n", algo, PTR_ERR(conf));
		return;
	}
	pr_info("%s: %u\n", algo, textsearch_find_continuous(conf, &state, text, LEN));
	textsearch_destroy(conf);
}

static void charset(const char *name)
{
	struct nls_table *nls = load_nls(name);
	wchar_t wide = 0;
	unsigned char out[8];
	int n;

	if (!nls) {
		pr_info("%s: none\n", name);
		return;
	}
	n = nls->char2uni("\xe4", 1, &wide);
	pr_info("%s: %d %#x", nls->charset, n, (unsigned int)wide);
	pr_cont(", back %d\n", nls->uni2char(wide, out, sizeof(out)));
	unload_nls(nls);
}

static int __init sums_init(void)
{
	checks();
	codes();
	ciphers();
	angles();
	compression();
	search("kmp");
	search("bm");
	charset("cp437");
	charset("iso8859-15");
	charset("koi8-r");
	return 0;
}

static void __exit sums_exit(void)
{
}

module_init(sums_init);
module_exit(sums_exit);
MODULE_LICENSE("GPL");
