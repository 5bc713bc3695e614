// Lists with references (klist), pools of addresses (gen_pool), rt_mutex and percpu_rwsem; and
// two mistakes that Linux tells of: a position that is not updated, and a mode.
#include <linux/delay.h>
#include <linux/genalloc.h>
#include <linux/klist.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/percpu-rwsem.h>
#include <linux/proc_fs.h>
#include <linux/rtmutex.h>
#include <linux/seq_file.h>
#include <linux/sysfs.h>

struct item {
	char name;
	int refs;
	struct klist_node node;
};

static void get(struct klist_node *n)
{
	container_of(n, struct item, node)->refs++;
}

static void put(struct klist_node *n)
{
	struct item *i = container_of(n, struct item, node);

	i->refs--;
	pr_info("kits: put of %c, %d left\n", i->name, i->refs);
}

static struct item items[] = {{'a'}, {'b'}, {'c'}, {'d'}, {'e'}};
static struct klist list;

static void show(const char *when, bool backwards)
{
	struct klist_iter it;
	struct klist_node *n;
	char text[16], *p = text;

	if (backwards) {
		klist_iter_init_node(&list, &it, &items[4].node);
		*p++ = 'e';
	} else {
		klist_iter_init(&list, &it);
	}
	while ((n = backwards ? klist_prev(&it) : klist_next(&it)))
		*p++ = container_of(n, struct item, node)->name;
	*p = 0;
	klist_iter_exit(&it);
	pr_info("kits: %s: %s\n", when, text);
}

static int remover(void *arg)
{
	klist_remove(arg);
	pr_info("kits: removed\n");
	return 0;
}

static void lists(void)
{
	struct klist_iter it;
	struct klist_node *n;

	klist_init(&list, get, put);
	klist_add_tail(&items[1].node, &list);
	klist_add_head(&items[0].node, &list);
	klist_add_tail(&items[4].node, &list);
	klist_add_behind(&items[2].node, &items[1].node);
	klist_add_before(&items[3].node, &items[4].node);
	show("all", false);
	show("backwards", true);
	klist_iter_init(&list, &it);
	klist_next(&it);
	n = klist_next(&it);
	klist_del(n);
	pr_info("kits: deleted %c in use, attached %d\n", container_of(n, struct item, node)->name, klist_node_attached(n));
	show("while in use", false);
	n = klist_next(&it);
	pr_info("kits: went on to %c, b attached %d\n", container_of(n, struct item, node)->name, klist_node_attached(&items[1].node));
	kthread_run(remover, n, "remover");
	msleep(50);
	pr_info("kits: exit of the iterator\n");
	klist_iter_exit(&it);
	msleep(50);
	klist_del(&items[3].node);
	klist_remove(&items[0].node);
	show("rest", false);
	klist_del(&items[4].node);
	show("none", false);
}

static void pools(void)
{
	struct gen_pool *pool = gen_pool_create(4, -1);
	struct genpool_data_align align = {.align = 64};
	struct genpool_data_fixed fixed = {.offset = 0x80};
	unsigned long a, b, c;
	void *owner = NULL;

	pr_info("kits: empty: %lx of %zu\n", gen_pool_alloc(pool, 16), gen_pool_size(pool));
	pr_info("kits: add %d %d\n", gen_pool_add_owner(pool, 0x10010, 0x5000, 0x100, -1, &list), gen_pool_add(pool, 0x20000, 0x80, -1));
	pr_info("kits: size %zu, free %zu\n", gen_pool_size(pool), gen_pool_avail(pool));
	a = gen_pool_alloc(pool, 20);
	b = gen_pool_alloc(pool, 1);
	c = gen_pool_alloc_owner(pool, 0x90, &owner);
	pr_info("kits: %lx %lx %lx, owner %d, physical %llx, free %zu\n", a, b, c, owner == &list, (u64)gen_pool_virt_to_phys(pool, c), gen_pool_avail(pool));
	pr_info("kits: too much %lx, nothing %lx, has %d %d\n", gen_pool_alloc(pool, 0x200), gen_pool_alloc(pool, 0), gen_pool_has_addr(pool, 0x10020, 16), gen_pool_has_addr(pool, 0x10020, 0x200));
	gen_pool_free(pool, a, 20);
	pr_info("kits: again %lx, free %zu\n", a = gen_pool_alloc(pool, 20), gen_pool_avail(pool));
	gen_pool_free(pool, a, 20);
	gen_pool_free(pool, b, 1);
	gen_pool_free_owner(pool, c, 0x90, &owner);
	gen_pool_set_algo(pool, gen_pool_first_fit_align, &align);
	pr_info("kits: aligned %lx %lx\n", a = gen_pool_alloc(pool, 16), b = gen_pool_alloc(pool, 16));
	gen_pool_free(pool, a, 16);
	gen_pool_free(pool, b, 16);
	pr_info("kits: fixed %lx, order %lx, best %lx\n", a = gen_pool_alloc_algo(pool, 16, gen_pool_fixed_alloc, &fixed), b = gen_pool_alloc_algo(pool, 48, gen_pool_first_fit_order_align, NULL), c = gen_pool_alloc_algo(pool, 32, gen_pool_best_fit, NULL));
	gen_pool_free(pool, a, 16);
	gen_pool_free(pool, b, 48);
	gen_pool_free(pool, c, 32);
	pr_info("kits: free %zu\n", gen_pool_avail(pool));
	gen_pool_destroy(pool);
}

