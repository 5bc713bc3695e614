// A module whose init function takes time.
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/wait.h>

static int ms;
module_param(ms, int, 0444);
static char *how = "msleep";
module_param(how, charp, 0444);
static DECLARE_WAIT_QUEUE_HEAD(never);

static int __init slow_init(void)
{
	long ret = 0;

	pr_info("slow: init, %s\n", how);
	if (!strcmp(how, "msleep"))
		msleep(ms);
	else if (!strcmp(how, "interruptible"))
		ret = msleep_interruptible(ms) > 0;
	else
		ret = wait_event_killable_timeout(never, false, msecs_to_jiffies(ms));
	pr_info("slow: %ld, killed %d\n", ret, fatal_signal_pending(current) != 0);
	return 0;
}

static void __exit slow_exit(void)
{
	pr_info("slow: exit\n");
}

module_init(slow_init);
module_exit(slow_exit);
MODULE_LICENSE("GPL");
