// Two decimal digits in a byte.
#include <linux/types.h>
#include <linux/bcd.h>
#include <linux/export.h>

unsigned int _bcd2bin(unsigned char val)
{
	return (val & 15) + (val >> 4) * 10;
}
EXPORT_SYMBOL(_bcd2bin);

unsigned char _bin2bcd(unsigned int val)
{
	return val / 10 << 4 | val % 10;
}
EXPORT_SYMBOL(_bin2bcd);
