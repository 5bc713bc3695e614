/* wait.h: wait queues: tasks that sleep until a condition may hold. */
#ifndef _LINUX_WAIT_H
#define _LINUX_WAIT_H
#include <linux/spinlock.h>
#include <linux/list.h>
#include <linux/errno.h>
typedef struct wait_queue_entry wait_queue_entry_t;
typedef int (*wait_queue_func_t)(wait_queue_entry_t *curr, unsigned int mode, int flags, void *key);
#define WQ_FLAG_EXCLUSIVE 0x01
#define WQ_FLAG_WOKEN 0x02
struct wait_queue_entry {
	unsigned int flags;
	void *private;
	wait_queue_func_t func;
	struct list_head entry;
};
struct wait_queue_head { spinlock_t lock; struct list_head head; };
typedef struct wait_queue_head wait_queue_head_t;
static_assert(sizeof(wait_queue_head_t) == 24, "wait_queue_head");
#define __WAIT_QUEUE_HEAD_INITIALIZER(n) { .lock = __SPIN_LOCK_UNLOCKED(n.lock), .head = LIST_HEAD_INIT(n.head) }
#define DECLARE_WAIT_QUEUE_HEAD(n) struct wait_queue_head n = __WAIT_QUEUE_HEAD_INITIALIZER(n)
void __init_waitqueue_head(struct wait_queue_head *wq_head, const char *name, struct lock_class_key *key);
#define init_waitqueue_head(wq) do { static struct lock_class_key __key; __init_waitqueue_head((wq), #wq, &__key); } while (0)
#define DECLARE_WAITQUEUE(n, tsk) struct wait_queue_entry n = { .private = tsk, .func = default_wake_function }
#define DEFINE_WAIT_FUNC(n, function) struct wait_queue_entry n = { .private = current, .func = function, .entry = LIST_HEAD_INIT((n).entry) }
#define DEFINE_WAIT(n) DEFINE_WAIT_FUNC(n, autoremove_wake_function)
static inline int waitqueue_active(struct wait_queue_head *wq) { return !list_empty(&wq->head); }
#define wq_has_sleeper(wq) ({ smp_mb(); waitqueue_active(wq); })
static inline void init_waitqueue_func_entry(struct wait_queue_entry *e, wait_queue_func_t func)
{ e->flags = 0; e->private = NULL; e->func = func; INIT_LIST_HEAD(&e->entry); }
void add_wait_queue(struct wait_queue_head *wq_head, struct wait_queue_entry *wq_entry);
void add_wait_queue_exclusive(struct wait_queue_head *wq_head, struct wait_queue_entry *wq_entry);
void remove_wait_queue(struct wait_queue_head *wq_head, struct wait_queue_entry *wq_entry);
void prepare_to_wait(struct wait_queue_head *wq_head, struct wait_queue_entry *wq_entry, int state);
bool prepare_to_wait_exclusive(struct wait_queue_head *wq_head, struct wait_queue_entry *wq_entry, int state);
long prepare_to_wait_event(struct wait_queue_head *wq_head, struct wait_queue_entry *wq_entry, int state);
void finish_wait(struct wait_queue_head *wq_head, struct wait_queue_entry *wq_entry);
int __wake_up(struct wait_queue_head *wq_head, unsigned int mode, int nr_exclusive, void *key);
void __wake_up_sync_key(struct wait_queue_head *wq_head, unsigned int mode, void *key);
void __wake_up_sync(struct wait_queue_head *wq_head, unsigned int mode);
void __wake_up_locked(struct wait_queue_head *wq_head, unsigned int mode, int nr);
int autoremove_wake_function(wait_queue_entry_t *wq_entry, unsigned int mode, int sync, void *key);
int default_wake_function(wait_queue_entry_t *curr, unsigned int mode, int wake_flags, void *key);
int woken_wake_function(wait_queue_entry_t *wq_entry, unsigned int mode, int sync, void *key);
long wait_woken(wait_queue_entry_t *wq_entry, unsigned int mode, long timeout);
#define TASK_NORMAL_BITS 3
#define wake_up(x) __wake_up(x, 3, 1, NULL)
#define wake_up_nr(x, nr) __wake_up(x, 3, nr, NULL)
#define wake_up_all(x) __wake_up(x, 3, 0, NULL)
#define wake_up_interruptible(x) __wake_up(x, 1, 1, NULL)
#define wake_up_interruptible_all(x) __wake_up(x, 1, 0, NULL)
#define wake_up_interruptible_sync(x) __wake_up_sync(x, 1)
#define wake_up_interruptible_sync_poll(x, m) __wake_up_sync_key(x, 1, (void *)(unsigned long)(m))
#define ___wait_event(wq, condition, state, exclusive, ret, cmd) ({ \
	struct wait_queue_entry __wqe; long __ret = ret; \
	init_wait_entry(&__wqe, exclusive ? WQ_FLAG_EXCLUSIVE : 0); \
	for (;;) { \
		long __int = prepare_to_wait_event(&(wq), &__wqe, state); \
		if (condition) break; \
		if ((state) & (1 | 0x100)) if (__int) { __ret = __int; break; } \
		cmd; \
	} \
	finish_wait(&(wq), &__wqe); __ret; })
void init_wait_entry(struct wait_queue_entry *wq_entry, int flags);
#define wait_event(wq, c) do { if (!(c)) (void)___wait_event(wq, c, 2, 0, 0, schedule()); } while (0)
#define wait_event_interruptible(wq, c) ({ int __r = 0; if (!(c)) __r = ___wait_event(wq, c, 1, 0, 0, schedule()); __r; })
#define wait_event_interruptible_exclusive(wq, c) ({ int __r = 0; if (!(c)) __r = ___wait_event(wq, c, 1, 1, 0, schedule()); __r; })
#define wait_event_killable(wq, c) ({ int __r = 0; if (!(c)) __r = ___wait_event(wq, c, 0x102, 0, 0, schedule()); __r; })
#define wait_event_idle(wq, c) do { if (!(c)) (void)___wait_event(wq, c, 0x402, 0, 0, schedule()); } while (0)
#define ___wait_timeout(wq, c, st, to) ({ long __to = (to); bool __done = (c); \
	if (!__done) { (void)___wait_event(wq, (__done = (c)) || !__to, st, 0, 0, __to = schedule_timeout(__to)); } \
	__done ? (__to ? __to : 1) : 0; })
#define wait_event_timeout(wq, c, to) ___wait_timeout(wq, c, 2, to)
#define wait_event_interruptible_timeout(wq, c, to) ___wait_timeout(wq, c, 1, to)

/* swait: the simple kind that completions use. */
struct swait_queue_head { raw_spinlock_t lock; struct list_head task_list; };
struct swait_queue { struct task_struct *task; struct list_head task_list; };
#define __SWAIT_QUEUE_HEAD_INITIALIZER(n) { .lock = __RAW_SPIN_LOCK_UNLOCKED, .task_list = LIST_HEAD_INIT((n).task_list) }
void __init_swait_queue_head(struct swait_queue_head *q, const char *name, struct lock_class_key *key);
#define init_swait_queue_head(q) do { static struct lock_class_key __key; __init_swait_queue_head((q), #q, &__key); } while (0)
void swake_up_one(struct swait_queue_head *q);
void swake_up_locked(struct swait_queue_head *q);
#endif
