// Rate limits: at most burst messages in an interval; the others are counted.
#include <linux/kernel.h>
#include <linux/jiffies.h>
#include <linux/ratelimit.h>
#include <linux/spinlock.h>

// ___ratelimit returns 1 if one more message may be printed now.
int ___ratelimit(struct ratelimit_state *rs, const char *func)
{
	unsigned long flags;
	int may;

	if (!rs->interval)
		return 1;
	local_irq_save(flags);
	if (!_raw_spin_trylock(&rs->lock)) {
		local_irq_restore(flags);
		return 0;	// another CPU is in here
	}
	if (!rs->begin)
		rs->begin = jiffies;
	if (time_after(jiffies, rs->begin + rs->interval)) {
		if (rs->missed && !(rs->flags & RATELIMIT_MSG_ON_RELEASE)) {
			pr_warn("%s: %d callbacks suppressed\n", func, rs->missed);
			rs->missed = 0;
		}
		rs->begin = jiffies;
		rs->printed = 0;
	}
	may = rs->burst > rs->printed;
	if (may)
		rs->printed++;
	else
		rs->missed++;
	_raw_spin_unlock_irqrestore(&rs->lock, flags);
	return may;
}
EXPORT_SYMBOL(___ratelimit);
