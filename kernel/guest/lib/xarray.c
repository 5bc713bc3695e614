// The XArray's simple calls, over a radix tree.
#include <linux/radix-tree.h>
#include <linux/slab.h>
#include <linux/errno.h>

void xa_init_flags(struct xarray *xa, gfp_t flags)
{
	radix_tree_init_root(&xa->rt, GFP_ATOMIC);
}

void *xa_load(struct xarray *xa, unsigned long index)
{
	return radix_tree_lookup(&xa->rt, index);
}

// xa_store returns the old entry at index. Storing NULL erases the entry.
void *xa_store(struct xarray *xa, unsigned long index, void *entry, gfp_t gfp)
{
	void *old;

	if (!entry)
		return xa_erase(xa, index);
	old = radix_tree_replace(&xa->rt, index, entry);
	if (!old && radix_tree_insert(&xa->rt, index, entry))
		return (void *)-ENOMEM;
	return old;
}

void *xa_erase(struct xarray *xa, unsigned long index)
{
	return radix_tree_delete(&xa->rt, index);
}

// xa_find returns the first entry from *index to max, and its index.
void *xa_find(struct xarray *xa, unsigned long *index, unsigned long max, unsigned int filter)
{
	unsigned long at = *index;
	void *entry = radix_tree_next(&xa->rt, &at);

	if (!entry || at > max)
		return NULL;
	*index = at;
	return entry;
}

void xa_destroy(struct xarray *xa)
{
	unsigned long at = 0;

	while (radix_tree_next(&xa->rt, &at))
		radix_tree_delete(&xa->rt, at);
}
