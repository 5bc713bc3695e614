/* cred.c: credentials: copied on write, shared otherwise. */
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>

#define CAP_FULL_SET { { 0xffffffff, 0x000001ff } }
struct cred init_cred = {
	.usage = ATOMIC_LONG_INIT(4),
	.cap_permitted = CAP_FULL_SET, .cap_effective = CAP_FULL_SET, .cap_bset = CAP_FULL_SET,
};
static struct kmem_cache *cred_jar;

static void put_cred_rcu(struct callback_head *rcu)
{
	kmem_cache_free(cred_jar, container_of(rcu, struct cred, rcu));
}

noinline void __put_cred(struct cred *cred)
{
	BUG_ON(atomic_long_read(&cred->usage) != 0);
	call_rcu(&cred->rcu, put_cred_rcu);
}
EXPORT_SYMBOL(__put_cred);

/* A copy that the task may change. */
noinline struct cred *prepare_creds(void)
{
	struct cred *new = kmem_cache_alloc(cred_jar, GFP_KERNEL);

	if (!new)
		return NULL;
	memcpy(new, current->cred, sizeof(*new));
	new->non_rcu = 0;
	atomic_long_set(&new->usage, 1);
	return new;
}
EXPORT_SYMBOL(prepare_creds);

/* Credentials for the kernel's own work: daemon's, or root's. */
struct cred *prepare_kernel_cred(struct task_struct *daemon)
{
	const struct cred *old;
	struct cred *new;

#if GUEST_LINUX >= 612
	if (WARN_ON_ONCE(!daemon))
		return NULL;
#endif
	new = kmem_cache_alloc(cred_jar, GFP_KERNEL);
	if (!new)
		return NULL;
	old = daemon ? get_task_cred(daemon) : get_cred(&init_cred);
	*new = *old;
	new->non_rcu = 0;
	atomic_long_set(&new->usage, 1);
	put_cred(old);
	return new;
}
EXPORT_SYMBOL(prepare_kernel_cred);

/* The task's credentials, which the caller puts. */
const struct cred *get_task_cred(struct task_struct *task)
{
	const struct cred *cred;

	rcu_read_lock();
	cred = get_cred(READ_ONCE(task->real_cred));
	rcu_read_unlock();
	return cred;
}
EXPORT_SYMBOL(get_task_cred);

/* Has the current task act with other credentials until revert_creds. */
const struct cred *override_creds(const struct cred *new)
{
	const struct cred *old = current->cred;

	current->cred = (struct cred *)get_cred(new);
	return old;
}
EXPORT_SYMBOL(override_creds);

void revert_creds(const struct cred *old)
{
	const struct cred *override = current->cred;

	current->cred = (struct cred *)old;
	put_cred(override);
}
EXPORT_SYMBOL(revert_creds);

/* Threads share their creator's, processes get a copy. */
int copy_creds(struct task_struct *p, unsigned long clone_flags)
{
	struct cred *new;

	if (clone_flags & CLONE_THREAD) {
		p->real_cred = get_cred(p->cred);
		get_cred(p->cred);
		return 0;
	}
	new = prepare_creds();
	if (!new)
		return -ENOMEM;
	p->cred = p->real_cred = get_cred(new);
	return 0;
}

void exit_creds(struct task_struct *tsk)
{
	put_cred(tsk->real_cred);
	put_cred(tsk->cred);
	tsk->real_cred = tsk->cred = NULL;
}

int commit_creds(struct cred *new)
{
	struct task_struct *task = current;
	const struct cred *old = task->real_cred;

	get_cred(new);
	rcu_assign_pointer(task->real_cred, new);
	rcu_assign_pointer(task->cred, new);
	put_cred(old);
	put_cred(old);
	return 0;
}
EXPORT_SYMBOL(commit_creds);

bool cap_capable(const struct cred *cred, int cap)
{
	return (cred->cap_effective.cap[cap >> 5] >> (cap & 31)) & 1;
}

bool capable(int cap)
{
	return cap_capable(current->cred, cap);
}
EXPORT_SYMBOL(capable);

void __init cred_init(void)
{
	cred_jar = KMEM_CACHE(cred, SLAB_HWCACHE_ALIGN | SLAB_PANIC);
}
