// Files whose operations misbehave.
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/wait.h>

static struct dentry *dir;
static DECLARE_WAIT_QUEUE_HEAD(never);

static ssize_t garbage(struct file *file, char __user *buf, size_t count, loff_t *pos)
{
	*pos = -5;
	return 1L << 40;
}

static ssize_t below(struct file *file, char __user *buf, size_t count, loff_t *pos)
{
	return -500000;
}

static ssize_t restarts(struct file *file, char __user *buf, size_t count, loff_t *pos)
{
	return -ERESTARTSYS;
}

static ssize_t forever(struct file *file, char __user *buf, size_t count, loff_t *pos)
{
	wait_event(never, false);
	return 0;
}

static ssize_t spins(struct file *file, char __user *buf, size_t count, loff_t *pos)
{
	for (;;)
		cond_resched();
	return 0;
}

static ssize_t faults(struct file *file, char __user *buf, size_t count, loff_t *pos)
{
	return *(volatile int *)8;
}

static ssize_t writes(struct file *file, const char __user *buf, size_t count, loff_t *pos)
{
	return 1L << 50;
}

static loff_t seeks(struct file *file, loff_t off, int whence)
{
	return -123456789;
}

static __poll_t polls(struct file *file, poll_table *wait)
{
	msleep(60000);
	return 0;
}

static const struct file_operations garbage_fops = {.owner = THIS_MODULE, .read = garbage, .write = writes, .llseek = seeks};
static const struct file_operations below_fops = {.owner = THIS_MODULE, .read = below};
static const struct file_operations restarts_fops = {.owner = THIS_MODULE, .read = restarts};
static const struct file_operations forever_fops = {.owner = THIS_MODULE, .read = forever, .poll = polls};
static const struct file_operations spins_fops = {.owner = THIS_MODULE, .read = spins};
static const struct file_operations faults_fops = {.owner = THIS_MODULE, .read = faults};

static int __init hostile_init(void)
{
	dir = debugfs_create_dir("hostile", NULL);
	debugfs_create_file("garbage", 0600, dir, NULL, &garbage_fops);
	debugfs_create_file("below", 0600, dir, NULL, &below_fops);
	debugfs_create_file("restarts", 0600, dir, NULL, &restarts_fops);
	debugfs_create_file("forever", 0600, dir, NULL, &forever_fops);
	debugfs_create_file("spins", 0600, dir, NULL, &spins_fops);
	debugfs_create_file("faults", 0600, dir, NULL, &faults_fops);
	return 0;
}

static void __exit hostile_exit(void)
{
	debugfs_remove(dir);
}

module_init(hostile_init);
module_exit(hostile_exit);
MODULE_LICENSE("GPL");
