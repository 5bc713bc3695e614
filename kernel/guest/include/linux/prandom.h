#ifndef _LINUX_PRANDOM_H
#define _LINUX_PRANDOM_H

#include <linux/types.h>

struct rnd_state {
	u32 s1, s2, s3, s4;
};

void prandom_seed_full_state(struct rnd_state *state, u64 seed);
u32 prandom_u32_state(struct rnd_state *state);
void prandom_bytes_state(struct rnd_state *state, void *buf, size_t n);

#endif
