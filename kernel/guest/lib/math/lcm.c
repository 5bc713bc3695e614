// Least common multiple.
#include <linux/types.h>
#include <linux/gcd.h>
#include <linux/export.h>

unsigned long lcm(unsigned long a, unsigned long b)
{
	return a && b ? a / gcd(a, b) * b : 0;
}
EXPORT_SYMBOL(lcm);

// lcm_not_zero ignores an argument that is 0.
unsigned long lcm_not_zero(unsigned long a, unsigned long b)
{
	unsigned long l = lcm(a, b);

	return l ? l : b ? b : a;
}
EXPORT_SYMBOL(lcm_not_zero);
