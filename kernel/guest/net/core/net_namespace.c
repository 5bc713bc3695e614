// The one network namespace.
#include <net/net_namespace.h>
#include <linux/cred.h>
#include <linux/export.h>
#include <linux/init.h>
#include <linux/proc_fs.h>

extern struct user_namespace init_user_ns;

struct net init_net = {
	.passive = REFCOUNT_INIT(1),
	.user_ns = &init_user_ns,
	.ns = { .inum = NET_INIT_INO, .count = REFCOUNT_INIT(1) },
	.dev_base_head = LIST_HEAD_INIT(init_net.dev_base_head),
};
EXPORT_SYMBOL(init_net);

// proc_net_init makes /proc/net, which nobody sees as long as it is empty.
#ifndef KERNEL_2_6
static int __init proc_net_init(void)
{
	init_net.proc_net = proc_mkdir_empty("net");
	return 0;
}
fs_initcall(proc_net_init);
#endif
