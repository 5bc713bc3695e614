#ifndef _LINUX_CRC32_H
#define _LINUX_CRC32_H

#include <linux/types.h>

u32 crc32_le(u32 crc, const unsigned char *p, size_t len);
u32 crc32_be(u32 crc, const unsigned char *p, size_t len);
u32 __crc32c_le(u32 crc, const unsigned char *p, size_t len);
u32 crc32_le_shift(u32 crc, size_t len);
u32 crc32c(u32 crc, const void *p, unsigned int len);

#endif
