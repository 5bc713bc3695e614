// Notifiers of the keyboard and of virtual consoles. There is no keyboard, and nobody writes
// to the console.
#include <linux/export.h>
#include <linux/notifier.h>
#include <linux/spinlock.h>

static ATOMIC_NOTIFIER_HEAD(keyboard_notifier_list);
static ATOMIC_NOTIFIER_HEAD(vt_notifier_list);

int register_keyboard_notifier(struct notifier_block *nb)
{
	return atomic_notifier_chain_register(&keyboard_notifier_list, nb);
}
EXPORT_SYMBOL(register_keyboard_notifier);

int unregister_keyboard_notifier(struct notifier_block *nb)
{
	return atomic_notifier_chain_unregister(&keyboard_notifier_list, nb);
}
EXPORT_SYMBOL(unregister_keyboard_notifier);

int register_vt_notifier(struct notifier_block *nb)
{
	return atomic_notifier_chain_register(&vt_notifier_list, nb);
}
EXPORT_SYMBOL(register_vt_notifier);

int unregister_vt_notifier(struct notifier_block *nb)
{
	return atomic_notifier_chain_unregister(&vt_notifier_list, nb);
}
EXPORT_SYMBOL(unregister_vt_notifier);
