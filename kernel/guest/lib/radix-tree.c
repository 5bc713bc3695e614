// Radix trees with 64 slots per node, as high as the largest index requires. Lookups
// take no lock: nodes are freed by RCU.
#include <linux/radix-tree.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/errno.h>
#include <linux/list.h>
#include <linux/err.h>
#include <linux/string.h>

#define SHIFT 6
#define WAYS (1 << SHIFT)

struct radix_tree_node {
	unsigned int count; // slots in use
	void *slots[WAYS];
	struct callback_head rcu;
};

void radix_tree_init_root(struct radix_tree_root *root, gfp_t gfp)
{
	memset(root, 0, sizeof(*root));
	spin_lock_init(&root->lock);
	root->gfp = gfp;
}

// fits reports whether index fits into a tree of this height.
static bool fits(unsigned int height, unsigned long index)
{
	return height * SHIFT >= 64 || !(index >> (height * SHIFT));
}

static unsigned int way(unsigned long index, unsigned int level)
{
	return index >> (level * SHIFT) & (WAYS - 1);
}

static struct radix_tree_node *new_node(const struct radix_tree_root *root)
{
	return kzalloc(sizeof(struct radix_tree_node), root->gfp);
}

static void free_rcu_node(struct callback_head *head)
{
	kfree(container_of(head, struct radix_tree_node, rcu));
}

// extend makes the tree high enough for index: -ENOMEM.
static int extend(struct radix_tree_root *root, unsigned long index)
{
	while (!root->node || !fits(root->height, index)) {
		struct radix_tree_node *n = new_node(root);

		if (!n)
			return -ENOMEM;
		if (root->node) {
			n->slots[0] = root->node;
			n->count = 1;
			root->height++;
		} else {
			for (root->height = 1; !fits(root->height, index);)
				root->height++;
		}
		rcu_assign_pointer(root->node, n);
	}
	return 0;
}

// slot_of returns the slot of index. If make is set, it creates missing nodes.
static void **slot_of(struct radix_tree_root *root, unsigned long index, bool make, struct radix_tree_node **leaf)
{
	struct radix_tree_node *n = root->node;
	unsigned int level;

	for (level = root->height - 1; n && level > 0; level--) {
		void **slot = &n->slots[way(index, level)];

		if (!*slot && make) {
			struct radix_tree_node *below = new_node(root);

			if (!below)
				return NULL;
			n->count++;
			rcu_assign_pointer(*slot, below);
		}
		n = *slot;
	}
	*leaf = n;
	return n ? &n->slots[way(index, 0)] : NULL;
}

// store stores item at index and returns the old item, or ERR_PTR(-ENOMEM). A NULL
// item empties the slot.
static void *store(struct radix_tree_root *root, unsigned long index, void *item)
{
	struct radix_tree_node *leaf = NULL;
	void **slot, *old;

	if (!item && (!root->height || !fits(root->height, index)))
		return NULL;
	if (item && extend(root, index))
		return ERR_PTR(-ENOMEM);
	slot = slot_of(root, index, item, &leaf);
	if (!slot)
		return item ? ERR_PTR(-ENOMEM) : NULL;
	old = *slot;
	leaf->count += !!item - !!old;
	rcu_assign_pointer(*slot, item);
	return old;
}

// prune frees empty nodes on the path to index.
static bool prune(struct radix_tree_node *n, unsigned int level, unsigned long index)
{
	if (level) {
		struct radix_tree_node *below = n->slots[way(index, level)];

		if (below && prune(below, level - 1, index)) {
			WRITE_ONCE(n->slots[way(index, level)], NULL);
			n->count--;
		}
	}
	if (n->count)
		return false;
	call_rcu(&n->rcu, free_rcu_node);
	return true;
}

// radix_tree_insert returns -EEXIST if there is an item at index.
int radix_tree_insert(struct radix_tree_root *root, unsigned long index, void *item)
{
	void *old;
	int err = 0;

	spin_lock_bh(&root->lock);
	if (radix_tree_lookup(root, index)) {
		err = -EEXIST;
	} else {
		old = store(root, index, item);
		err = IS_ERR(old) ? PTR_ERR(old) : 0;
	}
	spin_unlock_bh(&root->lock);
	return err;
}

void *radix_tree_lookup(const struct radix_tree_root *root, unsigned long index)
{
	const struct radix_tree_node *n;
	unsigned int level;
	void *item = NULL;

	rcu_read_lock();
	n = rcu_dereference(root->node);
	level = root->height;
	if (n && fits(level, index)) {
		while (n && --level)
			n = rcu_dereference(n->slots[way(index, level)]);
		item = n ? rcu_dereference(n->slots[way(index, 0)]) : NULL;
	}
	rcu_read_unlock();
	return item;
}

// radix_tree_replace returns the old item at index. If there was none, it returns
// NULL and changes nothing.
void *radix_tree_replace(struct radix_tree_root *root, unsigned long index, void *item)
{
	void *old;

	spin_lock_bh(&root->lock);
	old = radix_tree_lookup(root, index);
	if (old)
		store(root, index, item);
	spin_unlock_bh(&root->lock);
	return old;
}

void *radix_tree_delete(struct radix_tree_root *root, unsigned long index)
{
	void *old;

	spin_lock_bh(&root->lock);
	old = store(root, index, NULL);
	if (old && prune(root->node, root->height - 1, index)) {
		root->node = NULL;
		root->height = 0;
	}
	spin_unlock_bh(&root->lock);
	return old;
}

// radix_tree_next returns the first item at *index or above, and its index.
void *radix_tree_next(const struct radix_tree_root *root, unsigned long *index)
{
	unsigned long at = *index;

	while (root->node && fits(root->height, at)) {
		const struct radix_tree_node *n = root->node;
		unsigned int level = root->height - 1;

		while (level && n->slots[way(at, level)])
			n = n->slots[way(at, level--)];
		if (!level && n->slots[way(at, 0)]) {
			*index = at;
			return n->slots[way(at, 0)];
		}
		// Continue with the next slot of this level.
		at = ((at >> (level * SHIFT)) + 1) << (level * SHIFT);
		if (!at)
			break;
	}
	return NULL;
}

// radix_tree_free_index returns the first index in [start, end) without an item, or -ENOSPC.
long radix_tree_free_index(const struct radix_tree_root *root, unsigned long start, unsigned long end)
{
	unsigned long at;

	for (at = start; at < end; at++) {
		if (!radix_tree_lookup(root, at))
			return at;
	}
	return -ENOSPC;
}
