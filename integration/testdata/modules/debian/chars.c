// What drivers of character devices use: access to user memory that was checked before, lists of
// those that want SIGIO, signals that a thread takes, memory by page, the terminal of a task.
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/kthread.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/tty.h>
#include <linux/uaccess.h>
#include <linux/uio.h>
#include <linux/utsname.h>
#include <linux/vmalloc.h>

static struct fasync_struct *list;
static wait_queue_head_t queue;

static int hf_fasync(int fd, struct file *f, int on)
{
	return fasync_helper(fd, f, on, &list);
}

static int hf_release(struct inode *inode, struct file *f)
{
	pr_info("chars: close: %d %d\n", hf_fasync(-1, f, 0), !!(f->f_flags & FASYNC));
	return 0;
}

static ssize_t hf_read(struct file *f, char __user *buf, size_t n, loff_t *pos)
{
	u64 v = 0x1122334455667788;
	int err[4];

	if (*pos || n < 15)
		return 0;
	if (!access_ok(buf, n))
		return -EFAULT;
	err[0] = __put_user((u8)'1', (u8 __user *)buf);
	err[1] = __put_user((u16)0x3332, (u16 __user *)(buf + 1));
	err[2] = __put_user((u32)0x37363534, (u32 __user *)(buf + 3));
	err[3] = __put_user(0x4645444342413938, (u64 __user *)(buf + 7));
	pr_info("chars: put %d %d %d %d, null %d\n", err[0], err[1], err[2], err[3], __put_user(v, (u64 __user *)8));
	*pos += 15;
	return 15;
}

static ssize_t hf_write(struct file *f, const char __user *buf, size_t n, loff_t *pos)
{
	char small[8];
	u16 w = 0;
	u32 d = 0;
	u64 q = 0;
	u8 c = 0;

	if (n < 15)
		return copy_from_user(small, buf, n) ? -EFAULT : n; // 15 and more are too many for it
	if (!access_ok(buf, n))
		return -EFAULT;
	pr_info("chars: get %d %d %d %d, null %d\n", __get_user(c, (u8 __user *)buf), __get_user(w, (u16 __user *)(buf + 1)),
		__get_user(d, (u32 __user *)(buf + 3)), __get_user(q, (u64 __user *)(buf + 7)), __get_user(d, (u32 __user *)8));
	pr_info("chars: got %x %x %llx, none %x\n", c, w, q, d);
	return n;
}

static long hf_ioctl(struct file *f, unsigned int cmd, unsigned long arg)
{
	return -ENOTTY;
}

static const struct file_operations fops = {
	.owner = THIS_MODULE, .read = hf_read, .write = hf_write, .fasync = hf_fasync, .release = hf_release,
	.unlocked_ioctl = hf_ioctl, .read_iter = generic_file_read_iter, .write_iter = generic_file_write_iter,
};
static struct miscdevice misc = {.minor = MISC_DYNAMIC_MINOR, .name = "hf_chars", .fops = &fops};

static int taken;
static int takes(void *data)
{
	allow_signal(SIGINT);
	allow_signal(SIGUSR1);
	while (!kthread_should_stop()) {
		set_current_state(TASK_INTERRUPTIBLE);
		if (!signal_pending(current))
			schedule_timeout(HZ);
		__set_current_state(TASK_RUNNING);
		if (signal_pending(current)) {
			taken++;
			flush_signals(current);
			disallow_signal(SIGUSR1);
		}
	}
	return 0;
}

static void signals(void)
{
	struct task_struct *t = kthread_run(takes, NULL, "hf_takes");

	get_task_struct(t);
	msleep(50);
	pr_info("chars: ignored %d\n", send_sig(SIGHUP, t, 0));
	msleep(20);
	pr_info("chars: taken %d\n", taken);
	send_sig(SIGINT, t, 0);
	msleep(50);
	pr_info("chars: taken %d\n", taken);
	send_sig(SIGUSR1, t, 0);
	msleep(50);
	pr_info("chars: taken %d\n", taken);
	pr_info("chars: stopped %d\n", kthread_stop(t));
	put_task_struct(t);
}

static noinline void overflow(size_t n)
{
	char *p = kmalloc(16, GFP_KERNEL);

	__copy_overflow(16, n);
	kfree(p);
}

static int __init start(void)
{
	void *v = vmalloc(3 * PAGE_SIZE), *k = kmalloc(100, GFP_KERNEL);
	struct tty_struct *tty = get_current_tty();
	struct file f = {};
	struct page *page = vmalloc_to_page(v + PAGE_SIZE + 5);
	int err[2];

	memset(v + PAGE_SIZE, 'v', PAGE_SIZE);
	pr_info("chars: page %c, pfn %d\n", *((char *)page_address(page) + 7), vmalloc_to_pfn(v + PAGE_SIZE) == page_to_pfn(page));
	pr_info("chars: valid %d %d, below %d\n", virt_addr_valid(k), virt_addr_valid(v), k < high_memory);
	pr_info("chars: terminal %d\n", !!tty);
	tty_kref_put(tty);
	pr_info("chars: %s %s %s, %d\n", utsname()->sysname, init_uts_ns.name.machine, utsname()->release, utsname() == init_utsname());
	spin_lock_init(&f.f_lock);
	err[0] = fasync_helper(3, &f, 1, &list);
	err[1] = fasync_helper(4, &f, 1, &list);
	pr_info("chars: fasync %d %d, now %d\n", err[0], err[1], list->fa_fd);
	kill_fasync(&list, SIGIO, POLL_IN);
	err[0] = fasync_helper(-1, &f, 0, &list);
	err[1] = fasync_helper(-1, &f, 0, &list);
	pr_info("chars: off %d %d, empty %d\n", err[0], err[1], !list);
	init_waitqueue_head(&queue);
	__wake_up_sync(&queue, TASK_NORMAL);
	signals();
	overflow(40);
	vfree(v);
	kfree(k);
	return misc_register(&misc);
}

static void __exit stop(void) { misc_deregister(&misc); }

module_init(start);
module_exit(stop);
MODULE_LICENSE("GPL");
