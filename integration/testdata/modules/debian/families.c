// Families of generic netlink: which can be registered, their numbers and groups, and messages
// that nobody waits for.
#include <linux/module.h>
#include <net/genetlink.h>

static int doit(struct sk_buff *skb, struct genl_info *info)
{
	return 0;
}

static int dumpit(struct sk_buff *skb, struct netlink_callback *cb)
{
	return 0;
}

static const struct nla_policy policy[3] = {
	[1] = {.type = NLA_U32},
	[2] = {.type = NLA_NUL_STRING, .len = 20},
};

static const struct genl_ops ops[] = {{.cmd = 1, .doit = doit, .policy = policy, .maxattr = 2}, {.cmd = 2, .dumpit = dumpit}};
static const struct genl_small_ops small[] = {{.cmd = 3, .doit = doit}};
static const struct genl_ops nothing[] = {{.cmd = 1}};
static const struct genl_ops twice[] = {{.cmd = 1, .doit = doit}, {.cmd = 1, .dumpit = dumpit}};
static const struct genl_small_ops other[] = {{.cmd = 2, .doit = doit}};
static const struct genl_multicast_group groups[] = {{.name = "one"}, {.name = "two"}};

static struct genl_family family = {
	.name = "families",
	.version = 3,
	.hdrsize = 6,
	.maxattr = 2,
	.policy = policy,
	.ops = ops,
	.n_ops = ARRAY_SIZE(ops),
	.small_ops = small,
	.n_small_ops = ARRAY_SIZE(small),
	.mcgrps = groups,
	.n_mcgrps = ARRAY_SIZE(groups),
	.module = THIS_MODULE,
};

static struct genl_family plain = {.name = "plain", .ops = ops, .n_ops = 1, .module = THIS_MODULE};

static void try(const char *what, const char *name, const struct genl_ops *o, int n, const struct genl_small_ops *s)
{
	static struct genl_family f;
	int err;

	f = (struct genl_family){.version = 1, .ops = o, .n_ops = n, .small_ops = s, .n_small_ops = !!s, .module = THIS_MODULE};
	strcpy(f.name, name);
	err = genl_register_family(&f);
	pr_info("families: %s: %d\n", what, err);
	if (err)
		return;
	err = genl_unregister_family(&f);
	pr_info("families: unregistered %d\n", err);
}

static struct sk_buff *message(const char *text)
{
	struct sk_buff *skb = genlmsg_new(100, GFP_KERNEL);
	char *head = genlmsg_put(skb, 0, 9, &family, NLM_F_REQUEST, 1);
	struct nlmsghdr *h = genlmsg_nlhdr(head);
	struct genlmsghdr *g = nlmsg_data(h);

	pr_info("families: %u bytes, type %d, flags %x, sequence %u, id %u\n", h->nlmsg_len, h->nlmsg_type == family.id, h->nlmsg_flags, h->nlmsg_seq, h->nlmsg_pid);
	pr_info("families: command %u, version %u, %u; the head begins at %ld, data %ld, %d long\n", g->cmd, g->version, g->reserved,
		(long)(head - (char *)skb->data), (long)((char *)genlmsg_data(g) - (char *)skb->data), genlmsg_len(g));
	nla_put_u32(skb, 1, 77);
	nla_put_string(skb, 2, text);
	genlmsg_end(skb, head);
	pr_info("families: %u of %u bytes\n", h->nlmsg_len, skb->len);
	return skb;
}

static int __init families_init(void)
{
	struct sk_buff *skb, *little;
	int err, first;
	void *head;

	err = genl_register_family(&family);
	if (err)
		return err;
	first = family.id;
	pr_info("families: registered, number %d, groups %d\n", first >= GENL_START_ALLOC && first <= GENL_MAX_ID, family.mcgrp_offset > 0);
	try("the same name", "families", ops, 1, NULL);
	try("the controller's name", "nlctrl", ops, 1, NULL);
	try("no operations", "none", NULL, 0, NULL);
	try("an operation that does nothing", "empty", nothing, 1, NULL);
	try("two with the same number", "twice", twice, 2, NULL);
	try("two in different lists", "lists", ops, 2, other);
	try("both lists", "both", ops, 2, small);
	try("another case", "Families", ops, 1, NULL);
	err = genl_register_family(&plain);
	pr_info("families: plain %d, after the first %d\n", err, plain.id > first);
	first = plain.id;
	err = genl_unregister_family(&plain);
	pr_info("families: unregister %d\n", err);
	err = genl_unregister_family(&plain);
	pr_info("families: again %d\n", err);
	err = genl_register_family(&plain);
	pr_info("families: registered %d, with another number %d\n", err, plain.id == first + 1);

	little = alloc_skb(8, GFP_KERNEL);
	while (skb_tailroom(little) > 20)
		skb_put(little, 4);
	pr_info("families: no space %d\n", genlmsg_put(little, 0, 0, &family, 0, 1) == NULL);
	kfree_skb(little);
	pr_info("families: unicast %d\n", genlmsg_unicast(&init_net, message("one"), 4711));
	pr_info("families: multicast %d\n", genlmsg_multicast(&family, message("two"), 0, 1, GFP_KERNEL));
	pr_info("families: all namespaces %d, listeners %d\n", genlmsg_multicast_allns(&family, message("three"), 0, 0), genl_has_listeners(&family, &init_net, 0));
	skb = message("four");
	head = genlmsg_put(skb, 0, 10, &family, 0, 2);
	genlmsg_cancel(skb, head);
	pr_info("families: cancelled, %u bytes\n", skb->len);
	nlmsg_free(skb);
	return 0;
}

static void __exit families_exit(void)
{
	pr_info("families: unregister %d %d\n", genl_unregister_family(&plain), genl_unregister_family(&family));
}

module_init(families_init);
module_exit(families_exit);
MODULE_LICENSE("GPL");
