/* spinlock.c: spinlocks. Waiting executes pause, which lets another vCPU run. */
#include <linux/spinlock.h>
#include <linux/interrupt.h>
#include <linux/kernel.h>

void native_queued_spin_lock_slowpath(arch_spinlock_t *lock, u32 val)
{
	do {
		while (atomic_read(&lock->val))
			cpu_relax();
	} while (atomic_cmpxchg(&lock->val, 0, 1) != 0);
}

static __always_inline void do_raw_spin_lock(raw_spinlock_t *lock)
{
	if (unlikely(atomic_cmpxchg(&lock->raw_lock.val, 0, 1) != 0))
		native_queued_spin_lock_slowpath(&lock->raw_lock, 1);
}

static __always_inline void do_raw_spin_unlock(raw_spinlock_t *lock)
{
	barrier();
	WRITE_ONCE(lock->raw_lock.val.counter, 0);
}

void _raw_spin_lock(raw_spinlock_t *lock)
{
	preempt_disable();
	do_raw_spin_lock(lock);
}
EXPORT_SYMBOL(_raw_spin_lock);

int _raw_spin_trylock(raw_spinlock_t *lock)
{
	preempt_disable();
	if (atomic_cmpxchg(&lock->raw_lock.val, 0, 1) == 0)
		return 1;
	preempt_enable();
	return 0;
}
EXPORT_SYMBOL(_raw_spin_trylock);

void _raw_spin_lock_irq(raw_spinlock_t *lock)
{
	local_irq_disable();
	preempt_disable();
	do_raw_spin_lock(lock);
}
EXPORT_SYMBOL(_raw_spin_lock_irq);

unsigned long _raw_spin_lock_irqsave(raw_spinlock_t *lock)
{
	unsigned long flags;

	local_irq_save(flags);
	preempt_disable();
	do_raw_spin_lock(lock);
	return flags;
}
EXPORT_SYMBOL(_raw_spin_lock_irqsave);

void _raw_spin_lock_bh(raw_spinlock_t *lock)
{
	__local_bh_disable_ip(_RET_IP_, SOFTIRQ_DISABLE_OFFSET);
	preempt_disable();
	do_raw_spin_lock(lock);
}
EXPORT_SYMBOL(_raw_spin_lock_bh);

void _raw_spin_unlock(raw_spinlock_t *lock)
{
	do_raw_spin_unlock(lock);
	preempt_enable();
}
EXPORT_SYMBOL(_raw_spin_unlock);

void _raw_spin_unlock_irq(raw_spinlock_t *lock)
{
	do_raw_spin_unlock(lock);
	local_irq_enable();
	preempt_enable();
}
EXPORT_SYMBOL(_raw_spin_unlock_irq);

void _raw_spin_unlock_irqrestore(raw_spinlock_t *lock, unsigned long flags)
{
	do_raw_spin_unlock(lock);
	local_irq_restore(flags);
	preempt_enable();
}
EXPORT_SYMBOL(_raw_spin_unlock_irqrestore);

void _raw_spin_unlock_bh(raw_spinlock_t *lock)
{
	do_raw_spin_unlock(lock);
	preempt_enable();
	__local_bh_enable_ip(_RET_IP_, SOFTIRQ_DISABLE_OFFSET);
}
EXPORT_SYMBOL(_raw_spin_unlock_bh);

/* cnts: readers count up from 0, a writer holds -1. */
void _raw_read_lock(rwlock_t *lock)
{
	int c;

	preempt_disable();
	for (;;) {
		c = atomic_read(&lock->cnts);
		if (c >= 0 && atomic_cmpxchg(&lock->cnts, c, c + 1) == c)
			return;
		cpu_relax();
	}
}
EXPORT_SYMBOL(_raw_read_lock);

void _raw_read_unlock(rwlock_t *lock)
{
	atomic_dec(&lock->cnts);
	preempt_enable();
}
EXPORT_SYMBOL(_raw_read_unlock);

