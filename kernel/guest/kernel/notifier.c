/* notifier.c: notifier chains, sorted by priority, highest first. */
#include <linux/kernel.h>
#include <linux/notifier.h>
#include <linux/sched.h>

static noinline int notifier_chain_register(struct notifier_block **nl, struct notifier_block *n)
{
	for (; *nl; nl = &(*nl)->next) {
		if (*nl == n)
			return -EEXIST;
		if (n->priority > (*nl)->priority)
			break;
	}
	n->next = *nl;
	rcu_assign_pointer(*nl, n);
	return 0;
}

static noinline int notifier_chain_unregister(struct notifier_block **nl, struct notifier_block *n)
{
	for (; *nl; nl = &(*nl)->next) {
		if (*nl == n) {
			rcu_assign_pointer(*nl, n->next);
			return 0;
		}
	}
	return -ENOENT;
}

static noinline int notifier_call_chain(struct notifier_block **nl, unsigned long val, void *v, int nr_to_call, int *nr_calls)
{
	struct notifier_block *nb = *nl, *next;
	int ret = NOTIFY_DONE;

	for (; nb && nr_to_call--; nb = next) {
		next = nb->next;
		ret = nb->notifier_call(nb, val, v);
		if (nr_calls)
			(*nr_calls)++;
		if (ret & NOTIFY_STOP_MASK)
			break;
	}
	return ret;
}
NOKPROBE_SYMBOL(notifier_call_chain);

int raw_notifier_chain_register(struct raw_notifier_head *nh, struct notifier_block *n)
{
	return notifier_chain_register(&nh->head, n);
}
EXPORT_SYMBOL(raw_notifier_chain_register);

int raw_notifier_chain_unregister(struct raw_notifier_head *nh, struct notifier_block *n)
{
	return notifier_chain_unregister(&nh->head, n);
}
EXPORT_SYMBOL(raw_notifier_chain_unregister);

int raw_notifier_call_chain(struct raw_notifier_head *nh, unsigned long val, void *v)
{
	return notifier_call_chain(&nh->head, val, v, -1, NULL);
}
EXPORT_SYMBOL(raw_notifier_call_chain);

noinline int blocking_notifier_chain_register(struct blocking_notifier_head *nh, struct notifier_block *n)
{
	int ret;

	down_write(&nh->rwsem);
	ret = notifier_chain_register(&nh->head, n);
	up_write(&nh->rwsem);
	return ret;
}
EXPORT_SYMBOL(blocking_notifier_chain_register);

noinline int blocking_notifier_chain_unregister(struct blocking_notifier_head *nh, struct notifier_block *n)
{
	int ret;

	down_write(&nh->rwsem);
	ret = notifier_chain_unregister(&nh->head, n);
	up_write(&nh->rwsem);
	return ret;
}
EXPORT_SYMBOL(blocking_notifier_chain_unregister);

int blocking_notifier_call_chain(struct blocking_notifier_head *nh, unsigned long val, void *v)
{
	int ret = NOTIFY_DONE;

	if (rcu_access_pointer(nh->head)) {
		down_read(&nh->rwsem);
		ret = notifier_call_chain(&nh->head, val, v, -1, NULL);
		up_read(&nh->rwsem);
	}
	return ret;
}
EXPORT_SYMBOL(blocking_notifier_call_chain);

/* Calls the chain with val_up. If one of them refuses, those before it are called with
 * val_down, and the result is from the one that refused. */
int blocking_notifier_call_chain_robust(struct blocking_notifier_head *nh, unsigned long val_up, unsigned long val_down, void *v)
{
	int ret = NOTIFY_DONE, nr = 0;

	if (rcu_access_pointer(nh->head)) {
		down_read(&nh->rwsem);
		ret = notifier_call_chain(&nh->head, val_up, v, -1, &nr);
		if (ret & NOTIFY_STOP_MASK)
			notifier_call_chain(&nh->head, val_down, v, nr - 1, NULL);
		up_read(&nh->rwsem);
	}
	return ret;
}
EXPORT_SYMBOL_GPL(blocking_notifier_call_chain_robust);

/* Those that want to know that the kernel goes down. */
static BLOCKING_NOTIFIER_HEAD(reboot_notifier_list);

int register_reboot_notifier(struct notifier_block *nb)
{
	return blocking_notifier_chain_register(&reboot_notifier_list, nb);
}
EXPORT_SYMBOL(register_reboot_notifier);

int unregister_reboot_notifier(struct notifier_block *nb)
{
	return blocking_notifier_chain_unregister(&reboot_notifier_list, nb);
}
EXPORT_SYMBOL(unregister_reboot_notifier);

/* The die notifier chain. */
static RAW_NOTIFIER_HEAD(die_chain);

notrace int notify_die(enum die_val val, const char *str, struct pt_regs *regs, long err, int trap, int sig)
{
	struct die_args args = { .regs = regs, .str = str, .err = err, .trapnr = trap, .signr = sig };

	return raw_notifier_call_chain(&die_chain, val, &args);
}
NOKPROBE_SYMBOL(notify_die);

int register_die_notifier(struct notifier_block *nb)
{
	return raw_notifier_chain_register(&die_chain, nb);
}
EXPORT_SYMBOL(register_die_notifier);

int unregister_die_notifier(struct notifier_block *nb)
{
	return raw_notifier_chain_unregister(&die_chain, nb);
}
EXPORT_SYMBOL(unregister_die_notifier);

int atomic_notifier_chain_register(struct atomic_notifier_head *nh, struct notifier_block *n)
{
	unsigned long flags;
	int err;

	spin_lock_irqsave(&nh->lock, flags);
	err = notifier_chain_register(&nh->head, n);
	spin_unlock_irqrestore(&nh->lock, flags);
	return err;
}
EXPORT_SYMBOL_GPL(atomic_notifier_chain_register);

int atomic_notifier_chain_unregister(struct atomic_notifier_head *nh, struct notifier_block *n)
{
	unsigned long flags;
	int err;

	spin_lock_irqsave(&nh->lock, flags);
	err = notifier_chain_unregister(&nh->head, n);
	spin_unlock_irqrestore(&nh->lock, flags);
	synchronize_rcu();
	return err;
}
EXPORT_SYMBOL_GPL(atomic_notifier_chain_unregister);

int atomic_notifier_call_chain(struct atomic_notifier_head *nh, unsigned long val, void *v)
{
	int ret;

	rcu_read_lock();
	ret = notifier_call_chain(&nh->head, val, v, -1, NULL);
	rcu_read_unlock();
	return ret;
}
EXPORT_SYMBOL_GPL(atomic_notifier_call_chain);
NOKPROBE_SYMBOL(atomic_notifier_call_chain);
