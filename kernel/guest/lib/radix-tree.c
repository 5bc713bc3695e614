// Radix trees: XArrays whose callers lock, with tags for marks. Their flags say how to
// allocate nodes.
#include "xarray.h"
#include <linux/radix-tree.h>
#include <linux/kernel.h>
#include <linux/find.h>
#include <linux/err.h>
#include <linux/export.h>

#define STATE(name, root, index) XA_STATE(name, (struct xarray *)(root), index)

// retry allocates a node for a store that failed, as the tree's flags say.
static bool retry(struct xa_state *xas)
{
	gfp_t zones_and_flags = 0xf;

	return xas_nomem(xas, xas->xa->xa_flags & (XA_FLAGS_MARK(0) - 1) & ~zones_and_flags);
}

// radix_tree_insert returns -EEXIST if there is an item at index.
int radix_tree_insert(struct radix_tree_root *root, unsigned long index, void *item)
{
	STATE(xas, root, index);
	void *old;

	if (xa_is_internal(item))
		return -EINVAL;
	do {
		old = xas_make_path(&xas, true);
		if (!old && !xas_error(&xas))
			xas_put(&xas, item, true);
	} while (retry(&xas));
	return old ? -EEXIST : xas_error(&xas);
}
EXPORT_SYMBOL(radix_tree_insert);

void *radix_tree_lookup(const struct radix_tree_root *root, unsigned long index)
{
	STATE(xas, root, index);
	void *item;

	do {
		item = xas_load(&xas);
	} while (xas_retry(&xas, item));
	return item;
}
EXPORT_SYMBOL(radix_tree_lookup);

// slot_at returns the slot of a position, or NULL.
static void **slot_at(const struct xa_state *xas)
{
	if (xas_invalid(xas))
		return NULL;
	return xas->xa_node ? &xas->xa_node->slots[xas->xa_offset] : &xas->xa->xa_head;
}

void **radix_tree_lookup_slot(const struct radix_tree_root *root, unsigned long index)
{
	STATE(xas, root, index);

	return xas_load(&xas) ? slot_at(&xas) : NULL;
}
EXPORT_SYMBOL(radix_tree_lookup_slot);

// radix_tree_replace_slot changes an item that is there for another one.
void radix_tree_replace_slot(struct radix_tree_root *root, void **slot, void *item)
{
	WARN_ON_ONCE(!item || !*slot);
	rcu_assign_pointer(*slot, item);
}
EXPORT_SYMBOL(radix_tree_replace_slot);

// radix_tree_delete_item removes and returns what is at index; only item if that is not
// NULL.
void *radix_tree_delete_item(struct radix_tree_root *root, unsigned long index, void *item)
{
	STATE(xas, root, index);
	void *old = xas_load(&xas);

	if (xas_invalid(&xas) || (item && old != item))
		return NULL;
	if (!old && (!xa_track_free(root) || xas_get_mark(&xas, XA_FREE_MARK)))
		return NULL;
	xas_put(&xas, NULL, false);
	return old;
}
EXPORT_SYMBOL(radix_tree_delete_item);

void *radix_tree_delete(struct radix_tree_root *root, unsigned long index)
{
	return radix_tree_delete_item(root, index, NULL);
}
EXPORT_SYMBOL(radix_tree_delete);

void radix_tree_iter_delete(struct radix_tree_root *root, struct radix_tree_iter *iter, void **slot)
{
	radix_tree_delete(root, iter->index);
	iter->index = iter->next_index; // the node can be gone
}
EXPORT_SYMBOL(radix_tree_iter_delete);

// gang stores up to max items from first on, or their slots.
static unsigned int gang(struct xa_state *xas, void **results, void ***slots, unsigned int max, xa_mark_t tag)
{
	unsigned int n = 0;
	void *item;

	while (n < max) {
		item = tag < XA_MAX_MARKS ? xas_find_marked(xas, ULONG_MAX, tag) : xas_find(xas, ULONG_MAX);
		if (!item)
			break;
		if (xas_retry(xas, item))
			continue;
		if (slots)
			slots[n++] = slot_at(xas);
		else
			results[n++] = item;
	}
	return n;
}

