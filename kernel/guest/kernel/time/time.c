/* time.c: times in user memory. */
#include <linux/ktime.h>
#include <linux/export.h>
#include <linux/errno.h>
#include <linux/uaccess.h>

int get_timespec64(struct timespec64 *ts, const void __user *uts)
{
	return copy_from_user(ts, uts, sizeof(*ts)) ? -EFAULT : 0;
}
EXPORT_SYMBOL_GPL(get_timespec64);
