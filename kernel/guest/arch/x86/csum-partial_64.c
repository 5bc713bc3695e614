// The Internet checksum: ones' complement sums of 16-bit words.
#include <linux/types.h>
#include <linux/string.h>
#include <linux/checksum.h>

// add64 is an addition with end-around carry.
static inline u64 add64(u64 a, u64 b)
{
	a += b;
	return a + (a < b);
}

static __wsum to_32(u64 sum)
{
	return csum_add(sum >> 32, (u32)sum);
}

__wsum csum_partial(const void *buff, int len, __wsum sum)
{
	const u8 *p = buff;
	u64 total = sum, word;

	for (; len >= 8; len -= 8, p += 8) {
		memcpy(&word, p, 8);
		total = add64(total, word);
	}
	if (len > 0) {
		for (word = 0; len > 0; len--)
			word = word << 8 | p[len - 1];
		total = add64(total, word);
	}
	return to_32(total);
}

__wsum csum_partial_copy_nocheck(const void *src, void *dst, int len)
{
	memcpy(dst, src, len);
	return csum_partial(dst, len, 0);
}

__sum16 ip_compute_csum(const void *buff, int len)
{
	return csum_fold(csum_partial(buff, len, 0));
}

// ip_fast_csum sums a header of ihl 32-bit words.
__sum16 ip_fast_csum(const void *iph, unsigned int ihl)
{
	return csum_fold(csum_partial(iph, ihl * 4, 0));
}

// csum_tcpudp_magic adds TCP's or UDP's pseudo header to sum and folds it.
__sum16 csum_tcpudp_magic(__be32 saddr, __be32 daddr, u32 len, u8 proto, __wsum sum)
{
	u64 total = (u64)saddr + daddr + sum + ((u64)(len + proto) << 8);

	return csum_fold(to_32(total));
}
