/* kthread.c: kernel threads, all children of kthreadd. */
#include <linux/kthread.h>
#include <trace/events/sched.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/string.h>

enum { KTHREAD_IS_PER_CPU, KTHREAD_SHOULD_STOP, KTHREAD_SHOULD_PARK };
struct kthread {
	unsigned long flags;
	unsigned int cpu;
	int result;
	int (*threadfn)(void *);
	void *data;
	struct completion exited, parked;
	char full_name[TASK_COMM_LEN];
};
struct kthread_create_info {
	int (*threadfn)(void *data);
	void *data;
	int node;
	struct task_struct *result;
	struct completion *done;
	struct list_head list;
};

static DEFINE_SPINLOCK(kthread_create_lock);
static LIST_HEAD(kthread_create_list);
struct task_struct *kthreadd_task;

static inline struct kthread *to_kthread(struct task_struct *k)
{
	return k->kthread;
}

bool set_kthread_struct(struct task_struct *p)
{
	struct kthread *kthread = kzalloc(sizeof(*kthread), GFP_KERNEL);

	if (!kthread)
		return false;
	init_completion(&kthread->exited);
	init_completion(&kthread->parked);
	p->vfork_done = &kthread->exited;
	p->kthread = kthread;
	return true;
}

void free_kthread_struct(struct task_struct *k)
{
	kfree(to_kthread(k));
	k->kthread = NULL;
}

bool kthread_should_stop(void)
{
	return test_bit(KTHREAD_SHOULD_STOP, &to_kthread(current)->flags);
}
EXPORT_SYMBOL(kthread_should_stop);

bool __kthread_should_park(struct task_struct *k)
{
	return test_bit(KTHREAD_SHOULD_PARK, &to_kthread(k)->flags);
}
EXPORT_SYMBOL(__kthread_should_park);

bool kthread_should_park(void)
{
	return __kthread_should_park(current);
}
EXPORT_SYMBOL_GPL(kthread_should_park);

/* Called by a thread that is to park: it sleeps until it is unparked or stopped. */
void kthread_parkme(void)
{
	struct kthread *self = to_kthread(current);

	for (;;) {
		set_current_state(TASK_PARKED);
		if (!test_bit(KTHREAD_SHOULD_PARK, &self->flags))
			break;
		complete(&self->parked);
		schedule();
	}
	__set_current_state(TASK_RUNNING);
}
EXPORT_SYMBOL_GPL(kthread_parkme);

/* Has the thread park, and waits until it has. */
int kthread_park(struct task_struct *k)
{
	struct kthread *kthread = to_kthread(k);

	if (WARN_ON(k->flags & PF_EXITING))
		return -ENOSYS;
	if (WARN_ON_ONCE(test_bit(KTHREAD_SHOULD_PARK, &kthread->flags)))
		return -EBUSY;
	set_bit(KTHREAD_SHOULD_PARK, &kthread->flags);
	if (k != current) {
		wake_up_process(k);
		wait_for_completion(&kthread->parked);
	}
	return 0;
}
EXPORT_SYMBOL_GPL(kthread_park);

noinline void kthread_unpark(struct task_struct *k)
{
	struct kthread *kthread = to_kthread(k);

	reinit_completion(&kthread->parked);
	clear_bit(KTHREAD_SHOULD_PARK, &kthread->flags);
	wake_up_state(k, TASK_PARKED);
}
EXPORT_SYMBOL_GPL(kthread_unpark);

/* The function of a thread, NULL for other tasks. */
void *kthread_func(struct task_struct *task)
{
	return task->flags & PF_KTHREAD && to_kthread(task) ? to_kthread(task)->threadfn : NULL;
}
EXPORT_SYMBOL_GPL(kthread_func);

void *kthread_data(struct task_struct *task)
{
	return to_kthread(task)->data;
}
EXPORT_SYMBOL(kthread_data);

bool kthread_is_per_cpu(struct task_struct *p)
{
	struct kthread *kthread = to_kthread(p);

	return kthread && test_bit(KTHREAD_IS_PER_CPU, &kthread->flags);
}

void kthread_exit(long result)
{
	to_kthread(current)->result = result;
	do_exit(0);
}

void kthread_complete_and_exit(struct completion *comp, long code)
{
	if (comp)
		complete(comp);
	kthread_exit(code);
}
EXPORT_SYMBOL(kthread_complete_and_exit);

