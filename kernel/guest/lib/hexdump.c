// Bytes as hexadecimal text and back.
#include <linux/types.h>
#include <linux/errno.h>
#include <linux/ctype.h>
#include <linux/string.h>
#include <linux/hex.h>
#include <linux/sprintf.h>
#include <linux/printk.h>
#include <linux/export.h>

const char hex_asc[] = "0123456789abcdef";
EXPORT_SYMBOL(hex_asc);
const char hex_asc_upper[] = "0123456789ABCDEF";
EXPORT_SYMBOL(hex_asc_upper);

// hex_to_bin returns a digit's value or -1.
int hex_to_bin(unsigned char c)
{
	if (isdigit(c))
		return c - '0';
	c = tolower(c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}
EXPORT_SYMBOL(hex_to_bin);

// hex2bin reads 2*count digits. It returns -EINVAL if a character is not a digit.
int hex2bin(u8 *dst, const char *src, size_t count)
{
	for (; count; count--, src += 2) {
		int high = hex_to_bin(src[0]);
		int low = high < 0 ? -1 : hex_to_bin(src[1]);

		if (low < 0)
			return -EINVAL;
		*dst++ = high << 4 | low;
	}
	return 0;
}
EXPORT_SYMBOL(hex2bin);

// bin2hex writes 2*count digits without a NUL, and returns their end.
char *bin2hex(char *dst, const void *src, size_t count)
{
	const u8 *p = src;

	for (; count; count--, p++) {
		*dst++ = hex_asc[*p >> 4];
		*dst++ = hex_asc[*p & 15];
	}
	return dst;
}
EXPORT_SYMBOL(bin2hex);

struct line {
	char *buf;
	size_t len, at;
};

static void put(struct line *l, char c)
{
	if (l->at + 1 < l->len)
		l->buf[l->at] = c;
	l->at++;
}

// A group is a number of size bytes in native byte order.
static void put_group(struct line *l, const u8 *p, int size)
{
	int i;

	for (i = size - 1; i >= 0; i--) {
		put(l, hex_asc[p[i] >> 4]);
		put(l, hex_asc[p[i] & 15]);
	}
}

// hex_dump_to_buffer writes a line: rowsize (16 or 32) bytes in groups of 1, 2, 4 or
// 8, followed by the same as text if ascii is set. It returns the length of the whole
// line, even if it does not fit.
noinline int hex_dump_to_buffer(const void *buf, size_t len, int rowsize, int groupsize, char *linebuf, size_t linebuflen, bool ascii)
{
	struct line l = { linebuf, linebuflen, 0 };
	const u8 *p = buf;
	size_t i, column;

	if (rowsize != 16 && rowsize != 32)
		rowsize = 16;
	if (len > (size_t)rowsize)
		len = rowsize;
	if (groupsize < 1 || groupsize > 8 || (groupsize & (groupsize - 1)) || len % groupsize)
		groupsize = 1;
	for (i = 0; i < len; i += groupsize) {
		if (i)
			put(&l, ' ');
		put_group(&l, p + i, groupsize);
	}
	if (ascii && len) {
		column = rowsize * 2 + rowsize / groupsize + 1;
		while (l.at < column)
			put(&l, ' ');
		for (i = 0; i < len; i++)
			put(&l, isascii(p[i]) && isprint(p[i]) ? p[i] : '.');
	}
	if (linebuflen)
		linebuf[l.at < linebuflen ? l.at : linebuflen - 1] = 0;
	return l.at;
}
EXPORT_SYMBOL(hex_dump_to_buffer);

// print_hex_dump logs a block line by line, each with its address or offset
// before it (prefix_type DUMP_PREFIX_*).
noinline void print_hex_dump(const char *level, const char *prefix_str, int prefix_type, int rowsize, int groupsize, const void *buf, size_t len, bool ascii)
{
	char line[32 * 3 + 2 + 32 + 1];
	const u8 *p = buf;
	size_t i;

	if (rowsize != 16 && rowsize != 32)
		rowsize = 16;
	for (i = 0; i < len; i += rowsize) {
		hex_dump_to_buffer(p + i, len - i, rowsize, groupsize, line, sizeof(line), ascii);
		if (prefix_type == DUMP_PREFIX_ADDRESS)
			printk("%s%s%px: %s\n", level, prefix_str, p + i, line);
		else if (prefix_type == DUMP_PREFIX_OFFSET)
			printk("%s%s%.8x: %s\n", level, prefix_str, (unsigned int)i, line);
		else
			printk("%s%s%s\n", level, prefix_str, line);
	}
}
EXPORT_SYMBOL(print_hex_dump);

void print_hex_dump_bytes(const char *prefix_str, int prefix_type, const void *buf, size_t len)
{
	print_hex_dump(KERN_DEBUG, prefix_str, prefix_type, 16, 1, buf, len, true);
}
