// SPDX-License-Identifier: MIT
/* spares calls what modules need now and then: ids, masks of CPUs, parking, copies, paths. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/bitmap.h>
#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/cred.h>
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/pid_namespace.h>
#include <linux/proc_fs.h>
#include <linux/random.h>
#include <linux/rcupdate.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/timer.h>
#include <linux/timekeeping.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>

static void ids(void)
{
	const struct cred *c = get_task_cred(current);
	struct cred *own = prepare_creds();
	const struct cred *old;

	pr_info("uid %u, munged %u, none %u\n", from_kuid(&init_user_ns, current_uid()), from_kuid_munged(&init_user_ns, c->uid),
		from_kuid_munged(&init_user_ns, INVALID_UID));
	pr_info("gid %u, %d\n", from_kgid(&init_user_ns, current_gid()), gid_eq(make_kgid(&init_user_ns, 7), KGIDT_INIT(7)));
	put_cred(c);
	own->fsuid = make_kuid(&init_user_ns, 1234);
	old = override_creds(own);
	pr_info("fsuid %u\n", from_kuid(&init_user_ns, current_fsuid()));
	revert_creds(old);
	put_cred(own);
	pr_info("fsuid %u\n", from_kuid(&init_user_ns, current_fsuid()));
	pr_info("pid %d, init's %d, ns %d\n", pid_vnr(task_pid(current)) == current->pid, pid_nr_ns(find_vpid(1), &init_pid_ns),
		task_active_pid_ns(current) == &init_pid_ns);
}

static void masks(void)
{
	unsigned long *map = bitmap_zalloc(100, GFP_KERNEL);
	char *page = (char *)get_zeroed_page(GFP_KERNEL);
	unsigned int cpu;
	int n = 0;

	cpus_read_lock();
	for_each_present_cpu(cpu)
		n += cpumask_test_cpu(cpu, cpumask_of(cpu)) && cpumask_weight(cpumask_of(cpu)) == 1 && cpu_active(cpu);
	cpus_read_unlock();
	pr_info("%d CPUs are as they should be: %d\n", n, n == num_present_cpus());
	pr_info("set_cpus_allowed_ptr %d\n", set_cpus_allowed_ptr(current, cpumask_of(1)));
	pr_info("cpu %d\n", smp_processor_id());
	bitmap_set(map, 3, 5);
	bitmap_set(map, 70, 2);
	n = bitmap_print_to_pagebuf(true, page, map, 100);
	pr_info("%d %s", n, page);
	n = bitmap_print_to_pagebuf(false, page, map, 100);
	pr_info("%d %s", n, page);
	bitmap_free(map);
	free_page((unsigned long)page);
}

static int rounds;

static int parks(void *unused)
{
	while (!kthread_should_stop()) {
		if (kthread_should_park()) {
			pr_info("parks\n");
			kthread_parkme();
			pr_info("goes on\n");
		}
		rounds++;
		schedule_timeout_interruptible(1);
	}
	return rounds > 0 ? 5 : 6;
}

static void parking(void)
{
	struct task_struct *t = kthread_run(parks, NULL, "parker");
	int err = kthread_park(t), before = rounds;

	msleep(50);
	pr_info("park %d, stands still %d\n", err, rounds == before);
	kthread_unpark(t);
	while (rounds == before)
		msleep(1);
	err = kthread_park(t);
	pr_info("park %d, stop %d\n", err, kthread_stop(t));
}

static void copies(void)
{
	char *p = memdup_user_nul((void __user *)8, 4);

	pr_info("memdup_user_nul %ld\n", PTR_ERR(p));
	p = strndup_user((char __user *)8, 4);
	pr_info("strndup_user %ld\n", PTR_ERR(p));
	p = vmemdup_user((void __user *)8, 4);
	pr_info("vmemdup_user %ld\n", PTR_ERR(p));
	p = vmalloc_user(10000);
	pr_info("vmalloc_user %d\n", !memchr_inv(p, 0, 10000));
	vfree(p);
	p = __vmalloc(5000, GFP_KERNEL | __GFP_ZERO);
	pr_info("__vmalloc %d\n", !memchr_inv(p, 0, 5000));
	vfree(p);
	p = vmalloc_node(100, NUMA_NO_NODE);
	pr_info("vmalloc_node %d\n", p != NULL);
	vfree(p);
}

static int worked;
static void work_fn(struct work_struct *work)
{
	worked++;
}
static DECLARE_WORK(work, work_fn);

static void timer_fn(struct timer_list *t)
{
	worked += 100;
}
static DEFINE_TIMER(timer, timer_fn);

static void times(void)
{
	struct timespec64 boot;
	unsigned long cookie = get_state_synchronize_rcu();
	DECLARE_COMPLETION_ONSTACK(done);
	u64 j = get_jiffies_64();

	getboottime64(&boot);
	pr_info("boot %d, %d\n", boot.tv_sec > 0 && boot.tv_sec <= ktime_get_real_seconds(), ktime_get_raw_fast_ns() >= 0 && ktime_get_real_fast_ns() > NSEC_PER_SEC);
	pr_info("jiffies %d, clock %lu\n", j <= jiffies_64 && jiffies_64 - j < 1000, (unsigned long)jiffies_to_clock_t(10 * HZ));
	synchronize_rcu_expedited();
	cond_synchronize_rcu(cookie);
	pr_info("rcu %d, watching %d\n", poll_state_synchronize_rcu(cookie), rcu_is_watching());
	queue_work(system_highpri_wq, &work);
	flush_work(&work);
	queue_work(system_freezable_wq, &work);
	flush_work(&work);
	pr_info("worked %d, busy %u, cancel %d\n", worked, work_busy(&work), cancel_work(&work));
	mod_timer(&timer, jiffies + 100 * HZ);
	pr_info("shutdown %d\n", timer_shutdown_sync(&timer));
	complete(&done);
	wait_for_completion_io(&done);
	pr_info("timeout %lu\n", wait_for_completion_io_timeout(&done, 2));
	get_random_u8();
	get_random_u16();
}

static ssize_t numbers(struct file *f, const char __user *buf, size_t n, loff_t *pos)
{
	int i = 0, err = kstrtoint_from_user(buf, n, 0, &i);
	long l = 0;
	int lerr = kstrtol_from_user(buf, n, 0, &l);

	pr_info("%d: %d, %d: %ld\n", err, i, lerr, l);
	return n;
}

static int paths(struct seq_file *m, void *unused)
{
	struct file *f = filp_open("/proc/spares", O_RDONLY, 0);
	char buf[64];

	seq_printf(m, "%s ", file_path(f, buf, sizeof(buf)));
	seq_file_path(m, f, "p");
	seq_putc(m, ' ');
	seq_path(m, &f->f_path, "\n");
	seq_putc(m, ' ');
	seq_dentry(m, f->f_path.dentry, "\n");
	seq_printf(m, " %s\n", dentry_path_raw(f->f_path.dentry, buf, 5) == ERR_PTR(-ENAMETOOLONG) ? "too long" : "short");
	filp_close(f, NULL);
	return 0;
}

static int opened(struct inode *inode, struct file *f)
{
	return single_open(f, paths, NULL);
}

static const struct proc_ops ops = { .proc_open = opened, .proc_read = seq_read, .proc_write = numbers, .proc_release = single_release };

static int __init spares_init(void)
{
	if (!proc_create("spares", 0600, NULL, &ops))
		return -ENOMEM;
	ids();
	parking();
	copies();
	times();
	masks();
	return 0;
}

static void __exit spares_exit(void)
{
	remove_proc_entry("spares", NULL);
}

module_init(spares_init);
module_exit(spares_exit);
MODULE_LICENSE("GPL");
