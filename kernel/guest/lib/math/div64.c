// a * b / c with a 128-bit product. The result is truncated.
#include <linux/types.h>
#include <linux/gcd.h>

u64 mul_u64_u64_div_u64(u64 a, u64 b, u64 c)
{
	u64 high, low, quotient;

	__asm__("mulq %3" : "=a"(low), "=d"(high) : "a"(a), "rm"(b) : "cc");
	high %= c;
	__asm__("divq %4" : "=a"(quotient), "=d"(high) : "a"(low), "d"(high), "rm"(c) : "cc");
	return quotient;
}
