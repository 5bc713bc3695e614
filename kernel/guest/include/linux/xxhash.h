#ifndef _LINUX_XXHASH_H
#define _LINUX_XXHASH_H

#include <linux/types.h>

u32 xxh32(const void *input, size_t length, u32 seed);
u64 xxh64(const void *input, size_t length, u64 seed);

#endif
