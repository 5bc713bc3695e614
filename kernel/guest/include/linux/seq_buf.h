// seq_buf.h: text in a buffer of fixed size that records an overflow.
#ifndef _LINUX_SEQ_BUF_H
#define _LINUX_SEQ_BUF_H

#include <linux/kernel.h>

struct seq_buf {
	char *buffer;
	size_t size, len; // len above size: overflow
	loff_t readpos;
};

void seq_buf_init(struct seq_buf *s, char *buf, unsigned int size);
int seq_buf_vprintf(struct seq_buf *s, const char *fmt, va_list args);
int seq_buf_printf(struct seq_buf *s, const char *fmt, ...);
int seq_buf_puts(struct seq_buf *s, const char *str);
int seq_buf_putc(struct seq_buf *s, unsigned char c);
int seq_buf_putmem(struct seq_buf *s, const void *mem, unsigned int len);
int seq_buf_putmem_hex(struct seq_buf *s, const void *mem, unsigned int len);
int seq_buf_to_user(struct seq_buf *s, char __user *ubuf, int cnt);

#endif
