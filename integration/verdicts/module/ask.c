/*
 * A module that answers a name written to /sys/kernel/debug/verdict with what
 * register_kprobe and register_kretprobe return at the function's entry. The probes are
 * registered disabled: Linux makes the same checks, but changes no text.
 *
 * It is built without Kbuild, since the host tools of another Debian's kernel need not run
 * here, so it has what modpost would add. Versions of symbols are left out: Debian's
 * kernels have CONFIG_MODULE_FORCE_LOAD.
 */
#include <linux/debugfs.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/uaccess.h>
#define INCLUDE_VERMAGIC
#include <linux/vermagic.h>

static struct dentry *file;
static int asked, asked_return;

static ssize_t verdict_write(struct file *f, const char __user *buf, size_t n, loff_t *pos)
{
	static char name[KSYM_NAME_LEN];
	static struct kprobe kp;
	static struct kretprobe rp;

	if (n >= sizeof(name))
		return -ENAMETOOLONG;
	if (copy_from_user(name, buf, n))
		return -EFAULT;
	name[n] = 0;
	kp = (struct kprobe){.symbol_name = name, .flags = KPROBE_FLAG_DISABLED};
	rp = (struct kretprobe){.kp = {.symbol_name = name, .flags = KPROBE_FLAG_DISABLED}, .maxactive = 1};
	asked = register_kprobe(&kp);
	if (!asked)
		unregister_kprobe(&kp);
	asked_return = register_kretprobe(&rp);
	if (!asked_return)
		unregister_kretprobe(&rp);
	return n;
}

static ssize_t verdict_read(struct file *f, char __user *buf, size_t n, loff_t *pos)
{
	char text[32];

	return simple_read_from_buffer(buf, n, pos, text, scnprintf(text, sizeof(text), "%d %d\n", asked, asked_return));
}

static const struct file_operations verdict_fops = {
	.owner = THIS_MODULE,
	.read = verdict_read,
	.write = verdict_write,
};

int init_module(void)
{
	file = debugfs_create_file("verdict", 0600, NULL, NULL, &verdict_fops);
	return PTR_ERR_OR_ZERO(file);
}

void cleanup_module(void)
{
	debugfs_remove(file);
}

MODULE_LICENSE("GPL");
MODULE_INFO(vermagic, VERMAGIC_STRING);
MODULE_INFO(retpoline, "Y");
MODULE_INFO(name, "ask");

struct module __this_module __section(".gnu.linkonce.this_module") = {
	.name = "ask",
	.init = init_module,
	.exit = cleanup_module,
	.arch = MODULE_ARCH_INIT,
};
