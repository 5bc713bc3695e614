// The integer square root, rounded down, bit by bit.
#include <linux/export.h>
#include <linux/types.h>
#include <linux/bitops.h>
#include <linux/gcd.h>

unsigned long int_sqrt(unsigned long x)
{
	unsigned long root = 0, bit;

	if (x <= 1)
		return x;
	for (bit = 1UL << (__fls(x) & ~1UL); bit; bit >>= 2) {
		unsigned long trial = root + bit;

		root >>= 1;
		if (x >= trial) {
			x -= trial;
			root += bit;
		}
	}
	return root;
}
EXPORT_SYMBOL(int_sqrt);
