// Files of debugfs: numbers, texts, and operations of the module's own.
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>

static struct dentry *dir;
static u8 n8 = 8;
static u16 n16 = 16;
static u32 n32 = 32, h32 = 0xbeef;
static u64 n64 = 64, h64 = 0xfeed, ro = 1, wo = 2;
static unsigned long nlong = 5;
static size_t nsize = 6;
static atomic_t natomic = ATOMIC_INIT(-7);
static bool flag = true;
static struct debugfs_blob_wrapper blob = {.data = "binary\1\2", .size = 8};
static u32 numbers[] = {1, 22, 333, 4000000000U};
static struct debugfs_u32_array array = {.array = numbers, .n_elements = 4};
static u32 registers[] = {0x10, 0x20, 0x30};
static const struct debugfs_reg32 named[] = {{"first", 0}, {"third", 8}};
static struct debugfs_regset32 regs = {.regs = named, .nregs = 2, .base = (void __iomem *)registers};
static char text[64] = "nothing yet\n";
static size_t len = 12;
static DECLARE_WAIT_QUEUE_HEAD(queue);
static bool ready;

static int text_open(struct inode *inode, struct file *file)
{
	pr_info("debugs: open, private %s, flags %o, mode %x\n", (char *)inode->i_private, file->f_flags & (O_ACCMODE | O_APPEND | O_TRUNC), file->f_mode & 3);
	return 0;
}

static ssize_t text_read(struct file *file, char __user *buf, size_t count, loff_t *pos)
{
	pr_info("debugs: read at %lld\n", *pos);
	return simple_read_from_buffer(buf, count, pos, text, len);
}

static ssize_t text_write(struct file *file, const char __user *buf, size_t count, loff_t *pos)
{
	ssize_t n = simple_write_to_buffer(text, sizeof(text) - 1, pos, buf, count);

	pr_info("debugs: write of %zu to %lld: %zd\n", count, *pos, n);
	if (n > 0)
		len = *pos;
	return n;
}

static int text_release(struct inode *inode, struct file *file)
{
	pr_info("debugs: release\n");
	return 0;
}

static const struct file_operations text_fops = {
	.owner = THIS_MODULE, .open = text_open, .read = text_read, .write = text_write, .llseek = default_llseek, .release = text_release,
};

static ssize_t wait_read(struct file *file, char __user *buf, size_t count, loff_t *pos)
{
	int err;

	if (file->f_flags & O_NONBLOCK && !ready)
		return -EAGAIN;
	err = wait_event_interruptible(queue, ready);
	pr_info("debugs: waited: %d\n", err);
	if (err)
		return err;
	ready = false;
	return simple_read_from_buffer(buf, count, &(loff_t){0}, "now\n", 4);
}

static ssize_t wait_write(struct file *file, const char __user *buf, size_t count, loff_t *pos)
{
	ready = true;
	wake_up_interruptible(&queue);
	return count;
}

static __poll_t wait_poll(struct file *file, poll_table *wait)
{
	poll_wait(file, &queue, wait);
	return ready ? EPOLLIN | EPOLLRDNORM : 0;
}

static const struct file_operations wait_fops = {
	.owner = THIS_MODULE, .read = wait_read, .write = wait_write, .poll = wait_poll,
};

static int refuse_open(struct inode *inode, struct file *file)
{
	return -ECHRNG;
}

static const struct file_operations refuse_fops = {.owner = THIS_MODULE, .open = refuse_open};
static const struct file_operations none_fops = {.owner = THIS_MODULE};

static void *lines_start(struct seq_file *m, loff_t *pos)
{
	return *pos < 3000 ? pos : NULL;
}

static void *lines_next(struct seq_file *m, void *v, loff_t *pos)
{
	++*pos;
	return lines_start(m, pos);
}

static void lines_stop(struct seq_file *m, void *v)
{
}

static int lines_show(struct seq_file *m, void *v)
{
	seq_printf(m, "line %lld\n", *(loff_t *)v);
	return 0;
}

static const struct seq_operations lines_sops = {
	.start = lines_start, .stop = lines_stop, .next = lines_next, .show = lines_show,
};
DEFINE_SEQ_ATTRIBUTE(lines);

static int twice_get(void *data, u64 *val)
{
	*val = 2 * *(u64 *)data;
	return 0;
}

static int twice_set(void *data, u64 val)
{
	if (val % 2)
		return -EDOM;
	*(u64 *)data = val / 2;
	return 0;
}

DEFINE_DEBUGFS_ATTRIBUTE(twice_fops, twice_get, twice_set, "<%llu>\n");

static ssize_t change_write(struct file *file, const char __user *buf, size_t count, loff_t *pos)
{
	struct dentry *old = debugfs_lookup("old", dir);

	if (old) {
		debugfs_rename(dir, old, dir, "new");
		dput(old);
		debugfs_create_u32("later", 0600, dir, &n32);
	} else {
		debugfs_lookup_and_remove("later", dir);
	}
	return count;
}

static const struct file_operations change_fops = {.owner = THIS_MODULE, .write = change_write};

static int __init debugs_init(void)
{
	struct dentry *d;

	dir = debugfs_create_dir("debugs", NULL);
	debugfs_create_u8("u8", 0644, dir, &n8);
	debugfs_create_u16("u16", 0644, dir, &n16);
	debugfs_create_u32("u32", 0644, dir, &n32);
	debugfs_create_x32("x32", 0644, dir, &h32);
	debugfs_create_u64("u64", 0644, dir, &n64);
	debugfs_create_x64("x64", 0644, dir, &h64);
	debugfs_create_u64("ro", 0444, dir, &ro);
	debugfs_create_u64("wo", 0200, dir, &wo);
	debugfs_create_ulong("ulong", 0644, dir, &nlong);
	debugfs_create_size_t("size_t", 0644, dir, &nsize);
	debugfs_create_atomic_t("atomic_t", 0644, dir, &natomic);
	debugfs_create_bool("bool", 0644, dir, &flag);
	debugfs_create_blob("blob", 0444, dir, &blob);
	debugfs_create_u32_array("array", 0444, dir, &array);
	debugfs_create_regset32("regset", 0444, dir, &regs);
	debugfs_create_file("text", 0640, dir, "mine", &text_fops);
	debugfs_create_file("wait", 0600, dir, NULL, &wait_fops);
	debugfs_create_file("refuse", 0600, dir, NULL, &refuse_fops);
	debugfs_create_file("none", 0600, dir, NULL, &none_fops);
	debugfs_create_file("lines", 0444, dir, NULL, &lines_fops);
	debugfs_create_file_unsafe("twice", 0644, dir, &n64, &twice_fops);
	debugfs_create_file("change", 0200, dir, NULL, &change_fops);
	debugfs_create_symlink("link", dir, "text");
	d = debugfs_create_dir("old", dir);
	debugfs_create_u8("inner", 0444, d, &n8);
	pr_info("debugs: again: %ld\n", PTR_ERR(debugfs_create_file("text", 0640, dir, NULL, &text_fops)));
	pr_info("debugs: dir again: %ld\n", PTR_ERR(debugfs_create_dir("debugs", NULL)));
	return 0;
}

static void __exit debugs_exit(void)
{
	debugfs_remove_recursive(dir);
	pr_info("debugs: gone\n");
}

module_init(debugs_init);
module_exit(debugs_exit);
MODULE_LICENSE("GPL");
