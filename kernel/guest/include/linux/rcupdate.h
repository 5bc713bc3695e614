/* rcupdate.h: RCU. Readers disable preemption. */
#ifndef _LINUX_RCUPDATE_H
#define _LINUX_RCUPDATE_H
#include <linux/preempt.h>
#include <linux/atomic.h>
void __rcu_read_lock(void);
void __rcu_read_unlock(void);
#define rcu_read_lock() __rcu_read_lock()
#define rcu_read_unlock() __rcu_read_unlock()
#define rcu_dereference(p) READ_ONCE(p)
#define rcu_dereference_protected(p, c) (p)
#define rcu_dereference_check(p, c) READ_ONCE(p)
#define rcu_dereference_raw(p) READ_ONCE(p)
#define rcu_access_pointer(p) READ_ONCE(p)
#define rcu_assign_pointer(p, v) smp_store_release(&(p), v)
#define RCU_INIT_POINTER(p, v) WRITE_ONCE(p, v)
void call_rcu(struct callback_head *head, rcu_callback_t func);
void synchronize_rcu(void);
void synchronize_rcu_expedited(void);
unsigned long get_state_synchronize_rcu(void);
bool poll_state_synchronize_rcu(unsigned long cookie);
void cond_synchronize_rcu(unsigned long cookie);
bool rcu_is_watching(void);
void synchronize_rcu_tasks(void);
void rcu_barrier(void);
void rcu_note_context_switch(bool preempt);
void rcu_sched_clock_irq(int user);
void rcu_init(void);
void kfree(const void *p);
void kvfree_call_rcu(struct callback_head *head, rcu_callback_t func);
/* kfree_rcu(p, head) frees p after a grace period; head is its rcu_head. */
#define kvfree_rcu(p, head) do { __typeof__(p) ___p = (p); \
	if (___p) kvfree_call_rcu(&___p->head, (rcu_callback_t)offsetof(__typeof__(*(p)), head)); } while (0)
#define kfree_rcu kvfree_rcu
#define kfree_rcu_mightsleep(p) kvfree_call_rcu(NULL, (rcu_callback_t)(void *)(p))
#ifdef MODULE
#define ULONG_CMP_GE(a, b) (~0UL / 2 >= (a) - (b))
#define ULONG_CMP_LT(a, b) (~0UL / 2 < (a) - (b))
#define rcu_read_lock_sched() preempt_disable()
#define rcu_read_unlock_sched() preempt_enable()
#define rcu_read_lock_sched_notrace() preempt_disable_notrace()
#define rcu_read_unlock_sched_notrace() preempt_enable_notrace()
#define rcu_read_lock_held() 1
#define rcu_read_lock_bh_held() 1
#define rcu_read_lock_sched_held() (!preemptible())
#define rcu_read_lock_any_held() (!preemptible())
#define RCU_LOCKDEP_WARN(c, s) do { } while (0)
#define rcu_dereference_bh(p) rcu_dereference(p)
#define rcu_dereference_sched(p) rcu_dereference(p)
#define rcu_dereference_bh_check(p, c) rcu_dereference(p)
#define rcu_dereference_sched_check(p, c) rcu_dereference(p)
#define rcu_dereference_raw_check(p) rcu_dereference(p)
#define rcu_pointer_handoff(p) (p)
#define unrcu_pointer(p) (p)
#define RCU_INITIALIZER(v) (v)
#define RCU_POINTER_INITIALIZER(p, v) .p = RCU_INITIALIZER(v)
#define rcu_replace_pointer(p, v, c) ({ __typeof__(p) __old = (p); rcu_assign_pointer(p, v); __old; })
#define kvfree_rcu_mightsleep(p) kfree_rcu_mightsleep(p)
#define init_rcu_head(head) do { } while (0)
#define destroy_rcu_head(head) do { } while (0)
#define init_rcu_head_on_stack(head) do { } while (0)
#define destroy_rcu_head_on_stack(head) do { } while (0)
#define smp_mb__after_unlock_lock() do { } while (0)
#endif
#endif
