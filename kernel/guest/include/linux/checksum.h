#ifndef _LINUX_CHECKSUM_H
#define _LINUX_CHECKSUM_H

#include <linux/types.h>

// csum_partial adds len bytes to a ones' complement sum in progress.
__wsum csum_partial(const void *buff, int len, __wsum sum);
__wsum csum_partial_copy_nocheck(const void *src, void *dst, int len);
__sum16 ip_compute_csum(const void *buff, int len);
__sum16 ip_fast_csum(const void *iph, unsigned int ihl);
__sum16 csum_tcpudp_magic(__be32 saddr, __be32 daddr, u32 len, u8 proto, __wsum sum);

// csum_fold makes the 16-bit checksum of a sum.
static inline __sum16 csum_fold(__wsum sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (__sum16)~sum;
}

static inline __wsum csum_add(__wsum a, __wsum b)
{
	a += b;
	return a + (a < b);
}

#endif
