// L'Ecuyer's four combined Tausworthe generators (LFSR113): fast, but predictable.
#include <linux/types.h>
#include <linux/string.h>
#include <linux/prandom.h>
#include <linux/export.h>

static u32 step(u32 s, int a, int b, u32 c, int d)
{
	return (s & c) << d ^ ((s << a) ^ s) >> b;
}

noinline u32 prandom_u32_state(struct rnd_state *state)
{
	state->s1 = step(state->s1, 6, 13, 0xfffffffe, 18);
	state->s2 = step(state->s2, 2, 27, 0xfffffff8, 2);
	state->s3 = step(state->s3, 13, 21, 0xfffffff0, 7);
	state->s4 = step(state->s4, 3, 12, 0xffffff80, 13);
	return state->s1 ^ state->s2 ^ state->s3 ^ state->s4;
}
EXPORT_SYMBOL(prandom_u32_state);

// Each of the four seeds has a lower bound.
static u32 at_least(u32 x, u32 m)
{
	return x < m ? x + m : x;
}

void prandom_seed_full_state(struct rnd_state *state, u64 seed)
{
	u32 i = (u32)(seed >> 32) ^ (u32)(seed << 10) ^ (u32)seed;

	state->s1 = at_least(i, 2);
	state->s2 = at_least(i, 8);
	state->s3 = at_least(i, 16);
	state->s4 = at_least(i, 128);
	for (i = 0; i < 10; i++)
		prandom_u32_state(state);
}
EXPORT_SYMBOL(prandom_seed_full_state);

void prandom_bytes_state(struct rnd_state *state, void *buf, size_t n)
{
	u8 *p = buf;
	u32 v;

	for (; n >= 4; n -= 4, p += 4) {
		v = prandom_u32_state(state);
		memcpy(p, &v, 4);
	}
	if (n) {
		v = prandom_u32_state(state);
		memcpy(p, &v, n);
	}
}
EXPORT_SYMBOL(prandom_bytes_state);
