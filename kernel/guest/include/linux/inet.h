#ifndef _LINUX_INET_H
#define _LINUX_INET_H

#include <linux/types.h>

bool mac_pton(const char *s, u8 *mac);
int in4_pton(const char *src, int srclen, u8 *dst, int delim, const char **end);
u32 in_aton(const char *str); // network order

#define __swab16(x) ((u16)((u16)(x) << 8 | (u16)(x) >> 8))
#define htons(x) __swab16(x)
#define ntohs(x) __swab16(x)
#define htonl(x) __builtin_bswap32(x)
#define ntohl(x) __builtin_bswap32(x)

#endif
