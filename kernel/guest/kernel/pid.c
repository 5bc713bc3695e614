/* pid.c: pids, in a hash table. */
#include <linux/pid_namespace.h>
#include <linux/sched.h>
#include <linux/slab.h>

#define PID_HASH_SIZE 1024
#define PID_MAX_DEFAULT 32768
#define PID_MAX_LIMIT (4 * 1024 * 1024)
#define RESERVED_PIDS 300

struct pid_namespace init_pid_ns = { .ns = { .inum = PROC_PID_INIT_INO, .count = REFCOUNT_INIT(1) } };
int pid_max = PID_MAX_LIMIT;
struct pid init_struct_pid = { .count = REFCOUNT_INIT(1), .numbers = { { .nr = 0, .ns = &init_pid_ns } } };
static struct hlist_head pid_hash[PID_HASH_SIZE];
static DEFINE_SPINLOCK(pidmap_lock);

static struct hlist_head *pid_bucket(int nr)
{
	return &pid_hash[nr & (PID_HASH_SIZE - 1)];
}

/* The hash chain uses the words of `rcu`, which is not used while the pid exists. */
static struct pid *find_pid_locked(int nr)
{
	struct hlist_node *n;

	for (n = pid_bucket(nr)->first; n; n = n->next) {
		struct pid *pid = (struct pid *)((char *)n - offsetof(struct pid, rcu));

		if (pid->numbers[0].nr == nr)
			return pid;
	}
	return NULL;
}

static int next_pid_nr(struct pid_namespace *ns)
{
	int nr = ns->last_pid;

	do {
		if (++nr >= PID_MAX_DEFAULT)
			nr = RESERVED_PIDS;
	} while (find_pid_locked(nr));
	return nr;
}

/* Allocates the next free number, or the one in set_tid (-EEXIST if it is in use). */
struct pid *alloc_pid(struct pid_namespace *ns, pid_t *set_tid, size_t set_tid_size)
{
	struct pid *pid = kmem_cache_alloc(ns->pid_cachep, GFP_KERNEL);
	int i, nr;

	if (!pid)
		return ERR_PTR(-ENOMEM);
	refcount_set(&pid->count, 1);
	pid->level = 0;
	spin_lock_init(&pid->lock);
	for (i = 0; i < PIDTYPE_MAX; i++)
		INIT_HLIST_HEAD(&pid->tasks[i]);
	INIT_HLIST_HEAD(&pid->inodes);
	init_waitqueue_head(&pid->wait_pidfd);
	spin_lock_irq(&pidmap_lock);
	if (set_tid_size) {
		nr = set_tid[0];
		if (nr < 1 || nr >= pid_max || find_pid_locked(nr)) {
			spin_unlock_irq(&pidmap_lock);
			kmem_cache_free(ns->pid_cachep, pid);
			return ERR_PTR(nr < 1 || nr >= pid_max ? -EINVAL : -EEXIST);
		}
	} else {
		nr = ns->last_pid = next_pid_nr(ns);
	}
	pid->numbers[0].nr = nr;
	pid->numbers[0].ns = ns;
	hlist_add_head((struct hlist_node *)&pid->rcu, pid_bucket(nr));
	ns->pid_allocated++;
	spin_unlock_irq(&pidmap_lock);
	return pid;
}

void put_pid(struct pid *pid)
{
	if (pid && refcount_dec_and_test(&pid->count))
		kmem_cache_free(init_pid_ns.pid_cachep, pid);
}
EXPORT_SYMBOL(put_pid);

void free_pid(struct pid *pid)
{
	unsigned long flags;

	spin_lock_irqsave(&pidmap_lock, flags);
	hlist_del((struct hlist_node *)&pid->rcu);
	init_pid_ns.pid_allocated--;
	spin_unlock_irqrestore(&pidmap_lock, flags);
	put_pid(pid);
}

struct pid *find_vpid(int nr)
{
	struct pid *pid;
	unsigned long flags;

