/* spinlock.h: spinlocks and reader-writer locks. Both disable preemption. */
#ifndef _LINUX_SPINLOCK_H
#define _LINUX_SPINLOCK_H
#include <linux/types.h>
#include <linux/preempt.h>
#include <linux/irqflags.h>
#include <linux/atomic.h>
typedef struct { atomic_t val; } arch_spinlock_t;
typedef struct raw_spinlock { arch_spinlock_t raw_lock; } raw_spinlock_t;
typedef struct spinlock { union { struct raw_spinlock rlock; }; } spinlock_t;
typedef struct { atomic_t cnts; raw_spinlock_t wait_lock; } rwlock_t;
struct lock_class_key { };
#define __RAW_SPIN_LOCK_UNLOCKED { { ATOMIC_INIT(0) } }
#define __SPIN_LOCK_UNLOCKED(n) { { .rlock = __RAW_SPIN_LOCK_UNLOCKED } }
#define DEFINE_SPINLOCK(n) spinlock_t n = __SPIN_LOCK_UNLOCKED(n)
#define DEFINE_RAW_SPINLOCK(n) raw_spinlock_t n = __RAW_SPIN_LOCK_UNLOCKED
#define DEFINE_RWLOCK(n) rwlock_t n = { ATOMIC_INIT(0), __RAW_SPIN_LOCK_UNLOCKED }
void _raw_spin_lock(raw_spinlock_t *lock);
void _raw_spin_lock_bh(raw_spinlock_t *lock);
void _raw_spin_lock_irq(raw_spinlock_t *lock);
unsigned long _raw_spin_lock_irqsave(raw_spinlock_t *lock);
int _raw_spin_trylock(raw_spinlock_t *lock);
void _raw_spin_unlock(raw_spinlock_t *lock);
void _raw_spin_unlock_bh(raw_spinlock_t *lock);
void _raw_spin_unlock_irq(raw_spinlock_t *lock);
void _raw_spin_unlock_irqrestore(raw_spinlock_t *lock, unsigned long flags);
void _raw_read_lock(rwlock_t *lock);
void _raw_read_unlock(rwlock_t *lock);
void _raw_write_lock(rwlock_t *lock);
void _raw_write_unlock(rwlock_t *lock);
void _raw_write_lock_irq(rwlock_t *lock);
void _raw_write_unlock_irq(rwlock_t *lock);
void native_queued_spin_lock_slowpath(arch_spinlock_t *lock, u32 val);
#define raw_spin_lock_init(l) do { atomic_set(&(l)->raw_lock.val, 0); } while (0)
#define raw_spin_lock(l) _raw_spin_lock(l)
#define raw_spin_unlock(l) _raw_spin_unlock(l)
#define raw_spin_trylock(l) _raw_spin_trylock(l)
#define raw_spin_lock_irq(l) _raw_spin_lock_irq(l)
#define raw_spin_unlock_irq(l) _raw_spin_unlock_irq(l)
#define raw_spin_lock_irqsave(l, f) ((f) = _raw_spin_lock_irqsave(l))
#define raw_spin_unlock_irqrestore(l, f) _raw_spin_unlock_irqrestore(l, f)
#define raw_spin_is_locked(l) (atomic_read(&(l)->raw_lock.val) != 0)
#define spin_lock_init(l) raw_spin_lock_init(&(l)->rlock)
#define spin_lock(l) raw_spin_lock(&(l)->rlock)
#define spin_unlock(l) raw_spin_unlock(&(l)->rlock)
#define spin_trylock(l) raw_spin_trylock(&(l)->rlock)
#define spin_lock_bh(l) _raw_spin_lock_bh(&(l)->rlock)
#define spin_unlock_bh(l) _raw_spin_unlock_bh(&(l)->rlock)
#define spin_lock_irq(l) raw_spin_lock_irq(&(l)->rlock)
#define spin_unlock_irq(l) raw_spin_unlock_irq(&(l)->rlock)
#define spin_lock_irqsave(l, f) raw_spin_lock_irqsave(&(l)->rlock, f)
#define spin_unlock_irqrestore(l, f) raw_spin_unlock_irqrestore(&(l)->rlock, f)
#define spin_is_locked(l) raw_spin_is_locked(&(l)->rlock)
#define rwlock_init(l) do { atomic_set(&(l)->cnts, 0); raw_spin_lock_init(&(l)->wait_lock); } while (0)
#define read_lock(l) _raw_read_lock(l)
#define read_unlock(l) _raw_read_unlock(l)
#define write_lock(l) _raw_write_lock(l)
#define write_unlock(l) _raw_write_unlock(l)
#define write_lock_irq(l) _raw_write_lock_irq(l)
#define write_unlock_irq(l) _raw_write_unlock_irq(l)
#define lockdep_assert_held(l) do { } while (0)

