/*
 * A module that answers a name written to /sys/kernel/debug/verdict with what
 * register_kprobe and register_kretprobe return at the function's entry, and the addresses,
 * 8 bytes each, written to /sys/kernel/debug/places with what register_kprobe returns there and
 * how the probe would be carried out. The probes are registered disabled: Linux makes the same
 * checks, and prepares the same jump, but changes no text.
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

static struct dentry *file, *places;
static int asked, asked_return;
static struct kprobe *(*get_probe)(void *addr);

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

/* What is answered about a place: the size of the jump's region is 0 where there is no jump. */
struct place {
	s32 errno;
	u8 ftrace, boost, size, zero;
};

static void ask_place(u64 addr, struct place *p)
{
	static struct kprobe kp;
	struct kprobe *is;

	kp = (struct kprobe){.addr = (void *)addr, .flags = KPROBE_FLAG_DISABLED};
	*p = (struct place){.errno = register_kprobe(&kp)};
	if (p->errno)
		return;
	p->ftrace = !!(kp.flags & KPROBE_FLAG_FTRACE);
	p->boost = !p->ftrace && kp.ainsn.boostable;
	preempt_disable();
	is = get_probe(kp.addr);
	preempt_enable();
	if (is != &kp) /* Linux makes an aggregate of a probe that can become a jump */
		p->size = container_of(is, struct optimized_kprobe, kp)->optinsn.size;
	unregister_kprobe(&kp);
}

static ssize_t places_write(struct file *f, const char __user *buf, size_t n, loff_t *pos)
{
	size_t i;

	for (i = 0; i + 8 <= n; i += 8) {
		struct place p;
		u64 addr;

		if (copy_from_user(&addr, buf + i, 8))
			return -EFAULT;
		ask_place(addr, &p);
		if (copy_to_user((char __user *)buf + i, &p, 8)) /* the answer replaces the question */
			return -EFAULT;
		cond_resched();
	}
	return i;
}

static const struct file_operations places_fops = {
	.owner = THIS_MODULE,
	.write = places_write,
};

int init_module(void)
{
	static struct kprobe kp = {.symbol_name = "get_kprobe", .flags = KPROBE_FLAG_DISABLED};

	if (!register_kprobe(&kp)) /* it is refused, but the address is found */
		unregister_kprobe(&kp);
	get_probe = (void *)kp.addr;
	if (!get_probe)
		return -ENOENT;
	places = debugfs_create_file("places", 0600, NULL, NULL, &places_fops);
	file = debugfs_create_file("verdict", 0600, NULL, NULL, &verdict_fops);
	return PTR_ERR_OR_ZERO(file);
}

void cleanup_module(void)
{
	debugfs_remove(file);
	debugfs_remove(places);
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
