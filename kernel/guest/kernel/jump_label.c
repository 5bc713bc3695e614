/* jump_label.c: the table of patched branches, and keys that change: the machine, which
 * writes all text, patches their branches. */
#include <linux/kernel.h>
#include <linux/atomic.h>
#include <linux/cpumask.h>
#include <linux/jump_label.h>
#include <linux/kprobes.h>
#include <linux/mutex.h>
#include <linux/workqueue.h>
#include <asm/host.h>

extern struct jump_entry __start___jump_table[], __stop___jump_table[];
static int nr_jump_labels;

static unsigned long jump_entry_code(const struct jump_entry *e)
{
	return (unsigned long)&e->code + e->code;
}

static struct static_key *jump_entry_key(const struct jump_entry *e)
{
	return (struct static_key *)(((unsigned long)&e->key + e->key) & ~3UL);
}

/* static_key_count is 1 while the key is being enabled. */
int static_key_count(struct static_key *key)
{
	int n = READ_ONCE(key->enabled.counter);

	return n >= 0 ? n : 1;
}
EXPORT_SYMBOL_GPL(static_key_count);

static bool jump_entry_is_branch(const struct jump_entry *e)
{
	return ((unsigned long)&e->key + e->key) & 1;
}

/* A branch is a jump if its key's value and its likely side differ, as in 6.1. */
static bool jump_label_should_jump(const struct jump_entry *e)
{
	return static_key_enabled(jump_entry_key(e)) ^ jump_entry_is_branch(e);
}

/* Returns the entry whose instruction overlaps [start, end), or NULL. */
struct jump_entry *jump_label_find(unsigned long start, unsigned long end)
{
	struct jump_entry *e;

	for (e = __start___jump_table; e < __stop___jump_table; e++)
		if (jump_entry_code(e) < end && jump_entry_code(e) + 5 > start)
			return e;
	return NULL;
}

int jump_label_text_reserved(void *start, void *end)
{
	return jump_label_find((unsigned long)start, (unsigned long)end + 1) != NULL;
}

/* Checks that the text agrees with the keys. */
void __init jump_label_init(void)
{
	struct jump_entry *e;

	for (e = __start___jump_table; e < __stop___jump_table; e++, nr_jump_labels++) {
		u8 op = *(u8 *)jump_entry_code(e);

		BUG_ON(op != (jump_label_should_jump(e) ? 0xe9 : 0x0f));
	}
}

static DEFINE_MUTEX(jump_label_mutex);

static noinline void jump_label_update(struct static_key *key, bool on)
{
	WARN_ON(probe_request(KEY_UPDATE, key, on));
}

/* Enables a key whose count is 0; the count is -1 meanwhile. The caller has the mutex. */
static void static_key_turn_on(struct static_key *key)
{
	atomic_set(&key->enabled, -1);
	jump_label_update(key, true);
	atomic_set(&key->enabled, 1);
}

/* Increments a count that is not 0. */
static bool static_key_inc_used(struct static_key *key)
{
	int n = atomic_read(&key->enabled);

	while (n > 0 && n < 0x7fffffff)
		if (atomic_try_cmpxchg(&key->enabled, &n, n + 1))
			return true;
	return false;
}

/* Counts one more user of the key and enables it for the first. Returns false if there
 * are too many. */
static noinline bool static_key_slow_inc_cpuslocked(struct static_key *key)
{
	bool ok = true;

	if (static_key_inc_used(key))
		return true;
	mutex_lock(&jump_label_mutex);
	if (!atomic_read(&key->enabled))
		static_key_turn_on(key);
	else
		ok = !WARN_ON_ONCE(!static_key_inc_used(key));
	mutex_unlock(&jump_label_mutex);
	return ok;
}

bool static_key_slow_inc(struct static_key *key)
{
	return static_key_slow_inc_cpuslocked(key);
}
EXPORT_SYMBOL_GPL(static_key_slow_inc);

noinline void static_key_enable_cpuslocked(struct static_key *key)
{
	if (atomic_read(&key->enabled) > 0) {
		WARN_ON_ONCE(atomic_read(&key->enabled) != 1);
		return;
	}
	mutex_lock(&jump_label_mutex);
	if (!atomic_read(&key->enabled))
		static_key_turn_on(key);
	mutex_unlock(&jump_label_mutex);
}
EXPORT_SYMBOL_GPL(static_key_enable_cpuslocked);

void static_key_enable(struct static_key *key)
{
	static_key_enable_cpuslocked(key);
}
EXPORT_SYMBOL_GPL(static_key_enable);

noinline void static_key_disable_cpuslocked(struct static_key *key)
{
	if (atomic_read(&key->enabled) != 1) {
		WARN_ON_ONCE(atomic_read(&key->enabled) != 0);
		return;
	}
	mutex_lock(&jump_label_mutex);
	if (atomic_cmpxchg(&key->enabled, 1, 0) == 1)
		jump_label_update(key, false);
	mutex_unlock(&jump_label_mutex);
}
EXPORT_SYMBOL_GPL(static_key_disable_cpuslocked);

void static_key_disable(struct static_key *key)
{
	static_key_disable_cpuslocked(key);
}
EXPORT_SYMBOL_GPL(static_key_disable);

/* Decrements a count above 1. Warns, and changes nothing, if it is 0. */
static bool static_key_dec_used(struct static_key *key)
{
	int n = atomic_read(&key->enabled);

	do {
		if (WARN(n <= 0, "jump label: negative count!\n"))
			return true;
		if (n == 1)
			return false;
	} while (!atomic_try_cmpxchg(&key->enabled, &n, n - 1));
	return true;
}

static void __static_key_slow_dec(struct static_key *key)
{
	if (static_key_dec_used(key))
		return;
	mutex_lock(&jump_label_mutex);
	if (atomic_dec_return(&key->enabled) == 0)
		jump_label_update(key, false);
	mutex_unlock(&jump_label_mutex);
}

void static_key_slow_dec(struct static_key *key)
{
	__static_key_slow_dec(key);
}
EXPORT_SYMBOL_GPL(static_key_slow_dec);

/* jump_label_ratelimit.h: keys that are disabled some time after their last user. */
struct static_key_deferred {
	struct static_key key;
	unsigned long timeout;
	struct delayed_work work;
};
static_assert(offsetof(struct static_key_deferred, work) == 24, "struct static_key_deferred");

void jump_label_update_timeout(struct work_struct *work)
{
	__static_key_slow_dec(&container_of(work, struct static_key_deferred, work.work)->key);
}
EXPORT_SYMBOL_GPL(jump_label_update_timeout);

void __static_key_slow_dec_deferred(struct static_key *key, struct delayed_work *work, unsigned long timeout)
{
	if (!static_key_dec_used(key))
		schedule_delayed_work(work, timeout);
}
EXPORT_SYMBOL_GPL(__static_key_slow_dec_deferred);

void __static_key_deferred_flush(void *key, struct delayed_work *work)
{
	flush_delayed_work(work);
}
EXPORT_SYMBOL_GPL(__static_key_deferred_flush);

void jump_label_rate_limit(struct static_key_deferred *key, unsigned long rl)
{
	key->timeout = rl;
	INIT_DELAYED_WORK(&key->work, jump_label_update_timeout);
}
EXPORT_SYMBOL_GPL(jump_label_rate_limit);