/* lockref: a spinlock and a count in one word. */
struct lockref { union { u64 lock_count; struct { spinlock_t lock; int count; }; }; };
/* Sequence counters: readers retry if there was a writer. */
typedef struct { unsigned int sequence; } seqcount_t, seqcount_spinlock_t;
typedef struct { seqcount_t seqcount; spinlock_t lock; } seqlock_t;
#define DEFINE_SEQLOCK(n) seqlock_t n = { { 0 }, __SPIN_LOCK_UNLOCKED(n) }
#define read_seqcount_begin(s) ({ unsigned int __s; while ((__s = READ_ONCE((s)->sequence)) & 1) cpu_relax(); barrier(); __s; })
#define read_seqcount_retry(s, start) ({ barrier(); READ_ONCE((s)->sequence) != (start); })
#define write_seqcount_begin(s) do { (s)->sequence++; barrier(); } while (0)
#define write_seqcount_end(s) do { barrier(); (s)->sequence++; } while (0)
#define read_seqbegin(sl) read_seqcount_begin(&(sl)->seqcount)
#define read_seqretry(sl, s) read_seqcount_retry(&(sl)->seqcount, s)
#define write_seqlock(sl) do { spin_lock(&(sl)->lock); write_seqcount_begin(&(sl)->seqcount); } while (0)
#define write_sequnlock(sl) do { write_seqcount_end(&(sl)->seqcount); spin_unlock(&(sl)->lock); } while (0)
#define write_seqlock_irqsave(sl, f) do { spin_lock_irqsave(&(sl)->lock, f); write_seqcount_begin(&(sl)->seqcount); } while (0)
#define write_sequnlock_irqrestore(sl, f) do { write_seqcount_end(&(sl)->seqcount); spin_unlock_irqrestore(&(sl)->lock, f); } while (0)
int _raw_spin_trylock_bh(raw_spinlock_t *lock);
unsigned long _raw_read_lock_irqsave(rwlock_t *lock);
unsigned long _raw_write_lock_irqsave(rwlock_t *lock);
void _raw_read_unlock_irqrestore(rwlock_t *lock, unsigned long flags);
void _raw_write_unlock_irqrestore(rwlock_t *lock, unsigned long flags);
void _raw_read_lock_bh(rwlock_t *lock);
void _raw_read_unlock_bh(rwlock_t *lock);
void _raw_write_lock_bh(rwlock_t *lock);
void _raw_write_unlock_bh(rwlock_t *lock);
void _raw_read_lock_irq(rwlock_t *lock);
void _raw_read_unlock_irq(rwlock_t *lock);
#define spin_trylock_bh(l) _raw_spin_trylock_bh(&(l)->rlock)
#define read_lock_irqsave(l, f) ((f) = _raw_read_lock_irqsave(l))
#define read_unlock_irqrestore(l, f) _raw_read_unlock_irqrestore(l, f)
#define write_lock_irqsave(l, f) ((f) = _raw_write_lock_irqsave(l))
#define write_unlock_irqrestore(l, f) _raw_write_unlock_irqrestore(l, f)
#define read_lock_bh(l) _raw_read_lock_bh(l)
#define read_unlock_bh(l) _raw_read_unlock_bh(l)
#define write_lock_bh(l) _raw_write_lock_bh(l)
#define write_unlock_bh(l) _raw_write_unlock_bh(l)
#define read_lock_irq(l) _raw_read_lock_irq(l)
#define read_unlock_irq(l) _raw_read_unlock_irq(l)
#ifdef MODULE
#define raw_spin_lock_bh(l) _raw_spin_lock_bh(l)
#define raw_spin_unlock_bh(l) _raw_spin_unlock_bh(l)
#define raw_spin_trylock_bh(l) _raw_spin_trylock_bh(l)
#define raw_spin_lock_nested(l, c) raw_spin_lock(l)
#define raw_spin_lock_irqsave_nested(l, f, c) raw_spin_lock_irqsave(l, f)
#define raw_spin_trylock_irq(l) ({ local_irq_disable(); raw_spin_trylock(l) ? 1 : ({ local_irq_enable(); 0; }); })
#define raw_spin_trylock_irqsave(l, f) ({ local_irq_save(f); raw_spin_trylock(l) ? 1 : ({ local_irq_restore(f); 0; }); })
#define spin_lock_nested(l, c) spin_lock(l)
#define spin_lock_nest_lock(l, n) spin_lock(l)
#define spin_lock_irqsave_nested(l, f, c) spin_lock_irqsave(l, f)
#define spin_trylock_irq(l) raw_spin_trylock_irq(&(l)->rlock)
#define spin_trylock_irqsave(l, f) raw_spin_trylock_irqsave(&(l)->rlock, f)
#define assert_spin_locked(l) BUG_ON(!spin_is_locked(l))
#endif
#endif
