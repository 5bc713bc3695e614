/* radix-tree.h: radix trees, which are XArrays whose callers lock. */
#ifndef _LINUX_RADIX_TREE_H
#define _LINUX_RADIX_TREE_H
#include <linux/xarray.h>
#include <linux/percpu.h>
#include <linux/preempt.h>

#define radix_tree_root xarray
#define radix_tree_node xa_node
#define RADIX_TREE_MAX_TAGS XA_MAX_MARKS
#define RADIX_TREE_MAP_SHIFT XA_CHUNK_SHIFT
#define RADIX_TREE_MAP_SIZE XA_CHUNK_SIZE

struct radix_tree_preload {
	unsigned int nr;
	struct xa_node *nodes; /* linked by parent */
};
DECLARE_PER_CPU(struct radix_tree_preload, radix_tree_preloads);
#define radix_tree_preload_end() preempt_enable()

#define RADIX_TREE_INIT(name, mask) XARRAY_INIT(name, mask)
#define RADIX_TREE(name, mask) struct radix_tree_root name = RADIX_TREE_INIT(name, mask)
#define INIT_RADIX_TREE(root, mask) xa_init_flags(root, mask)
static inline bool radix_tree_empty(const struct radix_tree_root *root) { return !root->xa_head; }

/* A place in a tree, and the slots up to next_index, with their tags. */
struct radix_tree_iter {
	unsigned long index;
	unsigned long next_index;
	unsigned long tags;
	struct radix_tree_node *node;
};
enum { RADIX_TREE_ITER_TAG_MASK = 0x0f, RADIX_TREE_ITER_TAGGED = 0x10, RADIX_TREE_ITER_CONTIG = 0x20 };

int radix_tree_insert(struct radix_tree_root *root, unsigned long index, void *item);
void *radix_tree_lookup(const struct radix_tree_root *root, unsigned long index);
void **radix_tree_lookup_slot(const struct radix_tree_root *root, unsigned long index);
void radix_tree_replace_slot(struct radix_tree_root *root, void **slot, void *item);
void *radix_tree_delete(struct radix_tree_root *root, unsigned long index);
void *radix_tree_delete_item(struct radix_tree_root *root, unsigned long index, void *item);
void radix_tree_iter_delete(struct radix_tree_root *root, struct radix_tree_iter *iter, void **slot);
unsigned int radix_tree_gang_lookup(const struct radix_tree_root *root, void **results, unsigned long first, unsigned int max);
unsigned int radix_tree_gang_lookup_tag(const struct radix_tree_root *root, void **results, unsigned long first, unsigned int max, unsigned int tag);
unsigned int radix_tree_gang_lookup_tag_slot(const struct radix_tree_root *root, void ***results, unsigned long first, unsigned int max, unsigned int tag);
void *radix_tree_tag_set(struct radix_tree_root *root, unsigned long index, unsigned int tag);
void *radix_tree_tag_clear(struct radix_tree_root *root, unsigned long index, unsigned int tag);
int radix_tree_tag_get(const struct radix_tree_root *root, unsigned long index, unsigned int tag);
int radix_tree_tagged(const struct radix_tree_root *root, unsigned int tag);
int radix_tree_preload(gfp_t gfp);
int radix_tree_maybe_preload(gfp_t gfp);
void **radix_tree_next_chunk(const struct radix_tree_root *root, struct radix_tree_iter *iter, unsigned int flags);
void **radix_tree_iter_resume(void **slot, struct radix_tree_iter *iter);
void radix_tree_init(void);

static inline void **radix_tree_iter_init(struct radix_tree_iter *iter, unsigned long start)
{
	iter->index = 0;
	iter->next_index = start;
	return NULL;
}

/* The next slot of the chunk that has an item, or the tag. */
static inline void **radix_tree_next_slot(void **slot, struct radix_tree_iter *iter, unsigned int flags)
{
	while (iter->next_index - iter->index > 1) { /* next_index is 0 behind the last index */
		iter->index++;
		slot++;
		iter->tags >>= 1;
		if (flags & RADIX_TREE_ITER_TAGGED ? iter->tags & 1 : *slot != NULL)
			return slot;
		if (flags & RADIX_TREE_ITER_CONTIG) {
			iter->next_index = 0;
			break;
		}
	}
	return NULL;
}
#define radix_tree_for_each_slot(slot, root, iter, start) \
	for (slot = radix_tree_iter_init(iter, start); slot || (slot = radix_tree_next_chunk(root, iter, 0)); \
	     slot = radix_tree_next_slot(slot, iter, 0))
#define radix_tree_for_each_tagged(slot, root, iter, start, tag) \
	for (slot = radix_tree_iter_init(iter, start); \
	     slot || (slot = radix_tree_next_chunk(root, iter, RADIX_TREE_ITER_TAGGED | (tag))); \
	     slot = radix_tree_next_slot(slot, iter, RADIX_TREE_ITER_TAGGED | (tag)))
#define radix_tree_deref_slot(slot) READ_ONCE(*(slot))
#endif
