// Text in a buffer of fixed size. All functions return 0, or -1 if the text did not
// fit; the buffer is full then.
#include <linux/seq_buf.h>
#include <linux/string.h>
#include <linux/hex.h>
#include <linux/uaccess.h>
#include <linux/export.h>

void seq_buf_init(struct seq_buf *s, char *buf, unsigned int size)
{
	*s = (struct seq_buf){ .buffer = buf, .size = size };
}

static int overflow(struct seq_buf *s)
{
	s->len = s->size + 1;
	return -1;
}

int seq_buf_vprintf(struct seq_buf *s, const char *fmt, va_list args)
{
	size_t n;

	if (s->len < s->size) {
		n = vsnprintf(s->buffer + s->len, s->size - s->len, fmt, args);
		if (s->len + n < s->size) {
			s->len += n;
			return 0;
		}
	}
	return overflow(s);
}

int seq_buf_printf(struct seq_buf *s, const char *fmt, ...)
{
	va_list args;
	int ret;

	va_start(args, fmt);
	ret = seq_buf_vprintf(s, fmt, args);
	va_end(args);
	return ret;
}
EXPORT_SYMBOL(seq_buf_printf);

noinline int seq_buf_putmem(struct seq_buf *s, const void *mem, unsigned int len)
{
	if (s->len + len > s->size)
		return overflow(s);
	memcpy(s->buffer + s->len, mem, len);
	s->len += len;
	return 0;
}

// seq_buf_puts also writes a NUL, which the next text overwrites.
int seq_buf_puts(struct seq_buf *s, const char *str)
{
	size_t n = strlen(str);

	if (s->len + n + 1 > s->size)
		return overflow(s);
	memcpy(s->buffer + s->len, str, n + 1);
	s->len += n;
	return 0;
}

int seq_buf_putc(struct seq_buf *s, unsigned char c)
{
	return seq_buf_putmem(s, &c, 1);
}

#define WORD 8

// seq_buf_putmem_hex writes words of up to 8 bytes as numbers, each followed by a
// space.
int seq_buf_putmem_hex(struct seq_buf *s, const void *mem, unsigned int len)
{
	const u8 *p = mem;
	char text[2 * WORD + 1];

	while (len) {
		unsigned int n = len < WORD ? len : WORD, i, at = 0;

		for (i = n; i-- > 0;) {
			text[at++] = hex_asc[p[i] >> 4];
			text[at++] = hex_asc[p[i] & 15];
		}
		text[at++] = ' ';
		if (seq_buf_putmem(s, text, at))
			return -1;
		p += n;
		len -= n;
	}
	return 0;
}

// seq_buf_to_user returns the number of bytes copied, -EBUSY if all were copied
// before, or -EFAULT.
int seq_buf_to_user(struct seq_buf *s, char __user *ubuf, int cnt)
{
	size_t used = s->len < s->size ? s->len : s->size;
	int n = used - s->readpos;

	if (!cnt)
		return 0;
	if (n <= 0)
		return -EBUSY;
	if (n > cnt)
		n = cnt;
	if (copy_to_user(ubuf, s->buffer + s->readpos, n))
		return -EFAULT;
	s->readpos += n;
	return n;
}
