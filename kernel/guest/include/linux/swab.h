/* swab.h: numbers with their bytes in the opposite order. */
#ifndef _LINUX_SWAB_H
#define _LINUX_SWAB_H
#include <linux/types.h>
#define swab16(x) __builtin_bswap16(x)
#define swab32(x) __builtin_bswap32(x)
#define swab64(x) __builtin_bswap64(x)
#define swahw32(x) ((u32)(x) << 16 | (u32)(x) >> 16)
#define swahb32(x) (((u32)(x) & 0x00ff00ff) << 8 | ((u32)(x) & 0xff00ff00) >> 8)
static inline unsigned long swab(const unsigned long y) { return swab64(y); }
static inline u16 swab16p(const u16 *p) { return swab16(*p); }
static inline u32 swab32p(const u32 *p) { return swab32(*p); }
static inline u64 swab64p(const u64 *p) { return swab64(*p); }
static inline void swab16s(u16 *p) { *p = swab16(*p); }
static inline void swab32s(u32 *p) { *p = swab32(*p); }
static inline void swab64s(u64 *p) { *p = swab64(*p); }
static inline void swab16_array(u16 *buf, unsigned int words)
{
	while (words--)
		swab16s(buf++);
}
static inline void swab32_array(u32 *buf, unsigned int words)
{
	while (words--)
		swab32s(buf++);
}
static inline void swab64_array(u64 *buf, unsigned int words)
{
	while (words--)
		swab64s(buf++);
}
#endif
