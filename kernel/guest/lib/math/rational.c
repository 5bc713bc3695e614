// The best fraction within bounds, by continued fractions.
#include <linux/types.h>
#include <linux/kernel.h>
#include <linux/gcd.h>

// semiconvergent reports whether (t*n1+n0)/(t*d1+d0) is nearer to the value than
// n1/d1. The next convergent has the quotient a > t.
static bool semiconvergent_is_better(unsigned long t, unsigned long a, unsigned long d0, unsigned long d1, unsigned long rest, unsigned long divisor)
{
	return 2 * t > a || (2 * t == a && d0 * divisor > d1 * rest);
}

// rational_best_approximation finds the fraction nearest to the given one whose
// numerator and denominator do not exceed the bounds.
void rational_best_approximation(unsigned long given_numerator, unsigned long given_denominator, unsigned long max_numerator, unsigned long max_denominator, unsigned long *best_numerator, unsigned long *best_denominator)
{
	unsigned long n = given_numerator, d = given_denominator;
	unsigned long n0 = 0, d0 = 1, n1 = 1, d1 = 0;

	while (d) {
		unsigned long a = n / d, rest = n % d;
		unsigned long n2 = n0 + a * n1, d2 = d0 + a * d1;

		if (n2 > max_numerator || d2 > max_denominator) {
			unsigned long t = ULONG_MAX;

			if (d1)
				t = (max_denominator - d0) / d1;
			if (n1)
				t = min(t, (max_numerator - n0) / n1);
			// If the first term is too large already, it is clamped.
			if (!d1 || semiconvergent_is_better(t, a, d0, d1, rest, d)) {
				n1 = n0 + t * n1;
				d1 = d0 + t * d1;
			}
			break;
		}
		n = d;
		d = rest;
		n0 = n1, d0 = d1;
		n1 = n2, d1 = d2;
	}
	*best_numerator = n1;
	*best_denominator = d1;
}
EXPORT_SYMBOL(rational_best_approximation);