/* Kernel threads begin here, and sleep until they are woken up. */
static int kthread(void *_create)
{
	struct kthread_create_info *create = _create;
	int (*threadfn)(void *data) = create->threadfn;
	struct kthread *self = to_kthread(current);
	int ret = -EINTR;

	self->threadfn = threadfn;
	self->data = create->data;
	__set_current_state(TASK_UNINTERRUPTIBLE);
	create->result = current;
	preempt_disable();
	complete(create->done);
	schedule_preempt_disabled();
	preempt_enable();
	if (!test_bit(KTHREAD_SHOULD_STOP, &self->flags)) {
		kthread_parkme();
		ret = threadfn(self->data);
	}
	kthread_exit(ret);
}

static void create_kthread(struct kthread_create_info *create)
{
	int pid = kernel_thread(kthread, create, SIGCHLD);

	if (pid < 0) {
		create->result = ERR_PTR(pid);
		complete(create->done);
	}
}

static noinline struct task_struct *__kthread_create_on_node(int (*threadfn)(void *data), void *data, int node,
						    const char namefmt[], va_list args)
{
	DECLARE_COMPLETION_ONSTACK(done);
	struct kthread_create_info create = { .threadfn = threadfn, .data = data, .node = node, .done = &done };
	char name[TASK_COMM_LEN];

	vsnprintf(name, sizeof(name), namefmt, args);
	spin_lock(&kthread_create_lock);
	list_add_tail(&create.list, &kthread_create_list);
	spin_unlock(&kthread_create_lock);
	wake_up_process(kthreadd_task);
	wait_for_completion(&done);
	if (!IS_ERR(create.result))
		set_task_comm(create.result, name);
	return create.result;
}

struct task_struct *kthread_create_on_node(int (*threadfn)(void *data), void *data, int node, const char namefmt[], ...)
{
	struct task_struct *task;
	va_list args;

	va_start(args, namefmt);
	task = __kthread_create_on_node(threadfn, data, node, namefmt, args);
	va_end(args);
	return task;
}
EXPORT_SYMBOL(kthread_create_on_node);

/* A new thread may still be about to sleep, and a wake-up would leave it on its CPU. */
void kthread_bind(struct task_struct *p, unsigned int cpu)
{
	if (WARN_ON(!wait_task_inactive(p, TASK_UNINTERRUPTIBLE)))
		return;
	p->flags |= PF_NO_SETAFFINITY;
	p->cpus_mask.bits[0] = 1UL << cpu;
	p->nr_cpus_allowed = 1;
	p->wake_cpu = cpu;
}
EXPORT_SYMBOL(kthread_bind);

/* namefmt may have one %u, for the CPU. */
struct task_struct *kthread_create_on_cpu(int (*threadfn)(void *data), void *data, unsigned int cpu, const char *namefmt)
{
	struct task_struct *p = kthread_create_on_node(threadfn, data, 0, namefmt, cpu);

	if (IS_ERR(p))
		return p;
	kthread_bind(p, cpu);
	to_kthread(p)->cpu = cpu;
	set_bit(KTHREAD_IS_PER_CPU, &to_kthread(p)->flags);
	return p;
}
EXPORT_SYMBOL(kthread_create_on_cpu);

/* Stops the thread, waits for its end, and returns the result of its function. */
int kthread_stop(struct task_struct *k)
{
	struct kthread *kthread;
	int ret;

	trace_sched_kthread_stop(k);
	get_task_struct(k);
	kthread = to_kthread(k);
	set_bit(KTHREAD_SHOULD_STOP, &kthread->flags);
	if (test_bit(KTHREAD_SHOULD_PARK, &kthread->flags))
		kthread_unpark(k);
	wake_up_process(k);
	wait_for_completion(&kthread->exited);
	ret = kthread->result;
	put_task_struct(k);
	trace_sched_kthread_stop_ret(ret);
	return ret;
}
EXPORT_SYMBOL(kthread_stop);

int kthreadd(void *unused)
{
	set_task_comm(current, "kthreadd");
	for (;;) {
		set_current_state(TASK_INTERRUPTIBLE);
		if (list_empty(&kthread_create_list))
			schedule();
		__set_current_state(TASK_RUNNING);
		spin_lock(&kthread_create_lock);
		while (!list_empty(&kthread_create_list)) {
			struct kthread_create_info *create = list_first_entry(&kthread_create_list, struct kthread_create_info, list);

			list_del_init(&create->list);
			spin_unlock(&kthread_create_lock);
			create_kthread(create);
			spin_lock(&kthread_create_lock);
		}
		spin_unlock(&kthread_create_lock);
	}
	return 0;
}
