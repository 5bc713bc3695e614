#ifndef _LINUX_RANDOM_H
#define _LINUX_RANDOM_H
#include <linux/types.h>
u64 get_random_u64(void);
u32 get_random_u32(void);
u16 get_random_u16(void);
u8 get_random_u8(void);
u32 __get_random_u32_below(u32 ceil);
void get_random_bytes(void *buf, size_t len);
void _get_random_bytes(void *buf, size_t len);
#endif
