#ifndef _LINUX_COMPLETION_H
#define _LINUX_COMPLETION_H
#include <linux/wait.h>
struct completion { unsigned int done; struct swait_queue_head wait; };
static_assert(sizeof(struct completion) == 32, "struct completion");
#define COMPLETION_INITIALIZER(w) { 0, __SWAIT_QUEUE_HEAD_INITIALIZER((w).wait) }
#define DECLARE_COMPLETION(w) struct completion w = COMPLETION_INITIALIZER(w)
#define DECLARE_COMPLETION_ONSTACK(w) DECLARE_COMPLETION(w)
static inline void init_completion(struct completion *x) { x->done = 0; init_swait_queue_head(&x->wait); }
static inline void reinit_completion(struct completion *x) { x->done = 0; }
void complete(struct completion *x);
void complete_all(struct completion *x);
void wait_for_completion(struct completion *x);
void wait_for_completion_io(struct completion *x);
unsigned long wait_for_completion_io_timeout(struct completion *x, unsigned long timeout);
unsigned long wait_for_completion_timeout(struct completion *x, unsigned long timeout);
int wait_for_completion_interruptible(struct completion *x);
int wait_for_completion_killable(struct completion *x);
long wait_for_completion_interruptible_timeout(struct completion *x, unsigned long timeout);
long wait_for_completion_killable_timeout(struct completion *x, unsigned long timeout);
bool try_wait_for_completion(struct completion *x);
bool completion_done(struct completion *x);
#endif