unsigned int radix_tree_gang_lookup(const struct radix_tree_root *root, void **results, unsigned long first,
				    unsigned int max)
{
	STATE(xas, root, first);

	return gang(&xas, results, NULL, max, XA_PRESENT);
}
EXPORT_SYMBOL(radix_tree_gang_lookup);

unsigned int radix_tree_gang_lookup_tag(const struct radix_tree_root *root, void **results, unsigned long first,
					unsigned int max, unsigned int tag)
{
	STATE(xas, root, first);

	return gang(&xas, results, NULL, max, tag);
}
EXPORT_SYMBOL(radix_tree_gang_lookup_tag);

unsigned int radix_tree_gang_lookup_tag_slot(const struct radix_tree_root *root, void ***results,
					     unsigned long first, unsigned int max, unsigned int tag)
{
	STATE(xas, root, first);

	return gang(&xas, NULL, results, max, tag);
}
EXPORT_SYMBOL(radix_tree_gang_lookup_tag_slot);

void *radix_tree_tag_set(struct radix_tree_root *root, unsigned long index, unsigned int tag)
{
	STATE(xas, root, index);
	void *item = xas_load(&xas);

	if (item)
		xas_set_mark(&xas, tag);
	return item;
}
EXPORT_SYMBOL(radix_tree_tag_set);

// radix_tree_tag_clear returns the item at index, whether it had the tag or not.
void *radix_tree_tag_clear(struct radix_tree_root *root, unsigned long index, unsigned int tag)
{
	STATE(xas, root, index);
	void *item = xas_load(&xas);

	if (item)
		xas_clear_mark(&xas, tag);
	return item;
}
EXPORT_SYMBOL(radix_tree_tag_clear);

int radix_tree_tag_get(const struct radix_tree_root *root, unsigned long index, unsigned int tag)
{
	STATE(xas, root, index);

	xas_load(&xas);
	return xas_get_mark(&xas, tag);
}
EXPORT_SYMBOL(radix_tree_tag_get);

// radix_tree_tagged returns the bit of the tag in the flags.
int radix_tree_tagged(const struct radix_tree_root *root, unsigned int tag)
{
	return root->xa_flags & XA_FLAGS_MARK(tag);
}
EXPORT_SYMBOL(radix_tree_tagged);

// radix_tree_next_chunk returns the first slot from iter's next_index on that has an item
// or the tag that flags name, and sets iter to it and the rest of its node.
void **radix_tree_next_chunk(const struct radix_tree_root *root, struct radix_tree_iter *iter, unsigned int flags)
{
	unsigned long start = iter->next_index;
	unsigned int tag = flags & RADIX_TREE_ITER_TAG_MASK;
	bool tagged = flags & RADIX_TREE_ITER_TAGGED;
	STATE(xas, root, start);
	void *item;

	if (!start && iter->index) // the last chunk ended at the last index
		return NULL;
	do {
		item = tagged ? xas_find_marked(&xas, ULONG_MAX, tag) : xas_find(&xas, ULONG_MAX);
	} while (xas_retry(&xas, item));
	if (!item || (flags & RADIX_TREE_ITER_CONTIG && xas.xa_index != start))
		return NULL;
	iter->index = xas.xa_index;
	iter->node = xas.xa_node;
	iter->next_index = xas.xa_node ? (xas.xa_index | XA_CHUNK_MASK) + 1 : 1;
	iter->tags = !tagged ? 0 : xas.xa_node ? xas.xa_node->marks[tag][0] >> xas.xa_offset : 1;
	return slot_at(&xas);
}
EXPORT_SYMBOL(radix_tree_next_chunk);

// radix_tree_iter_resume makes the iteration look the next slot up anew.
void **radix_tree_iter_resume(void **slot, struct radix_tree_iter *iter)
{
	iter->next_index = ++iter->index;
	iter->tags = 0;
	return NULL;
}
EXPORT_SYMBOL(radix_tree_iter_resume);
