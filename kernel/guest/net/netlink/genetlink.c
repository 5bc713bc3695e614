// Families of generic netlink: their numbers and groups. A program's messages go to the
// host's kernel, which has no such family, so that no operation of one is called.
#include <linux/bitmap.h>
#include <linux/export.h>
#include <linux/idr.h>
#include <linux/kernel.h>
#include <linux/mutex.h>
#include <linux/string.h>
#include <net/genetlink.h>

// The controller has the number and the group of its own name.
static struct genl_family genl_ctrl = {.name = "nlctrl", .version = 2, .id = GENL_ID_CTRL};

#define MAX_GROUPS 256
#define CTRL_GROUP 16

static DEFINE_MUTEX(genl_mutex);
static DEFINE_IDR(genl_fam_idr);
static DECLARE_BITMAP(mc_groups, MAX_GROUPS) = {[0] = 1UL | 1UL << CTRL_GROUP};

void genl_lock(void)
{
	mutex_lock(&genl_mutex);
}
EXPORT_SYMBOL(genl_lock);

void genl_unlock(void)
{
	mutex_unlock(&genl_mutex);
}
EXPORT_SYMBOL(genl_unlock);

static bool genl_family_find_byname(const char *name)
{
	struct genl_family *f;
	int id;

	if (!strcmp(name, genl_ctrl.name))
		return true;
	idr_for_each_entry(&genl_fam_idr, f, id)
		if (!strcmp(f->name, name))
			return true;
	return false;
}

static int command(const struct genl_family *f, unsigned int i)
{
	return i < f->n_ops ? f->ops[i].cmd : f->small_ops[i - f->n_ops].cmd;
}

static bool answered(const struct genl_family *f, unsigned int i)
{
	const struct genl_small_ops *small = f->small_ops + i - f->n_ops;

	return i < f->n_ops ? f->ops[i].doit || f->ops[i].dumpit : small->doit || small->dumpit;
}

// genl_validate_ops refuses an operation that does nothing, and a second one of the same number.
static int genl_validate_ops(const struct genl_family *f)
{
	unsigned int i, j, n = f->n_ops + f->n_small_ops;

	if (WARN_ON(f->n_ops && !f->ops) || WARN_ON(f->n_small_ops && !f->small_ops))
		return -EINVAL;
	for (i = 0; i < n; i++) {
		if (!answered(f, i))
			return -EINVAL;
		for (j = 0; j < i; j++)
			if (command(f, i) == command(f, j))
				return -EINVAL;
	}
	return 0;
}

// groups_of finds numbers for the groups of a family that follow each other.
static int groups_of(struct genl_family *f)
{
	unsigned long at;

	if (!f->n_mcgrps)
		return 0;
	at = bitmap_find_next_zero_area_off(mc_groups, MAX_GROUPS, 0, f->n_mcgrps, 0, 0);
	if (at >= MAX_GROUPS)
		return -ENOMEM;
	bitmap_set(mc_groups, at, f->n_mcgrps);
	f->mcgrp_offset = at;
	return 0;
}

int genl_register_family(struct genl_family *family)
{
	int err = genl_validate_ops(family);

	if (err)
		return err;
	genl_lock();
	err = genl_family_find_byname(family->name) ? -EEXIST : 0;
	if (!err)
		err = idr_alloc_cyclic(&genl_fam_idr, family, GENL_START_ALLOC, GENL_MAX_ID + 1, GFP_KERNEL);
	if (err > 0) {
		family->id = err;
		err = groups_of(family);
		if (err)
			idr_remove(&genl_fam_idr, family->id);
	}
	genl_unlock();
	return err;
}
EXPORT_SYMBOL(genl_register_family);

int genl_unregister_family(const struct genl_family *family)
{
	int err = 0;

	genl_lock();
	if (idr_find(&genl_fam_idr, family->id) != family) {
		err = -ENOENT;
	} else {
		idr_remove(&genl_fam_idr, family->id);
		if (family->n_mcgrps)
			bitmap_clear(mc_groups, family->mcgrp_offset, family->n_mcgrps);
	}
	genl_unlock();
	return err;
}
EXPORT_SYMBOL(genl_unregister_family);

// genlmsg_put appends the heads of a message, and returns where the family's own head begins.
void *genlmsg_put(struct sk_buff *skb, u32 portid, u32 seq, const struct genl_family *family, int flags, u8 cmd)
{
	struct nlmsghdr *nlh = nlmsg_put(skb, portid, seq, family->id, GENL_HDRLEN + family->hdrsize, flags);
	struct genlmsghdr *hdr;

	if (!nlh)
		return NULL;
	hdr = nlmsg_data(nlh);
	*hdr = (struct genlmsghdr){.cmd = cmd, .version = family->version};
	return genlmsg_data(hdr);
}
EXPORT_SYMBOL(genlmsg_put);

int genlmsg_multicast_allns(const struct genl_family *family, struct sk_buff *skb, u32 portid, unsigned int group)
{
	return genlmsg_multicast(family, skb, portid, group, GFP_ATOMIC);
}
EXPORT_SYMBOL(genlmsg_multicast_allns);

// genl_notify tells the group, and the one who asked.
void genl_notify(const struct genl_family *family, struct sk_buff *skb, struct genl_info *info, u32 group, gfp_t flags)
{
	genlmsg_multicast(family, skb, info->snd_portid, group, flags);
}
EXPORT_SYMBOL(genl_notify);
