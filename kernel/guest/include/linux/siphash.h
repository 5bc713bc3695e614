#ifndef _LINUX_SIPHASH_H
#define _LINUX_SIPHASH_H

#include <linux/types.h>

typedef struct {
	u64 key[2];
} siphash_key_t;

typedef struct {
	unsigned long key[2];
} hsiphash_key_t;

// SipHash-2-4.
u64 __siphash_aligned(const void *data, size_t len, const siphash_key_t *key);
u64 __siphash_unaligned(const void *data, size_t len, const siphash_key_t *key);
u64 siphash_1u64(u64 a, const siphash_key_t *key);
u64 siphash_2u64(u64 a, u64 b, const siphash_key_t *key);
u64 siphash_3u64(u64 a, u64 b, u64 c, const siphash_key_t *key);
u64 siphash_4u64(u64 a, u64 b, u64 c, u64 d, const siphash_key_t *key);
u64 siphash_1u32(u32 a, const siphash_key_t *key);
u64 siphash_3u32(u32 a, u32 b, u32 c, const siphash_key_t *key);

// HalfSipHash: on 64-bit machines SipHash-1-3 cut to 32 bits.
u32 __hsiphash_aligned(const void *data, size_t len, const hsiphash_key_t *key);
u32 __hsiphash_unaligned(const void *data, size_t len, const hsiphash_key_t *key);
u32 hsiphash_1u32(u32 a, const hsiphash_key_t *key);
u32 hsiphash_2u32(u32 a, u32 b, const hsiphash_key_t *key);
u32 hsiphash_3u32(u32 a, u32 b, u32 c, const hsiphash_key_t *key);
u32 hsiphash_4u32(u32 a, u32 b, u32 c, u32 d, const hsiphash_key_t *key);

#endif
