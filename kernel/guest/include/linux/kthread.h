#ifndef _LINUX_KTHREAD_H
#define _LINUX_KTHREAD_H
#include <linux/sched.h>
struct task_struct *kthread_create_on_node(int (*threadfn)(void *data), void *data, int node, const char namefmt[], ...) __printf(4, 5);
struct task_struct *kthread_create_on_cpu(int (*threadfn)(void *data), void *data, unsigned int cpu, const char *namefmt);
#define kthread_create(fn, data, fmt, arg...) kthread_create_on_node(fn, data, -1, fmt, ##arg)
#define kthread_run(fn, data, fmt, ...) ({ struct task_struct *__k = kthread_create(fn, data, fmt, ##__VA_ARGS__); \
	if (!IS_ERR(__k)) { wake_up_process(__k); } __k; })
void kthread_bind(struct task_struct *k, unsigned int cpu);
int kthread_stop(struct task_struct *k);
bool kthread_should_stop(void);
bool kthread_is_per_cpu(struct task_struct *p);
void *kthread_data(struct task_struct *k);
void kthread_exit(long result) __noreturn;
void free_kthread_struct(struct task_struct *k);
bool set_kthread_struct(struct task_struct *p);
int kthreadd(void *unused);
extern struct task_struct *kthreadd_task;
#endif
