// wait_bit.h: waiting for a bit of a word, or for a variable.
#ifndef _LINUX_WAIT_BIT_H
#define _LINUX_WAIT_BIT_H

#include <linux/wait.h>

struct wait_bit_key {
	void *flags;
	int bit_nr;
	unsigned long timeout;
};

struct wait_bit_queue_entry {
	struct wait_bit_key key;
	struct wait_queue_entry wq_entry;
};

typedef int wait_bit_action_f(struct wait_bit_key *key, int mode);

#define DEFINE_WAIT_BIT(name, word, bit) struct wait_bit_queue_entry name = { \
	.key = { .flags = (word), .bit_nr = (bit) }, \
	.wq_entry = { .private = current, .func = wake_bit_function, .entry = LIST_HEAD_INIT((name).wq_entry.entry) } }

struct wait_queue_head *bit_waitqueue(void *word, int bit);
int wake_bit_function(struct wait_queue_entry *wq_entry, unsigned int mode, int sync, void *key);
int __wait_on_bit(struct wait_queue_head *wq_head, struct wait_bit_queue_entry *wbq_entry, wait_bit_action_f *action, unsigned int mode);
int __wait_on_bit_lock(struct wait_queue_head *wq_head, struct wait_bit_queue_entry *wbq_entry, wait_bit_action_f *action, unsigned int mode);
int out_of_line_wait_on_bit(void *word, int bit, wait_bit_action_f *action, unsigned int mode);
int out_of_line_wait_on_bit_timeout(void *word, int bit, wait_bit_action_f *action, unsigned int mode, unsigned long timeout);
int out_of_line_wait_on_bit_lock(void *word, int bit, wait_bit_action_f *action, unsigned int mode);
void __wake_up_bit(struct wait_queue_head *wq_head, void *word, int bit);
void wake_up_bit(void *word, int bit);
struct wait_queue_head *__var_waitqueue(void *p);
void init_wait_var_entry(struct wait_bit_queue_entry *wbq_entry, void *var, int flags);
void wake_up_var(void *var);
int bit_wait(struct wait_bit_key *key, int mode);
int bit_wait_io(struct wait_bit_key *key, int mode);
int bit_wait_timeout(struct wait_bit_key *key, int mode);

/* The word is a bitmap: the bit may lie in a later one. */
static inline int wait_on_bit(unsigned long *word, int bit, unsigned mode)
{
	might_sleep();
	return test_bit(bit, word) ? out_of_line_wait_on_bit(word, bit, bit_wait, mode) : 0;
}
static inline int wait_on_bit_timeout(unsigned long *word, int bit, unsigned mode, unsigned long timeout)
{
	might_sleep();
	return test_bit(bit, word) ? out_of_line_wait_on_bit_timeout(word, bit, bit_wait_timeout, mode, timeout) : 0;
}
static inline int wait_on_bit_lock(unsigned long *word, int bit, unsigned mode)
{
	might_sleep();
	return test_and_set_bit(bit, word) ? out_of_line_wait_on_bit_lock(word, bit, bit_wait, mode) : 0;
}
static inline void clear_and_wake_up_bit(int bit, void *word)
{
	clear_bit(bit, word); /* a full barrier */
	wake_up_bit(word, bit);
}

#define ___wait_var_event(var, condition, state, ret, cmd) ({ \
	struct wait_queue_head *__wq = __var_waitqueue(var); \
	struct wait_bit_queue_entry __wbq; \
	long __ret = ret; \
	init_wait_var_entry(&__wbq, var, 0); \
	for (;;) { \
		long __intr = prepare_to_wait_event(__wq, &__wbq.wq_entry, state); \
		if (condition) \
			break; \
		if (__intr && (state) != TASK_UNINTERRUPTIBLE) { \
			__ret = __intr; \
			break; \
		} \
		cmd; \
	} \
	finish_wait(__wq, &__wbq.wq_entry); \
	__ret; })
#define wait_var_event(var, condition) do { \
	might_sleep(); \
	if (!(condition)) \
		(void)___wait_var_event(var, condition, TASK_UNINTERRUPTIBLE, 0, schedule()); \
} while (0)
#define wait_var_event_interruptible(var, condition) ({ \
	int __r = 0; \
	might_sleep(); \
	if (!(condition)) \
		__r = ___wait_var_event(var, condition, TASK_INTERRUPTIBLE, 0, schedule()); \
	__r; })

#endif
