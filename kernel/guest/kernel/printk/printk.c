/* printk.c: passes lines of the log to the machine, which timestamps and stores them.
 * */
#include <linux/sched.h>
#include <linux/printk.h>
#include <linux/string.h>
#include <linux/interrupt.h>
#include <asm/host.h>

#define LOG_LINE_MAX 1024
int console_loglevel = 7;

/* Returns the level at the beginning of a format, or -1. */
int printk_get_level(const char *buffer)
{
	if (buffer[0] != KERN_SOH[0] || !buffer[1])
		return -1;
	if (buffer[1] >= '0' && buffer[1] <= '7')
		return buffer[1] - '0';
	return buffer[1] == 'c' ? 'c' : -1;
}

/* Characters of the prefix. */
u16 printk_parse_prefix(const char *text, int *level, u32 *flags)
{
	u16 prefix_len = 0;
	int kern_level;

	while ((kern_level = printk_get_level(text)) >= 0) {
		if (kern_level == 'c')
			*flags |= PRINTK_CONT;
		else
			*level = kern_level;
		prefix_len += 2;
		text += 2;
	}
	return prefix_len;
}

asmlinkage int vprintk(const char *fmt, va_list args)
{
	char printk_buf[LOG_LINE_MAX];	/* a probe's handler may print during another printk */
	int level = 4, len;
	u32 flags = 0;
	u16 prefix;

	len = vscnprintf(printk_buf, sizeof(printk_buf), fmt, args);
	prefix = printk_parse_prefix(printk_buf, &level, &flags);
	len -= prefix;
	if (len && printk_buf[prefix + len - 1] == '\n')
		len--;
	else
		flags |= PRINTK_OPEN;
	hypercall4(HC_PRINTK, printk_buf + prefix, len, level, flags);
	return len + prefix;
}
EXPORT_SYMBOL(vprintk);

asmlinkage int _printk(const char *fmt, ...)
{
	va_list args;
	int r;

	va_start(args, fmt);
	r = vprintk(fmt, args);
	va_end(args);
	return r;
}
EXPORT_SYMBOL(_printk);
