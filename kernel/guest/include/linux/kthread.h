#ifndef _LINUX_KTHREAD_H
#define _LINUX_KTHREAD_H
#include <linux/sched.h>
#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/timer.h>
#include <linux/string.h>
struct task_struct *kthread_create_on_node(int (*threadfn)(void *data), void *data, int node, const char namefmt[], ...) __printf(4, 5);
struct task_struct *kthread_create_on_cpu(int (*threadfn)(void *data), void *data, unsigned int cpu, const char *namefmt);
#define kthread_create(fn, data, fmt, arg...) kthread_create_on_node(fn, data, -1, fmt, ##arg)
#define kthread_run(fn, data, fmt, ...) ({ struct task_struct *__k = kthread_create(fn, data, fmt, ##__VA_ARGS__); \
	if (!IS_ERR(__k)) { wake_up_process(__k); } __k; })
void kthread_bind(struct task_struct *k, unsigned int cpu);
int kthread_stop(struct task_struct *k);
bool kthread_should_stop(void);
bool kthread_should_park(void);
bool __kthread_should_park(struct task_struct *k);
void kthread_parkme(void);
int kthread_park(struct task_struct *k);
void kthread_unpark(struct task_struct *k);
bool kthread_is_per_cpu(struct task_struct *p);
void *kthread_func(struct task_struct *task);
void *kthread_data(struct task_struct *k);
void kthread_exit(long result) __noreturn;
void free_kthread_struct(struct task_struct *k);
bool set_kthread_struct(struct task_struct *p);
int kthreadd(void *unused);
extern struct task_struct *kthreadd_task;

/* A thread that does work in order. */
struct kthread_work;
typedef void (*kthread_work_func_t)(struct kthread_work *work);
enum { KTW_FREEZABLE = 1 };
struct kthread_worker {
	unsigned int flags;
	raw_spinlock_t lock;
	struct list_head work_list;
	struct list_head delayed_work_list;
	struct task_struct *task;
	struct kthread_work *current_work;
};
struct kthread_work {
	struct list_head node;
	kthread_work_func_t func;
	struct kthread_worker *worker;
	int canceling; /* how many calls cancel it now */
};
struct kthread_delayed_work {
	struct kthread_work work;
	struct timer_list timer;
};
#define KTHREAD_WORK_INIT(w, fn) { .node = LIST_HEAD_INIT((w).node), .func = (fn) }
#define DEFINE_KTHREAD_WORK(w, fn) struct kthread_work w = KTHREAD_WORK_INIT(w, fn)
#define kthread_init_worker(w) do { static struct lock_class_key __key; __kthread_init_worker((w), #w, &__key); } while (0)
#define kthread_init_work(w, fn) do { memset((w), 0, sizeof(struct kthread_work)); INIT_LIST_HEAD(&(w)->node); (w)->func = (fn); } while (0)
#define kthread_init_delayed_work(dw, fn) do { kthread_init_work(&(dw)->work, fn); \
	timer_setup(&(dw)->timer, kthread_delayed_work_timer_fn, TIMER_IRQSAFE); } while (0)
void __kthread_init_worker(struct kthread_worker *worker, const char *name, struct lock_class_key *key);
int kthread_worker_fn(void *worker_ptr);
struct kthread_worker *kthread_create_worker(unsigned int flags, const char namefmt[], ...) __printf(2, 3);
struct kthread_worker *kthread_create_worker_on_cpu(int cpu, unsigned int flags, const char namefmt[], ...) __printf(3, 4);
bool kthread_queue_work(struct kthread_worker *worker, struct kthread_work *work);
bool kthread_queue_delayed_work(struct kthread_worker *worker, struct kthread_delayed_work *dwork, unsigned long delay);
bool kthread_mod_delayed_work(struct kthread_worker *worker, struct kthread_delayed_work *dwork, unsigned long delay);
void kthread_delayed_work_timer_fn(struct timer_list *t);
void kthread_flush_work(struct kthread_work *work);
void kthread_flush_worker(struct kthread_worker *worker);
bool kthread_cancel_work_sync(struct kthread_work *work);
bool kthread_cancel_delayed_work_sync(struct kthread_delayed_work *dwork);
void kthread_destroy_worker(struct kthread_worker *worker);
#endif
