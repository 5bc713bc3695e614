#ifndef _LINUX_GCD_H
#define _LINUX_GCD_H

#include <linux/types.h>

unsigned long gcd(unsigned long a, unsigned long b);
unsigned long lcm(unsigned long a, unsigned long b);
unsigned long lcm_not_zero(unsigned long a, unsigned long b);
unsigned long int_sqrt(unsigned long x);
u64 int_pow(u64 base, unsigned int exp);
void rational_best_approximation(unsigned long given_numerator, unsigned long given_denominator, unsigned long max_numerator, unsigned long max_denominator, unsigned long *best_numerator, unsigned long *best_denominator);
u64 mul_u64_u64_div_u64(u64 a, u64 b, u64 c);
unsigned int intlog2(u32 value);

struct reciprocal_value {
	u32 m;
	u8 sh1, sh2;
};

struct reciprocal_value reciprocal_value(u32 d);

// reciprocal_divide returns a / d for the d that R was made from.
static inline u32 reciprocal_divide(u32 a, struct reciprocal_value R)
{
	u32 t = (u32)((u64)a * R.m >> 32);

	return (t + ((a - t) >> R.sh1)) >> R.sh2;
}

#endif
