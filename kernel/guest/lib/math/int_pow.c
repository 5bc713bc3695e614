// base to the power of exp, modulo 2^64.
#include <linux/types.h>
#include <linux/gcd.h>
#include <linux/export.h>

u64 int_pow(u64 base, unsigned int exp)
{
	u64 result = 1;

	for (; exp; exp >>= 1, base *= base) {
		if (exp & 1)
			result *= base;
	}
	return result;
}
EXPORT_SYMBOL(int_pow);
