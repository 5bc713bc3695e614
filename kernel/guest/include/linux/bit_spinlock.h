// bit_spinlock.h: a bit of a word as a lock.
#ifndef _LINUX_BIT_SPINLOCK_H
#define _LINUX_BIT_SPINLOCK_H

#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/preempt.h>
#include <linux/irqflags.h>

static inline int bit_spin_trylock(int bitnum, unsigned long *addr)
{
	preempt_disable();
	if (!test_and_set_bit(bitnum, addr))
		return 1;
	preempt_enable();
	return 0;
}

static inline void bit_spin_lock(int bitnum, unsigned long *addr)
{
	while (!bit_spin_trylock(bitnum, addr))
		while (READ_ONCE(*addr) & 1UL << bitnum)
			cpu_relax();
}

static inline void bit_spin_unlock(int bitnum, unsigned long *addr)
{
	clear_bit(bitnum, addr);
	preempt_enable();
}
#define __bit_spin_unlock bit_spin_unlock

static inline int bit_spin_is_locked(int bitnum, unsigned long *addr)
{
	return READ_ONCE(*addr) >> bitnum & 1;
}

#endif
