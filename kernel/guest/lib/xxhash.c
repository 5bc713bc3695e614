// xxHash by Yann Collet: four lanes over the bulk, a tail, an avalanche.
#include <linux/types.h>
#include <linux/errno.h>
#include <linux/string.h>
#include <linux/xxhash.h>
#include <linux/export.h>

#define P32_1 0x9E3779B1U
#define P32_2 0x85EBCA77U
#define P32_3 0xC2B2AE3DU
#define P32_4 0x27D4EB2FU
#define P32_5 0x165667B1U
#define P64_1 0x9E3779B185EBCA87ULL
#define P64_2 0xC2B2AE3D27D4EB4FULL
#define P64_3 0x165667B19E3779F9ULL
#define P64_4 0x85EBCA77C2B2AE63ULL
#define P64_5 0x27D4EB2F165667C5ULL

static inline u32 rotate32(u32 x, int n)
{
	return x << n | x >> (32 - n);
}

static inline u64 rotate64(u64 x, int n)
{
	return x << n | x >> (64 - n);
}

static inline u32 load32(const u8 *p)
{
	u32 v;

	memcpy(&v, p, 4);
	return v;
}

static inline u64 load64(const u8 *p)
{
	u64 v;

	memcpy(&v, p, 8);
	return v;
}

static inline u32 round32(u32 acc, u32 word)
{
	return rotate32(acc + word * P32_2, 13) * P32_1;
}

static inline u64 round64(u64 acc, u64 word)
{
	return rotate64(acc + word * P64_2, 31) * P64_1;
}

u32 xxh32(const void *input, size_t length, u32 seed)
{
	const u8 *p = input, *end = p + length;
	u32 lane[4] = { seed + P32_1 + P32_2, seed + P32_2, seed, seed - P32_1 };
	u32 h = seed + P32_5;
	int i;

	if (length >= 16) {
		for (; end - p >= 16; p += 16) {
			for (i = 0; i < 4; i++)
				lane[i] = round32(lane[i], load32(p + 4 * i));
		}
		h = rotate32(lane[0], 1) + rotate32(lane[1], 7) + rotate32(lane[2], 12) + rotate32(lane[3], 18);
	}
	h += (u32)length;
	for (; end - p >= 4; p += 4)
		h = rotate32(h + load32(p) * P32_3, 17) * P32_4;
	for (; p < end; p++)
		h = rotate32(h + *p * P32_5, 11) * P32_1;
	h = (h ^ h >> 15) * P32_2;
	h = (h ^ h >> 13) * P32_3;
	return h ^ h >> 16;
}
EXPORT_SYMBOL(xxh32);

// xxh64_tail returns the hash of what the lanes have become, or of nothing, and of the
// bytes behind that.
static u64 xxh64_tail(u64 h, const u8 *p, const u8 *end)
{
	for (; end - p >= 8; p += 8)
		h = rotate64(h ^ round64(0, load64(p)), 27) * P64_1 + P64_4;
	if (end - p >= 4) {
		h = rotate64(h ^ load32(p) * P64_1, 23) * P64_2 + P64_3;
		p += 4;
	}
	for (; p < end; p++)
		h = rotate64(h ^ *p * P64_5, 11) * P64_1;
	h = (h ^ h >> 33) * P64_2;
	h = (h ^ h >> 29) * P64_3;
	return h ^ h >> 32;
}

static u64 xxh64_merge(const u64 *lane)
{
	u64 h = rotate64(lane[0], 1) + rotate64(lane[1], 7) + rotate64(lane[2], 12) + rotate64(lane[3], 18);
	int i;

	for (i = 0; i < 4; i++)
		h = (h ^ round64(0, lane[i])) * P64_1 + P64_4;
	return h;
}

u64 xxh64(const void *input, size_t length, u64 seed)
{
	const u8 *p = input, *end = p + length;
	u64 lane[4] = { seed + P64_1 + P64_2, seed + P64_2, seed, seed - P64_1 };
	u64 h = seed + P64_5;
	int i;

	if (length >= 32) {
		for (; end - p >= 32; p += 32) {
			for (i = 0; i < 4; i++)
				lane[i] = round64(lane[i], load64(p + 8 * i));
		}
		h = xxh64_merge(lane);
	}
	return xxh64_tail(h + length, p, end);
}
EXPORT_SYMBOL(xxh64);

// The layout is 6.1's.
struct xxh64_state {
	u64 total_len, v1, v2, v3, v4;
	u64 mem64[4];
	u32 memsize;
};

void xxh64_reset(struct xxh64_state *state, u64 seed)
{
	memset(state, 0, sizeof(*state));
	state->v1 = seed + P64_1 + P64_2;
	state->v2 = seed + P64_2;
	state->v3 = seed;
	state->v4 = seed - P64_1;
}
EXPORT_SYMBOL(xxh64_reset);

// xxh64_update returns 0, or -EINVAL if there is no input.
int xxh64_update(struct xxh64_state *state, const void *input, size_t len)
{
	const u8 *p = input, *end = p + len;
	u64 *lane = &state->v1;
	int i;

	if (!input)
		return -EINVAL;
	state->total_len += len;
	while (p < end) {
		size_t n = 32 - state->memsize;

		if (n > (size_t)(end - p))
			n = end - p;
		memcpy((u8 *)state->mem64 + state->memsize, p, n);
		p += n;
		state->memsize += n;
		if (state->memsize < 32)
			break;
		for (i = 0; i < 4; i++)
			lane[i] = round64(lane[i], state->mem64[i]);
		state->memsize = 0;
	}
	return 0;
}
EXPORT_SYMBOL(xxh64_update);

u64 xxh64_digest(const struct xxh64_state *state)
{
	const u8 *left = (const u8 *)state->mem64;
	u64 h = state->total_len >= 32 ? xxh64_merge(&state->v1) : state->v3 + P64_5;

	return xxh64_tail(h + state->total_len, left, left + state->memsize);
}
EXPORT_SYMBOL(xxh64_digest);

struct xxh32_state {
	u32 total_len_32, large_len, v1, v2, v3, v4;
	u32 mem32[4];
	u32 memsize;
};

void xxh32_copy_state(struct xxh32_state *dst, const struct xxh32_state *src)
{
	memcpy(dst, src, sizeof(*dst));
}
EXPORT_SYMBOL(xxh32_copy_state);

void xxh64_copy_state(struct xxh64_state *dst, const struct xxh64_state *src)
{
	memcpy(dst, src, sizeof(*dst));
}
EXPORT_SYMBOL(xxh64_copy_state);
