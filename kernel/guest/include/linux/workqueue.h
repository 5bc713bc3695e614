/* workqueue.h: functions called by kworker threads. */
#ifndef _LINUX_WORKQUEUE_H
#define _LINUX_WORKQUEUE_H
#include <linux/timer.h>
#include <linux/atomic.h>
struct work_struct;
struct workqueue_struct;
typedef void (*work_func_t)(struct work_struct *work);
struct work_struct { atomic_long_t data; struct list_head entry; work_func_t func; };
struct delayed_work { struct work_struct work; struct timer_list timer; struct workqueue_struct *wq; int cpu; };
#define WORK_STRUCT_PENDING_BIT 0
#define WORK_CPU_UNBOUND 8192	/* NR_CPUS of Debian's kernel, shown by events */
#define __WORK_INITIALIZER(n, f) { .entry = { &(n).entry, &(n).entry }, .func = (f) }
#define DECLARE_WORK(n, f) struct work_struct n = __WORK_INITIALIZER(n, f)
#define DECLARE_DELAYED_WORK(n, f) struct delayed_work n = { .work = __WORK_INITIALIZER((n).work, f), .timer = __TIMER_INITIALIZER(delayed_work_timer_fn, TIMER_IRQSAFE) }
#define INIT_WORK(w, f) do { atomic_long_set(&(w)->data, 0); INIT_LIST_HEAD(&(w)->entry); (w)->func = (f); } while (0)
#define INIT_DELAYED_WORK(w, f) do { INIT_WORK(&(w)->work, f); timer_setup(&(w)->timer, delayed_work_timer_fn, TIMER_IRQSAFE); } while (0)
#define to_delayed_work(w) container_of(w, struct delayed_work, work)
#define work_pending(w) test_bit(WORK_STRUCT_PENDING_BIT, (unsigned long *)&(w)->data)
extern struct workqueue_struct *system_wq, *system_unbound_wq;
void delayed_work_timer_fn(struct timer_list *t);
struct workqueue_struct *alloc_workqueue(const char *fmt, unsigned int flags, int max_active, ...);
void destroy_workqueue(struct workqueue_struct *wq);
bool queue_work_on(int cpu, struct workqueue_struct *wq, struct work_struct *work);
bool queue_delayed_work_on(int cpu, struct workqueue_struct *wq, struct delayed_work *dwork, unsigned long delay);
bool mod_delayed_work_on(int cpu, struct workqueue_struct *wq, struct delayed_work *dwork, unsigned long delay);
bool flush_work(struct work_struct *work);
bool flush_delayed_work(struct delayed_work *dwork);
bool cancel_work_sync(struct work_struct *work);
bool cancel_delayed_work(struct delayed_work *dwork);
bool cancel_delayed_work_sync(struct delayed_work *dwork);
void __flush_workqueue(struct workqueue_struct *wq);
#define flush_workqueue(wq) __flush_workqueue(wq)
static inline bool queue_work(struct workqueue_struct *wq, struct work_struct *w) { return queue_work_on(WORK_CPU_UNBOUND, wq, w); }
static inline bool queue_delayed_work(struct workqueue_struct *wq, struct delayed_work *w, unsigned long d) { return queue_delayed_work_on(WORK_CPU_UNBOUND, wq, w, d); }
static inline bool schedule_work(struct work_struct *w) { return queue_work(system_wq, w); }
static inline bool schedule_delayed_work(struct delayed_work *w, unsigned long d) { return queue_delayed_work(system_wq, w, d); }
void workqueue_init_early(void);
void workqueue_init(void);
extern struct workqueue_struct *system_long_wq, *system_highpri_wq, *system_freezable_wq;
bool cancel_work(struct work_struct *work);
#define WORK_BUSY_PENDING 1
#define WORK_BUSY_RUNNING 2
unsigned int work_busy(struct work_struct *work);
long work_on_cpu_key(int cpu, long (*fn)(void *), void *arg, struct lock_class_key *key);
long work_on_cpu_safe_key(int cpu, long (*fn)(void *), void *arg, struct lock_class_key *key);
#define work_on_cpu(cpu, fn, arg) ({ static struct lock_class_key __key; work_on_cpu_key(cpu, fn, arg, &__key); })
#define work_on_cpu_safe(cpu, fn, arg) ({ static struct lock_class_key __key; work_on_cpu_safe_key(cpu, fn, arg, &__key); })
#define delayed_work_pending(w) work_pending(&(w)->work)
static inline bool schedule_work_on(int cpu, struct work_struct *w) { return queue_work_on(cpu, system_wq, w); }
static inline bool schedule_delayed_work_on(int cpu, struct delayed_work *w, unsigned long d) { return queue_delayed_work_on(cpu, system_wq, w, d); }
static inline bool mod_delayed_work(struct workqueue_struct *wq, struct delayed_work *w, unsigned long d) { return mod_delayed_work_on(WORK_CPU_UNBOUND, wq, w, d); }
enum { WQ_UNBOUND = 1 << 1, WQ_FREEZABLE = 1 << 2, WQ_MEM_RECLAIM = 1 << 3, WQ_HIGHPRI = 1 << 4, WQ_CPU_INTENSIVE = 1 << 5, __WQ_ORDERED = 1 << 17 };
#define create_workqueue(name) alloc_workqueue("%s", WQ_MEM_RECLAIM, 1, name)
#define create_singlethread_workqueue(name) alloc_ordered_workqueue("%s", WQ_MEM_RECLAIM, name)
#define alloc_ordered_workqueue(fmt, flags, args...) alloc_workqueue(fmt, WQ_UNBOUND | __WQ_ORDERED | (flags), 1, ##args)
#define INIT_WORK_ONSTACK INIT_WORK
#define INIT_DELAYED_WORK_ONSTACK INIT_DELAYED_WORK
#define destroy_work_on_stack(w) do { } while (0)
#define destroy_delayed_work_on_stack(w) do { } while (0)
#endif