	spin_lock_irqsave(&pidmap_lock, flags);
	pid = find_pid_locked(nr);
	spin_unlock_irqrestore(&pidmap_lock, flags);
	return pid;
}
EXPORT_SYMBOL(find_vpid);

struct pid *find_get_pid(pid_t nr)
{
	struct pid *pid;

	rcu_read_lock();
	pid = get_pid(find_vpid(nr));
	rcu_read_unlock();
	return pid;
}
EXPORT_SYMBOL(find_get_pid);

static struct pid **task_pid_ptr(struct task_struct *task, enum pid_type type)
{
	return type == PIDTYPE_PID ? &task->thread_pid : &task->signal->pids[type];
}

void attach_pid(struct task_struct *task, enum pid_type type)
{
	struct pid *pid = *task_pid_ptr(task, type);

	hlist_add_head_rcu(&task->pid_links[type], &pid->tasks[type]);
}

void __change_pid(struct task_struct *task, enum pid_type type, struct pid *new)
{
	struct pid **pid_ptr = task_pid_ptr(task, type), *pid = *pid_ptr;
	int tmp;

	hlist_del_rcu(&task->pid_links[type]);
	*pid_ptr = new;
	for (tmp = PIDTYPE_MAX; --tmp >= 0;)
		if (!hlist_empty(&pid->tasks[tmp]))
			return;
	free_pid(pid);
}

void detach_pid(struct task_struct *task, enum pid_type type)
{
	__change_pid(task, type, NULL);
}

struct task_struct *pid_task(struct pid *pid, enum pid_type type)
{
	if (!pid || !pid->tasks[type].first)
		return NULL;
	return hlist_entry(pid->tasks[type].first, struct task_struct, pid_links[type]);
}
EXPORT_SYMBOL(pid_task);

struct task_struct *get_pid_task(struct pid *pid, enum pid_type type)
{
	struct task_struct *result;

	rcu_read_lock();
	result = pid_task(pid, type);
	if (result)
		get_task_struct(result);
	rcu_read_unlock();
	return result;
}
EXPORT_SYMBOL(get_pid_task);

struct pid *get_task_pid(struct task_struct *task, enum pid_type type)
{
	struct pid *pid;

	rcu_read_lock();
	pid = get_pid(*task_pid_ptr(task, type));
	rcu_read_unlock();
	return pid;
}
EXPORT_SYMBOL(get_task_pid);

struct task_struct *find_task_by_vpid(pid_t vnr)
{
	return pid_task(find_vpid(vnr), PIDTYPE_PID);
}

struct task_struct *find_get_task_by_vpid(pid_t nr)
{
	struct task_struct *task;

	rcu_read_lock();
	task = find_task_by_vpid(nr);
	if (task)
		get_task_struct(task);
	rcu_read_unlock();
	return task;
}

pid_t __task_pid_nr_ns(struct task_struct *task, enum pid_type type, struct pid_namespace *ns)
{
	pid_t nr;

	rcu_read_lock();
	nr = pid_nr(*task_pid_ptr(task, type));
	rcu_read_unlock();
	return nr;
}
EXPORT_SYMBOL(__task_pid_nr_ns);

pid_t pid_nr_ns(struct pid *pid, struct pid_namespace *ns)
{
	return pid && ns == &init_pid_ns ? pid_nr(pid) : 0;
}
EXPORT_SYMBOL(pid_nr_ns);

pid_t pid_vnr(struct pid *pid)
{
	return pid_nr_ns(pid, task_active_pid_ns(current));
}
EXPORT_SYMBOL(pid_vnr);

struct pid_namespace *task_active_pid_ns(struct task_struct *tsk)
{
	return &init_pid_ns;
}
EXPORT_SYMBOL(task_active_pid_ns);
EXPORT_SYMBOL(init_pid_ns);

void __init pid_idr_init(void)
{
	init_pid_ns.pid_cachep = kmem_cache_create("pid", sizeof(struct pid), 64, SLAB_PANIC, NULL);
}
