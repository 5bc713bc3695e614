// Waiting for a bit of a word, or for a variable: the queues are shared, and found by the address.
#include <linux/bitops.h>
#include <linux/export.h>
#include <linux/jiffies.h>
#include <linux/sched.h>
#include <linux/wait.h>
#include <linux/wait_bit.h>

#define WAIT_TABLE_BITS 8

static struct wait_queue_head bit_wait_table[1 << WAIT_TABLE_BITS];

static __always_inline struct wait_queue_head *queue_of(unsigned long value)
{
	return &bit_wait_table[(value * 0x61C8864680B583EBul) >> (64 - WAIT_TABLE_BITS)];
}

static int __init wait_bit_init(void)
{
	int i;

	for (i = 0; i < 1 << WAIT_TABLE_BITS; i++)
		init_waitqueue_head(&bit_wait_table[i]);
	return 0;
}
early_initcall(wait_bit_init);

struct wait_queue_head *bit_waitqueue(void *word, int bit)
{
	return queue_of((unsigned long)word << 6 | bit);
}
EXPORT_SYMBOL(bit_waitqueue);

int wake_bit_function(struct wait_queue_entry *wq_entry, unsigned int mode, int sync, void *arg)
{
	struct wait_bit_queue_entry *e = container_of(wq_entry, struct wait_bit_queue_entry, wq_entry);
	struct wait_bit_key *key = arg;

	if (e->key.flags != key->flags || e->key.bit_nr != key->bit_nr || test_bit(key->bit_nr, key->flags))
		return 0;
	return autoremove_wake_function(wq_entry, mode, sync, key);
}
EXPORT_SYMBOL(wake_bit_function);

// __wait_on_bit calls action, which sleeps, until the bit is clear or action returns an error.
int __wait_on_bit(struct wait_queue_head *wq_head, struct wait_bit_queue_entry *wbq_entry, wait_bit_action_f *action, unsigned int mode)
{
	int ret = 0;

	do {
		prepare_to_wait(wq_head, &wbq_entry->wq_entry, mode);
		if (test_bit(wbq_entry->key.bit_nr, wbq_entry->key.flags))
			ret = action(&wbq_entry->key, mode);
	} while (test_bit(wbq_entry->key.bit_nr, wbq_entry->key.flags) && !ret);
	finish_wait(wq_head, &wbq_entry->wq_entry);
	return ret;
}
EXPORT_SYMBOL(__wait_on_bit);

int out_of_line_wait_on_bit(void *word, int bit, wait_bit_action_f *action, unsigned int mode)
{
	DEFINE_WAIT_BIT(wq_entry, word, bit);

	return __wait_on_bit(bit_waitqueue(word, bit), &wq_entry, action, mode);
}
EXPORT_SYMBOL(out_of_line_wait_on_bit);

int out_of_line_wait_on_bit_timeout(void *word, int bit, wait_bit_action_f *action, unsigned int mode, unsigned long timeout)
{
	DEFINE_WAIT_BIT(wq_entry, word, bit);

	wq_entry.key.timeout = jiffies + timeout;
	return __wait_on_bit(bit_waitqueue(word, bit), &wq_entry, action, mode);
}
EXPORT_SYMBOL_GPL(out_of_line_wait_on_bit_timeout);

// __wait_on_bit_lock sets the bit when it is clear.
int __wait_on_bit_lock(struct wait_queue_head *wq_head, struct wait_bit_queue_entry *wbq_entry, wait_bit_action_f *action, unsigned int mode)
{
	int ret = 0;

	for (;;) {
		prepare_to_wait_exclusive(wq_head, &wbq_entry->wq_entry, mode);
		if (test_bit(wbq_entry->key.bit_nr, wbq_entry->key.flags)) {
			ret = action(&wbq_entry->key, mode);
			if (ret)
				finish_wait(wq_head, &wbq_entry->wq_entry);
		}
		if (!test_and_set_bit(wbq_entry->key.bit_nr, wbq_entry->key.flags)) {
			if (!ret)
				finish_wait(wq_head, &wbq_entry->wq_entry);
			return 0;
		}
		if (ret)
			return ret;
	}
}
EXPORT_SYMBOL(__wait_on_bit_lock);

int out_of_line_wait_on_bit_lock(void *word, int bit, wait_bit_action_f *action, unsigned int mode)
{
	DEFINE_WAIT_BIT(wq_entry, word, bit);

	return __wait_on_bit_lock(bit_waitqueue(word, bit), &wq_entry, action, mode);
}
EXPORT_SYMBOL(out_of_line_wait_on_bit_lock);

void __wake_up_bit(struct wait_queue_head *wq_head, void *word, int bit)
{
	struct wait_bit_key key = { .flags = word, .bit_nr = bit };

	if (!list_empty(&wq_head->head))
		__wake_up(wq_head, TASK_NORMAL, 1, &key);
}
EXPORT_SYMBOL(__wake_up_bit);

void wake_up_bit(void *word, int bit)
{
	__wake_up_bit(bit_waitqueue(word, bit), word, bit);
}
EXPORT_SYMBOL(wake_up_bit);

struct wait_queue_head *__var_waitqueue(void *p)
{
	return queue_of((unsigned long)p);
}
EXPORT_SYMBOL(__var_waitqueue);

static int var_wake_function(struct wait_queue_entry *wq_entry, unsigned int mode, int sync, void *arg)
{
	struct wait_bit_queue_entry *e = container_of(wq_entry, struct wait_bit_queue_entry, wq_entry);
	struct wait_bit_key *key = arg;

	if (e->key.flags != key->flags || e->key.bit_nr != key->bit_nr)
		return 0;
	return autoremove_wake_function(wq_entry, mode, sync, key);
}

void init_wait_var_entry(struct wait_bit_queue_entry *wbq_entry, void *var, int flags)
{
	*wbq_entry = (struct wait_bit_queue_entry){
		.key = { .flags = var, .bit_nr = -1 },
		.wq_entry = { .flags = flags, .private = current, .func = var_wake_function },
	};
	INIT_LIST_HEAD(&wbq_entry->wq_entry.entry);
}
EXPORT_SYMBOL(init_wait_var_entry);

void wake_up_var(void *var)
{
	__wake_up_bit(__var_waitqueue(var), var, -1);
}
EXPORT_SYMBOL(wake_up_var);

noinline int bit_wait(struct wait_bit_key *word, int mode)
{
	schedule();
	return signal_pending_state(mode, current) ? -EINTR : 0;
}
EXPORT_SYMBOL(bit_wait);

noinline int bit_wait_io(struct wait_bit_key *word, int mode)
{
	io_schedule();
	return signal_pending_state(mode, current) ? -EINTR : 0;
}
EXPORT_SYMBOL(bit_wait_io);

noinline int bit_wait_timeout(struct wait_bit_key *word, int mode)
{
	unsigned long now = READ_ONCE(jiffies);

	if (time_after_eq(now, word->timeout))
		return -EAGAIN;
	schedule_timeout(word->timeout - now);
	return signal_pending_state(mode, current) ? -EINTR : 0;
}
EXPORT_SYMBOL_GPL(bit_wait_timeout);
