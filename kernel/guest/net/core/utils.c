// Internet addresses as text.
#include <linux/types.h>
#include <linux/ctype.h>
#include <linux/string.h>
#include <linux/inet.h>
#include <linux/export.h>

// in_aton reads a.b.c.d without checks. The result is in network order.
u32 in_aton(const char *str)
{
	u32 addr = 0;
	int i;

	for (i = 0; i < 4; i++) {
		unsigned int value = 0;

		while (isdigit(*str))
			value = value * 10 + *str++ - '0';
		addr = addr << 8 | (value & 0xff);
		if (*str)
			str++;
	}
	return htonl(addr);
}
EXPORT_SYMBOL(in_aton);

// in4_pton reads a.b.c.d from at most srclen characters (-1: up to the NUL), up to
// their end or delim. It returns 1, or 0 if it is not an address, and sets *end to
// where it stopped.
int in4_pton(const char *src, int srclen, u8 *dst, int delim, const char **end)
{
	const char *at = src, *stop = src + (srclen < 0 ? (int)strlen(src) : srclen);
	u8 bytes[4];
	int i, digits, ok = 0;

	for (i = 0; i < 4; i++) {
		unsigned int value = 0;

		for (digits = 0; at < stop && isdigit(*at) && value <= 255; digits++)
			value = value * 10 + *at++ - '0';
		if (!digits || value > 255 || (digits > 1 && at[-digits] == '0'))
			goto out;
		bytes[i] = value;
		if (i < 3 && (at == stop || *at++ != '.')) {
			at--;
			goto out;
		}
	}
	if (at < stop && *at && (delim < 0 || *at != delim))
		goto out;
	memcpy(dst, bytes, 4);
	ok = 1;
out:
	if (end)
		*end = at;
	return ok;
}
EXPORT_SYMBOL(in4_pton);
