// Greatest common divisor, by halving: no division.
#include <linux/types.h>
#include <linux/gcd.h>
#include <linux/export.h>

unsigned long gcd(unsigned long a, unsigned long b)
{
	int twos;

	if (!a || !b)
		return a | b;
	twos = __builtin_ctzl(a | b);
	a >>= __builtin_ctzl(a);
	while (b) {
		b >>= __builtin_ctzl(b);
		if (a > b) {
			unsigned long t = a;

			a = b;
			b = t;
		}
		b -= a;
	}
	return a << twos;
}
EXPORT_SYMBOL(gcd);
