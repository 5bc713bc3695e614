// What a module registers and an idle machine does not call: notifiers, netfilter hooks and
// dumpers of the log; and programs that the kernel starts, when there is no such program.
#include <linux/keyboard.h>
#include <linux/kmod.h>
#include <linux/kmsg_dump.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/netfilter.h>
#include <linux/netfilter_ipv4.h>
#include <linux/inetdevice.h>
#include <linux/oom.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/suspend.h>
#include <net/net_namespace.h>

static int called;

static int count(struct notifier_block *nb, unsigned long action, void *data)
{
	called++;
	return NOTIFY_DONE;
}

static int about_device(struct notifier_block *nb, unsigned long action, void *data)
{
	struct net_device *dev = netdev_notifier_info_to_dev(data);

	if (!strcmp(dev->name, "lo") && (action == NETDEV_REGISTER || action == NETDEV_UNREGISTER))
		pr_info("enrolls: %s: action %lu, index %d, type %d\n", dev->name, action, dev->ifindex, dev->type);
	return NOTIFY_DONE;
}

static unsigned int hook(void *priv, struct sk_buff *skb, const struct nf_hook_state *state)
{
	return NF_ACCEPT;
}

static void dump(struct kmsg_dumper *dumper, enum kmsg_dump_reason reason)
{
	called++;
}

static struct notifier_block pm = {.notifier_call = count}, oom = {.notifier_call = count}, keys = {.notifier_call = count}, addresses = {.notifier_call = count}, devices = {.notifier_call = about_device};
static struct nf_hook_ops hooks[] = {
	{.hook = hook, .pf = NFPROTO_IPV4, .hooknum = NF_INET_PRE_ROUTING, .priority = NF_IP_PRI_FIRST},
	{.hook = hook, .pf = NFPROTO_IPV4, .hooknum = NF_INET_LOCAL_OUT, .priority = NF_IP_PRI_LAST},
};
static struct kmsg_dumper dumper = {.dump = dump}, empty;

static int table_show(struct seq_file *m, void *v)
{
	seq_printf(m, "in %s\n", (char *)m->private);
	return 0;
}

static int __init enrolls_init(void)
{
	char *argv[] = {"/no/such/program", NULL}, *envp[] = {"HOME=/", NULL};
	struct net_device *dev;
	struct kmsg_dump_iter iter;

	pr_info("enrolls: pm %d, again %d\n", register_pm_notifier(&pm), register_pm_notifier(&pm));
	pr_info("enrolls: oom %d\n", register_oom_notifier(&oom));
	pr_info("enrolls: keyboard %d, again %d\n", register_keyboard_notifier(&keys), register_keyboard_notifier(&keys));
	pr_info("enrolls: addresses %d\n", register_inetaddr_notifier(&addresses));
	pr_info("enrolls: devices %d\n", register_netdevice_notifier(&devices));
	pr_info("enrolls: hooks %d\n", nf_register_net_hooks(&init_net, hooks, ARRAY_SIZE(hooks)));
	pr_info("enrolls: dumper %d, again %d, empty %d\n", kmsg_dump_register(&dumper), kmsg_dump_register(&dumper), kmsg_dump_register(&empty));
	kmsg_dump_rewind(&iter);
	pr_info("enrolls: reasons %s %s %s %s\n", kmsg_dump_reason_str(KMSG_DUMP_PANIC), kmsg_dump_reason_str(KMSG_DUMP_OOPS), kmsg_dump_reason_str(KMSG_DUMP_SHUTDOWN), kmsg_dump_reason_str(99));
	pr_info("enrolls: program %d, and started %d\n", call_usermodehelper(argv[0], argv, envp, UMH_WAIT_PROC), call_usermodehelper(argv[0], argv, envp, UMH_WAIT_EXEC));
	pr_info("enrolls: program without waiting %d\n", call_usermodehelper(argv[0], argv, envp, UMH_NO_WAIT));
	rcu_read_lock();
	for_each_netdev_rcu(&init_net, dev)
		if (!strcmp(dev->name, "lo"))
			pr_info("enrolls: lo has mtu %u, loopback %d\n", dev->mtu, !!(dev->flags & IFF_LOOPBACK));
	rcu_read_unlock();
	pr_info("enrolls: table %d\n", !!proc_create_single_data("enrolls", 0444, init_net.proc_net, table_show, "proc/net"));
	return 0;
}

static void __exit enrolls_exit(void)
{
	remove_proc_entry("enrolls", init_net.proc_net);
	pr_info("enrolls: dumper %d, again %d\n", kmsg_dump_unregister(&dumper), kmsg_dump_unregister(&dumper));
	nf_unregister_net_hooks(&init_net, hooks, ARRAY_SIZE(hooks));
	pr_info("enrolls: devices %d\n", unregister_netdevice_notifier(&devices));
	pr_info("enrolls: addresses %d\n", unregister_inetaddr_notifier(&addresses));
	pr_info("enrolls: keyboard %d, again %d\n", unregister_keyboard_notifier(&keys), unregister_keyboard_notifier(&keys));
	pr_info("enrolls: oom %d\n", unregister_oom_notifier(&oom));
	pr_info("enrolls: pm %d, again %d\n", unregister_pm_notifier(&pm), unregister_pm_notifier(&pm));
	pr_info("enrolls: called %d\n", called);
}

module_init(enrolls_init);
module_exit(enrolls_exit);
MODULE_LICENSE("GPL");
