// Notifiers of addresses of network devices, which do not change here.
#include <linux/export.h>
#include <linux/notifier.h>

static BLOCKING_NOTIFIER_HEAD(inetaddr_chain);

int register_inetaddr_notifier(struct notifier_block *nb)
{
	return blocking_notifier_chain_register(&inetaddr_chain, nb);
}
EXPORT_SYMBOL(register_inetaddr_notifier);

int unregister_inetaddr_notifier(struct notifier_block *nb)
{
	return blocking_notifier_chain_unregister(&inetaddr_chain, nb);
}
EXPORT_SYMBOL(unregister_inetaddr_notifier);
