/* srcu.h: sleepable RCU. A domain counts its readers on each CPU, in two sets by turns. */
#ifndef _LINUX_SRCU_H
#define _LINUX_SRCU_H
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/workqueue.h>
struct srcu_data { unsigned long srcu_lock_count[2], srcu_unlock_count[2]; };
/* Modules do not reach into it; it is not larger than 6.1's. */
struct srcu_struct {
	unsigned int srcu_idx;		/* the lowest bit is the set that readers enter */
	struct srcu_data __percpu *sda;
	struct mutex srcu_gp_mutex;	/* held by a grace period */
	spinlock_t lock;		/* protects the callbacks */
	struct callback_head *cbs, **cbs_tail;
	struct work_struct work;	/* invokes them */
};
static_assert(sizeof(struct srcu_struct) <= 392, "struct srcu_struct");
#ifdef MODULE
/* The kernel initializes it before the module's init function runs. */
#define __DEFINE_SRCU(name, is_static) \
	is_static struct srcu_struct name; \
	extern struct srcu_struct *const __srcu_struct_##name; \
	struct srcu_struct *const __srcu_struct_##name __section("___srcu_struct_ptrs") = &name
#define DEFINE_SRCU(name) __DEFINE_SRCU(name, )
#define DEFINE_STATIC_SRCU(name) __DEFINE_SRCU(name, static)
#endif
int init_srcu_struct(struct srcu_struct *ssp);
void cleanup_srcu_struct(struct srcu_struct *ssp);
int __srcu_read_lock(struct srcu_struct *ssp);
void __srcu_read_unlock(struct srcu_struct *ssp, int idx);
#define srcu_read_lock(ssp) __srcu_read_lock(ssp)
#define srcu_read_unlock(ssp, idx) __srcu_read_unlock(ssp, idx)
#define srcu_dereference(p, ssp) READ_ONCE(p)
void synchronize_srcu(struct srcu_struct *ssp);
void synchronize_srcu_expedited(struct srcu_struct *ssp);
void call_srcu(struct srcu_struct *ssp, struct callback_head *head, rcu_callback_t func);
void srcu_barrier(struct srcu_struct *ssp);
#endif
