// Hooks of netfilter: which are registered is known, but the packets of the loopback device do
// not go through them.
#include <linux/export.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/netfilter.h>
#include <linux/slab.h>

struct nf_hook_entry {
	struct list_head link;
	const struct nf_hook_ops *ops;
};

static DEFINE_MUTEX(nf_hook_mutex);
static LIST_HEAD(nf_hooks);

static bool has_hooks(const struct nf_hook_ops *reg)
{
	switch (reg->pf) {
	case NFPROTO_INET:
	case NFPROTO_IPV4:
	case NFPROTO_IPV6:
	case NFPROTO_BRIDGE:
		return reg->hooknum < NF_INET_NUMHOOKS;
	case NFPROTO_ARP:
		return reg->hooknum < 3;
	}
	return false;
}

int nf_register_net_hook(struct net *net, const struct nf_hook_ops *reg)
{
	struct nf_hook_entry *e;

	if (reg->pf == NFPROTO_NETDEV)
		return reg->dev ? -EOPNOTSUPP : -EINVAL;
	if (!has_hooks(reg))
		return -EINVAL;
	e = kzalloc(sizeof(*e), GFP_KERNEL);
	if (!e)
		return -ENOMEM;
	e->ops = reg;
	mutex_lock(&nf_hook_mutex);
	list_add_tail(&e->link, &nf_hooks);
	mutex_unlock(&nf_hook_mutex);
	return 0;
}
EXPORT_SYMBOL(nf_register_net_hook);

void nf_unregister_net_hook(struct net *net, const struct nf_hook_ops *reg)
{
	struct nf_hook_entry *e, *found = NULL;

	mutex_lock(&nf_hook_mutex);
	list_for_each_entry(e, &nf_hooks, link)
		if (e->ops == reg)
			found = e;
	if (found)
		list_del(&found->link);
	mutex_unlock(&nf_hook_mutex);
	WARN(!found, "hook not found, pf %d num %d", reg->pf, reg->hooknum);
	kfree(found);
}
EXPORT_SYMBOL(nf_unregister_net_hook);

void nf_unregister_net_hooks(struct net *net, const struct nf_hook_ops *reg, unsigned int n)
{
	while (n--)
		nf_unregister_net_hook(net, &reg[n]);
}
EXPORT_SYMBOL(nf_unregister_net_hooks);

int nf_register_net_hooks(struct net *net, const struct nf_hook_ops *reg, unsigned int n)
{
	unsigned int i;
	int err;

	for (i = 0; i < n; i++) {
		err = nf_register_net_hook(net, &reg[i]);
		if (err) {
			nf_unregister_net_hooks(net, reg, i);
			return err;
		}
	}
	return 0;
}
EXPORT_SYMBOL(nf_register_net_hooks);
