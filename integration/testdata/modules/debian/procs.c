// Files of procfs: by proc_ops, by seq_file, one text, in directories, and removed while open.
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

static struct proc_dir_entry *dir, *gone;
static char text[32] = "first";

static int single_show(struct seq_file *m, void *v)
{
	seq_printf(m, "single: %s\n", (char *)m->private);
	return 0;
}

struct state {
	int calls;
};

static void *count_start(struct seq_file *m, loff_t *pos)
{
	((struct state *)m->private)->calls++;
	return *pos < 2000 ? pos : NULL;
}

static void *count_next(struct seq_file *m, void *v, loff_t *pos)
{
	++*pos;
	return *pos < 2000 ? pos : NULL;
}

static void count_stop(struct seq_file *m, void *v)
{
}

static int count_show(struct seq_file *m, void *v)
{
	if (*(loff_t *)v % 3 == 2)
		return SEQ_SKIP;
	seq_printf(m, "%lld of %s\n", *(loff_t *)v, (char *)pde_data(file_inode(m->file)));
	return 0;
}

static const struct seq_operations count_ops = {
	.start = count_start, .next = count_next, .stop = count_stop, .show = count_show,
};

static int ops_open(struct inode *inode, struct file *file)
{
	pr_info("procs: open of %s\n", (char *)pde_data(inode));
	file->private_data = pde_data(inode);
	return 0;
}

static ssize_t ops_read(struct file *file, char __user *buf, size_t count, loff_t *pos)
{
	return simple_read_from_buffer(buf, count, pos, text, strlen(text));
}

static ssize_t ops_write(struct file *file, const char __user *buf, size_t count, loff_t *pos)
{
	size_t n = min(count, sizeof(text) - 1);

	if (count > 20)
		return -E2BIG;
	if (copy_from_user(text, buf, n))
		return -EFAULT;
	text[n] = 0;
	return n;
}

static int ops_release(struct inode *inode, struct file *file)
{
	pr_info("procs: release of %s\n", (char *)file->private_data);
	return 0;
}

static const struct proc_ops ops = {
	.proc_open = ops_open, .proc_read = ops_read, .proc_write = ops_write, .proc_release = ops_release, .proc_lseek = default_llseek,
};

static ssize_t remove_write(struct file *file, const char __user *buf, size_t count, loff_t *pos)
{
	pr_info("procs: removing\n");
	proc_remove(gone);
	gone = NULL;
	pr_info("procs: removed\n");
	return count;
}

static const struct proc_ops remove_ops = {.proc_write = remove_write};

static int __init procs_init(void)
{
	dir = proc_mkdir("procs", NULL);
	if (!dir)
		return -ENOMEM;
	proc_create_single_data("single", 0, dir, single_show, "data");
	proc_create_seq_private("count", 0400, dir, &count_ops, sizeof(struct state), "count's");
	proc_create_data("ops", 0640, dir, &ops, "ops");
	gone = proc_create_data("gone", 0644, dir, &ops, "gone");
	proc_create("remove", 0200, dir, &remove_ops);
	proc_symlink("link", dir, "single");
	proc_mkdir("sub", dir);
	proc_create_single_data("procs/sub/deep", 0, NULL, single_show, "deep");
	return 0;
}

static void __exit procs_exit(void)
{
	remove_proc_entry("single", dir);
	pr_info("procs: subtree %d\n", remove_proc_subtree("procs", NULL));
	pr_info("procs: again %d\n", remove_proc_subtree("procs", NULL));
}

module_init(procs_init);
module_exit(procs_exit);
MODULE_LICENSE("GPL");
