// What modules ask about the terminal of a task.
#include <linux/tty.h>
#include <linux/slab.h>
#include <linux/cdev.h>
#include <linux/export.h>

// get_current_tty returns a reference to the controlling terminal of the current process,
// or NULL if it has none.
struct tty_struct *get_current_tty(void)
{
	struct tty_struct *tty;
	unsigned long flags;

	spin_lock_irqsave(&current->sighand->siglock, flags);
	tty = current->signal->tty;
	if (tty)
		refcount_inc(&tty->kref.refcount);
	spin_unlock_irqrestore(&current->sighand->siglock, flags);
	return tty;
}
EXPORT_SYMBOL_GPL(get_current_tty);

// tty_devnum returns a terminal's device number. Without a terminal it oopses, as on Linux.
dev_t tty_devnum(struct tty_struct *tty)
{
	return MKDEV(tty->driver->major, tty->driver->minor_start) + tty->index;
}
EXPORT_SYMBOL(tty_devnum);

void tty_kref_put(struct tty_struct *tty)
{
	if (tty && refcount_dec_and_test(&tty->kref.refcount))
		kfree(tty);
}
EXPORT_SYMBOL(tty_kref_put);
