/* printk.c: passes lines of the log to the machine, which timestamps and stores them.
 * */
#include <linux/sched.h>
#include <linux/printk.h>
#include <linux/string.h>
#include <linux/interrupt.h>
#include <linux/dev_printk.h>
#include <linux/jiffies.h>
#include <linux/ratelimit.h>
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

/* Characters of the prefix. The first level counts, if there is none yet (-1). */
u16 printk_parse_prefix(const char *text, int *level, u32 *flags)
{
	u16 prefix_len = 0;
	int kern_level;

	while ((kern_level = printk_get_level(text)) >= 0) {
		if (kern_level == 'c')
			*flags |= PRINTK_CONT;
		else if (*level < 0)
			*level = kern_level;
		prefix_len += 2;
		text += 2;
	}
	return prefix_len;
}

/* Text for the log, and behind it what the record says of a device. */
struct line {
	char text[LOG_LINE_MAX + sizeof(struct dev_printk_info)];	/* a probe's handler may print during another printk */
};

/* level -1 means the text's, or 4. dev_info may be NULL. */
noinline asmlinkage int vprintk_emit(int facility, int level, const struct dev_printk_info *dev_info, const char *fmt, va_list args)
{
	struct line line;
	int own = -1, len;
	u32 flags = 0;
	u16 prefix;
	char *text;

	len = vscnprintf(line.text, LOG_LINE_MAX, fmt, args);
	prefix = facility ? 0 : printk_parse_prefix(line.text, &own, &flags);
	text = line.text + prefix;
	len -= prefix;
	if (len && text[len - 1] == '\n')
		len--;
	else
		flags |= PRINTK_OPEN;
	if (dev_info) {	/* such a line is whole */
		flags = PRINTK_DEV;
		memcpy(text + len, dev_info, sizeof(*dev_info));
	}
	hypercall4(HC_PRINTK, text, len, (level >= 0 ? level : own >= 0 ? own : 4) | facility << 3, flags);
	return len + prefix;
}
EXPORT_SYMBOL(vprintk_emit);

noinline asmlinkage int vprintk_default(const char *fmt, va_list args)
{
	return vprintk_emit(0, -1, NULL, fmt, args);
}
EXPORT_SYMBOL_GPL(vprintk_default);

noinline asmlinkage int vprintk(const char *fmt, va_list args)
{
	return vprintk_default(fmt, args);
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

/* Ten lines in five seconds, for all that ask. */
static DEFINE_RATELIMIT_STATE(printk_ratelimit_state, 5 * HZ, 10);

int __printk_ratelimit(const char *func)
{
	return ___ratelimit(&printk_ratelimit_state, func);
}
EXPORT_SYMBOL(__printk_ratelimit);

/* Says true once in so many milliseconds. */
bool printk_timed_ratelimit(unsigned long *caller_jiffies, unsigned int interval_msecs)
{
	unsigned long elapsed = jiffies - *caller_jiffies;

	if (*caller_jiffies && elapsed <= msecs_to_jiffies(interval_msecs))
		return false;
	*caller_jiffies = jiffies;
	return true;
}
EXPORT_SYMBOL(printk_timed_ratelimit);