static DEFINE_RT_MUTEX(mutex);
DEFINE_STATIC_PERCPU_RWSEM(sem);

static int locker(void *arg)
{
	pr_info("kits: other tries: %d\n", rt_mutex_trylock(&mutex));
	rt_mutex_lock(&mutex);
	pr_info("kits: other has it\n");
	rt_mutex_unlock(&mutex);
	return 0;
}

static int reader(void *arg)
{
	pr_info("kits: reader tries: %d\n", percpu_down_read_trylock(&sem));
	percpu_down_read(&sem);
	pr_info("kits: reader has it\n");
	percpu_up_read(&sem);
	return 0;
}

static int writer(void *arg)
{
	percpu_down_write(&sem);
	pr_info("kits: writer has it\n");
	percpu_up_write(&sem);
	return 0;
}

static void locks(void)
{
	struct percpu_rw_semaphore own;

	rt_mutex_lock(&mutex);
	kthread_run(locker, NULL, "locker");
	msleep(50);
	pr_info("kits: unlock\n");
	rt_mutex_unlock(&mutex);
	msleep(50);
	pr_info("kits: interruptible %d\n", rt_mutex_lock_interruptible(&mutex));
	rt_mutex_unlock(&mutex);
	percpu_down_write(&sem);
	kthread_run(reader, NULL, "reader");
	msleep(50);
	pr_info("kits: up_write\n");
	percpu_up_write(&sem);
	msleep(100);
	percpu_down_read(&sem);
	percpu_down_read(&sem);
	kthread_run(writer, NULL, "writer");
	msleep(100);
	percpu_up_read(&sem);
	msleep(50);
	pr_info("kits: last up_read\n");
	percpu_up_read(&sem);
	msleep(100);
	pr_info("kits: init %d\n", percpu_init_rwsem(&own));
	percpu_down_write(&own);
	percpu_up_write(&own);
	percpu_free_rwsem(&own);
}

static int numbers[] = {1, 2, 3};

static void *start(struct seq_file *m, loff_t *pos)
{
	return *pos < ARRAY_SIZE(numbers) ? &numbers[*pos] : NULL;
}

static void *next(struct seq_file *m, void *v, loff_t *pos)
{
	int *n = v;

	return n + 1 < numbers + ARRAY_SIZE(numbers) ? n + 1 : NULL;
}

static void stop(struct seq_file *m, void *v)
{
}

static int show_number(struct seq_file *m, void *v)
{
	seq_printf(m, "%d\n", *(int *)v);
	return 0;
}

static const struct seq_operations numbers_ops = {.start = start, .next = next, .stop = stop, .show = show_number};

static ssize_t open_show(struct kobject *k, struct kobj_attribute *a, char *buf)
{
	return sysfs_emit(buf, "open\n");
}

static struct kobj_attribute open_attr = {.attr = {.name = "open", .mode = 0666}, .show = open_show};
static struct attribute *attrs[] = {&open_attr.attr, NULL};
static const struct attribute_group group = {.attrs = attrs};
static struct kobject *dir;

static int __init kits_init(void)
{
	proc_create_seq("kits", 0, NULL, &numbers_ops);
	dir = kobject_create_and_add("kits", kernel_kobj);
	pr_info("kits: group %d\n", sysfs_create_group(dir, &group));
	lists();
	pools();
	locks();
	return 0;
}

static void __exit kits_exit(void)
{
	kobject_put(dir);
	remove_proc_entry("kits", NULL);
}

module_init(kits_init);
module_exit(kits_exit);
MODULE_LICENSE("GPL");
