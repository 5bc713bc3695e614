// Division by a run-time constant as a multiplication (Granlund and Montgomery).
#include <linux/types.h>
#include <linux/bitops.h>
#include <linux/gcd.h>
#include <linux/export.h>

struct reciprocal_value reciprocal_value(u32 d)
{
	struct reciprocal_value R;
	int l = fls(d - 1);

	R.m = (u32)(((1ULL << 32) * ((1ULL << l) - d)) / d + 1);
	R.sh1 = l < 1 ? l : 1;
	R.sh2 = l > 1 ? l - 1 : 0;
	return R;
}
EXPORT_SYMBOL(reciprocal_value);