static noinline void queued_write_lock_slowpath(rwlock_t *lock)
{
	while (atomic_cmpxchg(&lock->cnts, 0, -1) != 0)
		cpu_relax();
}

void _raw_write_lock(rwlock_t *lock)
{
	preempt_disable();
	queued_write_lock_slowpath(lock);
}
EXPORT_SYMBOL(_raw_write_lock);

void _raw_write_unlock(rwlock_t *lock)
{
	atomic_set(&lock->cnts, 0);
	preempt_enable();
}
EXPORT_SYMBOL(_raw_write_unlock);

void _raw_write_lock_irq(rwlock_t *lock)
{
	local_irq_disable();
	_raw_write_lock(lock);
}
EXPORT_SYMBOL(_raw_write_lock_irq);

void _raw_write_unlock_irq(rwlock_t *lock)
{
	atomic_set(&lock->cnts, 0);
	local_irq_enable();
	preempt_enable();
}
EXPORT_SYMBOL(_raw_write_unlock_irq);

int _raw_spin_trylock_bh(raw_spinlock_t *lock)
{
	__local_bh_disable_ip(_RET_IP_, SOFTIRQ_DISABLE_OFFSET);
	if (_raw_spin_trylock(lock))
		return 1;
	__local_bh_enable_ip(_RET_IP_, SOFTIRQ_DISABLE_OFFSET);
	return 0;
}
EXPORT_SYMBOL(_raw_spin_trylock_bh);

/* The same locks with interrupts off, or with softirqs off. */
#define RWLOCK_VARIANTS(side) \
	unsigned long _raw_##side##_lock_irqsave(rwlock_t *lock) \
	{ \
		unsigned long flags; \
\
		local_irq_save(flags); \
		_raw_##side##_lock(lock); \
		return flags; \
	} \
	EXPORT_SYMBOL(_raw_##side##_lock_irqsave); \
	void _raw_##side##_unlock_irqrestore(rwlock_t *lock, unsigned long flags) \
	{ \
		_raw_##side##_unlock(lock); \
		local_irq_restore(flags); \
	} \
	EXPORT_SYMBOL(_raw_##side##_unlock_irqrestore); \
	void _raw_##side##_lock_bh(rwlock_t *lock) \
	{ \
		__local_bh_disable_ip(_RET_IP_, SOFTIRQ_DISABLE_OFFSET); \
		_raw_##side##_lock(lock); \
	} \
	EXPORT_SYMBOL(_raw_##side##_lock_bh); \
	void _raw_##side##_unlock_bh(rwlock_t *lock) \
	{ \
		_raw_##side##_unlock(lock); \
		__local_bh_enable_ip(_RET_IP_, SOFTIRQ_DISABLE_OFFSET); \
	} \
	EXPORT_SYMBOL(_raw_##side##_unlock_bh)
RWLOCK_VARIANTS(read);
RWLOCK_VARIANTS(write);

void _raw_read_lock_irq(rwlock_t *lock)
{
	local_irq_disable();
	_raw_read_lock(lock);
}
EXPORT_SYMBOL(_raw_read_lock_irq);

void _raw_read_unlock_irq(rwlock_t *lock)
{
	_raw_read_unlock(lock);
	local_irq_enable();
}
EXPORT_SYMBOL(_raw_read_unlock_irq);

int _raw_read_trylock(rwlock_t *lock)
{
	int c;

	preempt_disable();
	c = atomic_read(&lock->cnts);
	if (c >= 0 && atomic_cmpxchg(&lock->cnts, c, c + 1) == c)
		return 1;
	preempt_enable();
	return 0;
}
EXPORT_SYMBOL(_raw_read_trylock);

int _raw_write_trylock(rwlock_t *lock)
{
	preempt_disable();
	if (atomic_cmpxchg(&lock->cnts, 0, -1) == 0)
		return 1;
	preempt_enable();
	return 0;
}
EXPORT_SYMBOL(_raw_write_trylock);
