// The XArray: nodes with 64 slots, as many levels of them as the largest index
// requires. Readers take no lock: nodes are freed by RCU. A single entry at index 0
// needs no node; it is the array's head.
//
// An entry of several indices (2^n, aligned) is in the first of its slots; the others
// have siblings, which name that slot. Each mark has a bit for each slot, which is set
// when any entry below it has the mark; the head's are in xa_flags. In arrays
// that allocate, mark 0 of a slot says that there is a free index.
#include "xarray.h"
#include <linux/radix-tree.h>
#include <linux/kernel.h>
#include <linux/percpu.h>
#include <linux/find.h>
#include <linux/slab.h>
#include <linux/init.h>
#include <linux/export.h>
#include <linux/string.h>

static struct kmem_cache *node_cache;

void __init radix_tree_init(void)
{
	node_cache = kmem_cache_create("radix_tree_node", sizeof(struct xa_node), 0,
				       SLAB_PANIC | SLAB_RECLAIM_ACCOUNT, NULL);
}

bool xa_track_free(const struct xarray *xa) { return xa->xa_flags & XA_FLAGS_TRACK_FREE; }
static bool zero_busy(const struct xarray *xa) { return xa->xa_flags & XA_FLAGS_ZERO_BUSY; }

static bool at_node(const struct xa_state *xas)
{
	return xas_is_node(xas);
}

static bool bit_of(const struct xa_node *node, unsigned int offset, xa_mark_t mark)
{
	return test_bit(offset, node->marks[mark]);
}

// last_of returns the largest index that an entry of a slot of head can have.
static unsigned long last_of(const void *head)
{
	if (!xa_is_node(head))
		return 0;
	return (XA_CHUNK_SIZE << xa_to_node(head)->shift) - 1;
}

// offset_in returns the slot of index in node.
static unsigned int offset_in(const struct xa_node *node, unsigned long index)
{
	return index >> node->shift & XA_CHUNK_MASK;
}

// xa_slot_index returns the first index of a slot.
unsigned long xa_slot_index(const struct xa_node *node, unsigned int offset)
{
	unsigned long index = 0;

	for (; node; offset = node->offset, node = node->parent)
		index |= (unsigned long)offset << node->shift;
	return index;
}

// place makes slot offset of node the position, or the slot whose sibling that is, and
// returns its entry.
static void *place(struct xa_state *xas, struct xa_node *node, unsigned int offset)
{
	void *entry = READ_ONCE(node->slots[offset]);

	if (xa_is_sibling(entry)) {
		offset = xa_to_sibling(entry);
		entry = READ_ONCE(node->slots[offset]);
		if (node->shift && xa_is_node(entry)) // a reader came between
			entry = XA_RETRY_ENTRY;
	}
	xas->xa_node = node;
	xas->xa_offset = offset;
	return entry;
}

static void *past_end(struct xa_state *xas)
{
	xas->xa_node = XAS_BOUNDS;
	return NULL;
}

// xas_load goes to the position of xa_index and returns the entry that is there. Below
// what xa_shift says it does not go.
void *xas_load(struct xa_state *xas)
{
	void *entry;

	if (xas_error(xas))
		return NULL;
	if (at_node(xas)) {
		entry = READ_ONCE(xas->xa_node->slots[xas->xa_offset]);
	} else {
		entry = xa_head(xas->xa);
		if (xas->xa_index > last_of(entry))
			return past_end(xas);
		xas->xa_node = NULL;
	}
	while (xa_is_node(entry)) {
		struct xa_node *node = xa_to_node(entry);

		if (xas->xa_shift > node->shift)
			break;
		entry = place(xas, node, offset_in(node, xas->xa_index));
		if (!node->shift)
			break;
	}
	return entry;
}
EXPORT_SYMBOL_GPL(xas_load);

// The marks.

bool xas_get_mark(const struct xa_state *xas, xa_mark_t mark)
{
	if (xas_invalid(xas))
		return false;
	return xas->xa_node ? bit_of(xas->xa_node, xas->xa_offset, mark) : xa_marked(xas->xa, mark);
}
EXPORT_SYMBOL_GPL(xas_get_mark);

// mark_up sets the mark of a slot, and of what is above it.
static void mark_up(struct xarray *xa, struct xa_node *node, unsigned int offset, xa_mark_t mark)
{
	for (; node; offset = node->offset, node = node->parent) {
		if (bit_of(node, offset, mark))
			return;
		__set_bit(offset, node->marks[mark]);
	}
	xa->xa_flags |= XA_FLAGS_MARK(mark);
}

// unmark_up clears the mark of a slot, and of what is above it and has no other mark.
static void unmark_up(struct xarray *xa, struct xa_node *node, unsigned int offset, xa_mark_t mark)
{
	for (; node; offset = node->offset, node = node->parent) {
		if (!bit_of(node, offset, mark))
			return;
		__clear_bit(offset, node->marks[mark]);
		if (node->marks[mark][0])
			return;
	}
	xa->xa_flags &= ~XA_FLAGS_MARK(mark);
}

void xas_set_mark(const struct xa_state *xas, xa_mark_t mark)
{
	if (xas_valid(xas))
		mark_up(xas->xa, xas->xa_node, xas->xa_offset, mark);
}
EXPORT_SYMBOL_GPL(xas_set_mark);

noinline void xas_clear_mark(const struct xa_state *xas, xa_mark_t mark)
{
	if (xas_valid(xas))
		unmark_up(xas->xa, xas->xa_node, xas->xa_offset, mark);
}
EXPORT_SYMBOL_GPL(xas_clear_mark);

// xas_init_marks gives the position the marks of an entry that is not there.
void xas_init_marks(const struct xa_state *xas)
{
	xa_mark_t mark;

	for (mark = 0; mark < XA_MAX_MARKS; mark++) {
		if (xa_track_free(xas->xa) && mark == XA_FREE_MARK)
			xas_set_mark(xas, mark);
		else
			xas_clear_mark(xas, mark);
	}
}
EXPORT_SYMBOL_GPL(xas_init_marks);

// Nodes.

static gfp_t gfp_of(const struct xa_state *xas, gfp_t gfp)
{
	return xas->xa->xa_flags & XA_FLAGS_ACCOUNT ? gfp | __GFP_ACCOUNT : gfp;
}

static struct xa_node *alloc_node(gfp_t gfp)
{
	struct xa_node *node = kmem_cache_alloc(node_cache, gfp | __GFP_ZERO);

	if (node)
		INIT_LIST_HEAD(&node->private_list);
	return node;
}

static void node_rcu_free(struct callback_head *head)
{
	kmem_cache_free(node_cache, container_of(head, struct xa_node, rcu_head));
}

// drop_node frees a node when no reader can have it any more.
static void drop_node(struct xa_state *xas, struct xa_node *node)
{
	if (xas->xa_update) {
		node->count = node->nr_values = 0;
		xas->xa_update(node);
	}
	call_rcu(&node->rcu_head, node_rcu_free);
}

// The nodes that radix_tree_preload has allocated for this CPU.
DEFINE_PER_CPU(struct radix_tree_preload, radix_tree_preloads);
EXPORT_SYMBOL_GPL(radix_tree_preloads);

static struct xa_node *preloaded(void)
{
	struct radix_tree_preload *rtp = this_cpu_ptr(&radix_tree_preloads);
	struct xa_node *node = rtp->nodes;

	if (node) {
		rtp->nodes = node->parent;
		rtp->nr--;
		node->parent = NULL;
	}
	return node;
}

// preload returns 0 with preemption disabled, and enough nodes for one insertion.
static int preload(gfp_t gfp, unsigned int nr)
{
	struct radix_tree_preload *rtp;
	struct xa_node *node;

	for (;;) {
		preempt_disable();
		rtp = this_cpu_ptr(&radix_tree_preloads);
		if (rtp->nr >= nr)
			return 0;
		preempt_enable();
		node = alloc_node(gfp);
		if (!node)
			return -ENOMEM;
		preempt_disable();
		rtp = this_cpu_ptr(&radix_tree_preloads);
		node->parent = rtp->nodes;
		rtp->nodes = node;
		rtp->nr++;
		preempt_enable();
	}
}

// As many levels as an index has, and all but the last anew.
#define PRELOAD_NODES (2 * DIV_ROUND_UP(BITS_PER_LONG, XA_CHUNK_SHIFT) - 1)

int radix_tree_preload(gfp_t gfp)
{
	return preload(gfp, PRELOAD_NODES);
}
EXPORT_SYMBOL(radix_tree_preload);

int radix_tree_maybe_preload(gfp_t gfp)
{
	return preload(gfp, gfpflags_allow_blocking(gfp) ? PRELOAD_NODES : 0);
}
EXPORT_SYMBOL(radix_tree_maybe_preload);

// idr_preload goes on without nodes when there is no memory.
void idr_preload(gfp_t gfp)
{
	if (preload(gfp, PRELOAD_NODES))
		preempt_disable();
}
EXPORT_SYMBOL(idr_preload);

// new_node returns a node, which it gets without waiting: NULL and an error in xas.
static struct xa_node *new_node(struct xa_state *xas, unsigned int shift)
{
	struct xa_node *node = xas->xa_alloc;

	if (node) {
		xas->xa_alloc = node->parent;
		node->parent = NULL;
	} else {
		node = alloc_node(gfp_of(xas, GFP_NOWAIT | __GFP_NOWARN));
	}
	if (!node)
		node = preloaded();
	if (!node) {
		xas_set_err(xas, -ENOMEM);
		return NULL;
	}
	node->shift = shift;
	node->array = xas->xa;
	if (xa_track_free(xas->xa))
		node->marks[XA_FREE_MARK][0] = ~0UL;
	return node;
}

// xas_destroy frees nodes that xas_nomem has allocated and nobody needed.
void xas_destroy(struct xa_state *xas)
{
	struct xa_node *node;

	while ((node = xas->xa_alloc)) {
		xas->xa_alloc = node->parent;
		kmem_cache_free(node_cache, node);
	}
}

// xas_nomem allocates a node if a store failed for want of memory, and reports whether
// to try again.
bool xas_nomem(struct xa_state *xas, gfp_t gfp)
{
	if (xas->xa_node != XA_ERROR(-ENOMEM)) {
		xas_destroy(xas);
		return false;
	}
	xas->xa_alloc = alloc_node(gfp_of(xas, gfp));
	if (!xas->xa_alloc)
		return false;
	xas->xa_node = XAS_RESTART;
	return true;
}
EXPORT_SYMBOL_GPL(xas_nomem);

static void lock_as(struct xarray *xa, bool lock)
{
	unsigned int how = xa->xa_flags & (XA_FLAGS_LOCK_IRQ | XA_FLAGS_LOCK_BH);

	if (how & XA_FLAGS_LOCK_IRQ)
		lock ? xa_lock_irq(xa) : xa_unlock_irq(xa);
	else if (how)
		lock ? xa_lock_bh(xa) : xa_unlock_bh(xa);
	else
		lock ? xa_lock(xa) : xa_unlock(xa);
}

// nomem is xas_nomem for callers that hold the array's lock, which it drops to wait.
static bool nomem(struct xa_state *xas, gfp_t gfp)
{
	bool again, waits = gfpflags_allow_blocking(gfp) && xas->xa_node == XA_ERROR(-ENOMEM);

	if (waits)
		lock_as(xas->xa, false);
	again = xas_nomem(xas, gfp);
	if (waits)
		lock_as(xas->xa, true);
	return again;
}

// used reports whether a slot counts: it has an entry, or its index is allocated.
static bool used(const struct xarray *xa, const struct xa_node *node, unsigned int offset)
{
	return node->slots[offset] || (xa_track_free(xa) && !bit_of(node, offset, XA_FREE_MARK));
}

// raise puts a node above the head, or the first one into an empty array, so that the
// array has room for index last.
static bool raise(struct xa_state *xas, unsigned long last)
{
	struct xarray *xa = xas->xa;
	void *head = xa->xa_head;
	unsigned int shift = 0;
	struct xa_node *node;
	xa_mark_t mark;

	if (xa_is_node(head))
		shift = xa_to_node(head)->shift + XA_CHUNK_SHIFT;
	else if (!head && (!xa_track_free(xa) || xa_marked(xa, XA_FREE_MARK)))
		while (last >> shift > XA_CHUNK_MASK)
			shift += XA_CHUNK_SHIFT;
	node = new_node(xas, shift);
	if (!node)
		return false;
	if (!head && zero_busy(xa))
		head = XA_ZERO_ENTRY;
	node->slots[0] = head;
	for (mark = 0; mark < XA_MAX_MARKS; mark++) {
		if (xa_track_free(xa) && mark == XA_FREE_MARK) {
			// Index 0 of an array that has no node is allocated if nothing is free.
			if (!xa_marked(xa, mark))
				__clear_bit(0, node->marks[mark]);
			xa->xa_flags |= XA_FLAGS_MARK(mark);
		} else if (xa_marked(xa, mark)) {
			__set_bit(0, node->marks[mark]);
		}
	}
	node->count = used(xa, node, 0);
	node->nr_values = xa_is_value(head);
	if (xa_is_node(head)) {
		xa_to_node(head)->offset = 0;
		rcu_assign_pointer(xa_to_node(head)->parent, node);
	}
	rcu_assign_pointer(xa->xa_head, xa_mk_node(node));
	return true;
}

// xas_make_path goes to the slot for the entry that xas describes, and makes the nodes that
// it needs. It returns what is there. A head that has to be in a node gets one.
void *xas_make_path(struct xa_state *xas, bool head_too)
{
	struct xarray *xa = xas->xa;
	unsigned int order_shift = xas->xa_shift;
	unsigned long last = (xas->xa_index >> order_shift << order_shift) + (((unsigned long)xas->xa_sibs + 1) << order_shift) - 1;
	void *entry;

	if (xas_error(xas))
		return NULL;
	if (last < xas->xa_index)
		last = ULONG_MAX;
	while (!xa_is_node(xa->xa_head) ? last || !head_too :
	       last > last_of(xa->xa_head) || xa_to_node(xa->xa_head)->shift < order_shift)
		if (!raise(xas, last))
			return NULL;
	xas->xa_node = NULL;
	entry = xa->xa_head;
	while (xa_is_node(entry)) {
		struct xa_node *above = xa_to_node(entry), *node;

		if (above->shift < order_shift)
			break;
		entry = place(xas, above, offset_in(above, xas->xa_index));
		if (above->shift == order_shift || (entry && !xa_is_node(entry)))
			break;
		if (entry)
			continue;
		node = new_node(xas, above->shift - XA_CHUNK_SHIFT);
		if (!node)
			return NULL;
		node->parent = above;
		node->offset = xas->xa_offset = offset_in(above, xas->xa_index);
		above->count++;
		entry = xa_mk_node(node);
		rcu_assign_pointer(above->slots[node->offset], entry);
	}
	return entry;
}

// free_below frees a node that is no longer in the array, and those below it. Readers
// that are in it start anew.
static void free_below(struct xa_state *xas, struct xa_node *node)
{
	unsigned int i;

	for (i = 0; i < XA_CHUNK_SIZE; i++) {
		void *entry = node->slots[i];

		if (xa_is_node(entry))
			free_below(xas, xa_to_node(entry));
		WRITE_ONCE(node->slots[i], XA_RETRY_ENTRY);
	}
	drop_node(xas, node);
}

// shrink takes nodes away from the top that lead to slot 0 only.
static void shrink(struct xa_state *xas)
{
	struct xarray *xa = xas->xa;

	while (xa_is_node(xa->xa_head)) {
		struct xa_node *node = xa_to_node(xa->xa_head);
		void *entry = node->slots[0];

		if (node->count != 1 || !entry || (node->shift && !xa_is_node(entry)))
			return;
		if (xa_is_zero(entry)) {
			if (!zero_busy(xa))
				return;
			entry = NULL;
		}
		if (xa_track_free(xa) && !bit_of(node, 0, XA_FREE_MARK))
			xa->xa_flags &= ~XA_FLAGS_MARK(XA_FREE_MARK);
		if (xa_is_node(entry))
			xa_to_node(entry)->parent = NULL;
		rcu_assign_pointer(xa->xa_head, entry);
		if (!xa_is_node(entry))
			WRITE_ONCE(node->slots[0], XA_RETRY_ENTRY);
		xas->xa_node = XAS_RESTART;
		drop_node(xas, node);
	}
}

// prune takes empty nodes away, from this one on upwards.
static void prune(struct xa_state *xas, struct xa_node *node)
{
	struct xarray *xa = xas->xa;

	while (node && !node->count) {
		struct xa_node *above = node->parent;

		xas->xa_node = XAS_RESTART;
		if (above) {
			WRITE_ONCE(above->slots[node->offset], NULL);
			above->count--;
			if (xas->xa_update)
				xas->xa_update(above);
		} else {
			WRITE_ONCE(xa->xa_head, NULL);
			if (zero_busy(xa))
				xa->xa_flags &= ~XA_FLAGS_MARK(XA_FREE_MARK);
		}
		drop_node(xas, node);
		node = above;
	}
	shrink(xas);
}

// remark gives a slot the marks of one that is in use or not.
static void remark(struct xarray *xa, struct xa_node *node, unsigned int offset, bool uses)
{
	xa_mark_t mark;

	for (mark = 0; mark < XA_MAX_MARKS; mark++) {
		if (!xa_track_free(xa) || mark != XA_FREE_MARK) {
			if (!uses)
				unmark_up(xa, node, offset, mark);
		} else if (uses) {
			unmark_up(xa, node, offset, mark);
		} else {
			mark_up(xa, node, offset, mark);
		}
	}
}

// gather moves the marks of the slots up to end to the first of them.
static void gather(struct xarray *xa, struct xa_node *node, unsigned int offset, unsigned int end)
{
	unsigned long rest = end > offset ? GENMASK(end, offset + 1) : 0;
	xa_mark_t mark;

	for (mark = 0; mark < XA_MAX_MARKS; mark++) {
		unsigned long *marks = &node->marks[mark][0];

		if ((xa_track_free(xa) && mark == XA_FREE_MARK) || !(*marks & rest))
			continue;
		*marks = (*marks & ~rest) | BIT(offset);
	}
}

static void put_head(struct xa_state *xas, void *entry, bool uses)
{
	struct xarray *xa = xas->xa;
	void *old = xa->xa_head;

	rcu_assign_pointer(xa->xa_head, entry);
	if (xa_is_node(old))
		free_below(xas, xa_to_node(old));
	remark(xa, NULL, 0, uses);
	if (!uses && zero_busy(xa))
		xa->xa_flags &= ~XA_FLAGS_MARK(XA_FREE_MARK);
}

// xas_put stores entry at the position, in as many slots as xas says and what was there had.
// A slot can be in use, that is allocated, without an entry.
void xas_put(struct xa_state *xas, void *entry, bool uses)
{
	struct xa_node *node = xas->xa_node;
	unsigned int first = xas->xa_offset, at = first, end = first;
	void *was = NULL;

	if (!node) {
		put_head(xas, entry, uses);
		return;
	}
	if (node->shift == xas->xa_shift)
		end = min(first + xas->xa_sibs, (unsigned int)XA_CHUNK_MASK);
	for (;; at++) {
		void *old = node->slots[at];

		if (!xa_is_sibling(old))
			was = old;
		node->count += uses - used(xas->xa, node, at);
		node->nr_values += xa_is_value(entry) - xa_is_value(was);
		rcu_assign_pointer(node->slots[at], at > first && entry ? xa_mk_sibling(first) : entry);
		if (xa_is_node(old))
			free_below(xas, xa_to_node(old));
		remark(xas->xa, node, at, uses);
		if (at >= XA_CHUNK_MASK || (at >= end && !xa_is_sibling(node->slots[at + 1])))
			break;
	}
	if (uses)
		gather(xas->xa, node, first, at);
	if (xas->xa_update)
		xas->xa_update(node);
	if (!uses)
		prune(xas, node);
}

// xas_store stores an entry, or none, at the position and returns what was there first.
noinline void *xas_store(struct xa_state *xas, void *entry)
{
	void *first = entry ? xas_make_path(xas, !xa_is_zero(entry)) : xas_load(xas);

	if (xas_valid(xas) && (first != entry || xas->xa_sibs))
		xas_put(xas, entry, entry);
	return first;
}
EXPORT_SYMBOL_GPL(xas_store);

// xas_create_range makes the nodes for entries at all indices of the range of xas.
void xas_create_range(struct xa_state *xas)
{
	unsigned long first = xas->xa_index, index = first;
	unsigned char shift = xas->xa_shift, sibs = xas->xa_sibs;

	index |= (((unsigned long)sibs + 1) << shift) - 1;
	xas->xa_shift = xas->xa_sibs = 0;
	for (;; index -= XA_CHUNK_SIZE) {
		xas->xa_index = index;
		xas_make_path(xas, true);
		if (xas_error(xas) || index <= (first | XA_CHUNK_MASK))
			break;
	}
	xas->xa_index = first;
	xas->xa_shift = shift;
	xas->xa_sibs = sibs;
	if (!xas_error(xas) && xas->xa_node)
		xas->xa_offset = offset_in(xas->xa_node, first);
}
EXPORT_SYMBOL_GPL(xas_create_range);

// xas_get_order returns the order of the entry at the position.
int xas_get_order(struct xa_state *xas)
{
	unsigned int slots = 1;

	if (!xas->xa_node)
		return 0;
	while (xas->xa_offset + slots < XA_CHUNK_SIZE &&
	       xa_is_sibling(READ_ONCE(xas->xa_node->slots[xas->xa_offset + slots])))
		slots++;
	return xas->xa_node->shift + ilog2(slots);
}
EXPORT_SYMBOL_GPL(xas_get_order);

// spread stores entry in slots first to end of node, in groups of xa_sibs + 1, with marks.
static void spread(struct xa_state *xas, struct xa_node *node, unsigned int first, unsigned int end, void *entry,
		   const bool *marks)
{
	unsigned int at, group = xas->xa_sibs + 1;
	xa_mark_t mark;

	for (at = first; at <= end; at++) {
		rcu_assign_pointer(node->slots[at], at % group ? xa_mk_sibling(at - at % group) : entry);
		for (mark = 0; mark < XA_MAX_MARKS; mark++) {
			if (marks[mark] && !(at % group))
				__set_bit(at, node->marks[mark]);
			else
				__clear_bit(at, node->marks[mark]);
		}
	}
}

// xas_split_alloc allocates the nodes that xas_split needs for an entry of an order.
void xas_split_alloc(struct xa_state *xas, void *entry, unsigned int order, gfp_t gfp)
{
	unsigned int n, nodes = 1U << order % XA_CHUNK_SHIFT;

	if (xas->xa_shift + 2 * XA_CHUNK_SHIFT <= order - order % XA_CHUNK_SHIFT) {
		WARN_ON_ONCE(1);
		xas_set_err(xas, -EINVAL);
		return;
	}
	if (xas->xa_shift == order - order % XA_CHUNK_SHIFT)
		return;
	for (n = 0; n < nodes; n++) {
		struct xa_node *node = alloc_node(gfp_of(xas, gfp));

		if (!node) {
			xas_destroy(xas);
			xas_set_err(xas, -ENOMEM);
			return;
		}
		node->parent = xas->xa_alloc;
		xas->xa_alloc = node;
	}
}
EXPORT_SYMBOL_GPL(xas_split_alloc);

// xas_split makes several entries of one of an order: their size is in xas.
void xas_split(struct xa_state *xas, void *entry, unsigned int order)
{
	unsigned int first, at, end;
	struct xa_node *node;
	bool marks[XA_MAX_MARKS];
	xa_mark_t mark;

	xas_reset(xas);
	xas_load(xas);
	node = xas->xa_node;
	if (!at_node(xas) || node->shift < xas->xa_shift)
		return;
	first = xas->xa_offset;
	end = min(first + (1U << order % XA_CHUNK_SHIFT) - 1, (unsigned int)XA_CHUNK_MASK);
	for (mark = 0; mark < XA_MAX_MARKS; mark++)
		marks[mark] = bit_of(node, first, mark);
	if (node->shift == xas->xa_shift) {
		spread(xas, node, first, end, entry, marks);
		return;
	}
	for (at = first; at <= end; at++) {
		struct xa_node *below = new_node(xas, node->shift - XA_CHUNK_SHIFT);

		if (!below)
			return;
		below->parent = node;
		below->offset = at;
		below->count = XA_CHUNK_SIZE;
		below->nr_values = xa_is_value(entry) ? XA_CHUNK_SIZE : 0;
		spread(xas, below, 0, XA_CHUNK_MASK, entry, marks);
		node->nr_values -= xa_is_value(entry);
		for (mark = 0; mark < XA_MAX_MARKS; mark++)
			if (marks[mark])
				__set_bit(at, node->marks[mark]);
		rcu_assign_pointer(node->slots[at], xa_mk_node(below));
		xas->xa_node = below;
		xas->xa_offset = 0;
	}
}
EXPORT_SYMBOL_GPL(xas_split);

// Going on.

// step goes to the next slot that is no sibling, in this node or above it.
static bool step(struct xa_state *xas)
{
	struct xa_node *node = xas->xa_node;
	unsigned int offset = xas->xa_offset;

	for (; node; offset = node->offset, node = READ_ONCE(node->parent)) {
		while (++offset < XA_CHUNK_SIZE && xa_is_sibling(READ_ONCE(node->slots[offset])))
			;
		if (offset >= XA_CHUNK_SIZE)
			continue;
		xas->xa_node = node;
		xas->xa_offset = offset;
		xas->xa_index = xa_slot_index(node, offset);
		return true;
	}
	return past_end(xas);
}

// xas_find returns the next entry up to index max: at the position itself if there was
// no step yet.
void *xas_find(struct xa_state *xas, unsigned long max)
{
	void *entry;

	if (xas_error(xas) || xas->xa_node == XAS_BOUNDS)
		return NULL;
	if (xas->xa_index > max)
		return past_end(xas);
	if (xas->xa_node == XAS_RESTART) {
		entry = xas_load(xas);
		if (entry || !at_node(xas))
			return entry;
	}
	if (!xas->xa_node) {
		xas->xa_index = 1;
		return past_end(xas);
	}
	while (step(xas)) {
		if (xas->xa_index > max)
			return past_end(xas);
		entry = READ_ONCE(xas->xa_node->slots[xas->xa_offset]);
		while (xa_is_node(entry))
			entry = place(xas, xa_to_node(entry), 0);
		if (entry)
			return entry;
	}
	return NULL;
}
EXPORT_SYMBOL_GPL(xas_find);

// no_mark ends a search for a mark at xa_index: it can be stored to if the array ends
// there. If nothing is found up to max, the position is none.
static void *no_mark(struct xa_state *xas, unsigned long max)
{
	xas->xa_node = xas->xa_index > max ? XAS_RESTART : XAS_BOUNDS;
	return NULL;
}

// scan looks for a mark from a slot of node on.
static void *scan(struct xa_state *xas, struct xa_node *node, unsigned int offset, unsigned long max, xa_mark_t mark)
{
	void *entry;

	while (node) {
		offset = find_next_bit(node->marks[mark], XA_CHUNK_SIZE, offset);
		if (offset >= XA_CHUNK_SIZE) {
			xas->xa_index = xa_slot_index(node, XA_CHUNK_MASK) + (1UL << node->shift);
			offset = node->offset + 1;
			node = READ_ONCE(node->parent);
			continue;
		}
		if (xa_slot_index(node, offset) > xas->xa_index)
			xas->xa_index = xa_slot_index(node, offset);
		if (xas->xa_index > max)
			break;
		entry = place(xas, node, offset);
		if (xa_is_node(entry)) {
			node = xa_to_node(entry);
			offset = offset_in(node, xas->xa_index);
			if (xa_is_sibling(READ_ONCE(node->slots[offset])))
				offset = xa_to_sibling(node->slots[offset]);
		} else if (entry || (xa_track_free(xas->xa) && mark == XA_FREE_MARK)) {
			return entry;
		} else {
			offset++;
		}
	}
	return no_mark(xas, max);
}

// xas_find_marked is xas_find for entries with a mark. With XA_FREE_MARK, it finds where
// there is no entry. If there is nothing and the array ends before max, the position is
// where it ends.
void *xas_find_marked(struct xa_state *xas, unsigned long max, xa_mark_t mark)
{
	unsigned int offset;
	void *head;

	if (xas_error(xas))
		return NULL;
	if (xas->xa_index > max)
		return no_mark(xas, max);
	if (!xas->xa_node) {
		xas->xa_index = 1;
		return no_mark(xas, max);
	}
	if (at_node(xas)) {
		offset = xas->xa_offset + 1;
		while (offset < XA_CHUNK_SIZE && xa_is_sibling(READ_ONCE(xas->xa_node->slots[offset])))
			offset++;
		return scan(xas, xas->xa_node, offset, max, mark);
	}
	head = xa_head(xas->xa);
	if (xas->xa_index > last_of(head))
		return no_mark(xas, max);
	if (!xa_is_node(head)) {
		xas->xa_node = NULL;
		if (xa_marked(xas->xa, mark))
			return head;
		xas->xa_index = 1;
		return no_mark(xas, max);
	}
	place(xas, xa_to_node(head), offset_in(xa_to_node(head), xas->xa_index));
	return scan(xas, xas->xa_node, xas->xa_offset, max, mark);
}
EXPORT_SYMBOL_GPL(xas_find_marked);

// xas_find_conflict returns the next entry in the range that xas describes.
void *xas_find_conflict(struct xa_state *xas)
{
	unsigned long span = ((unsigned long)xas->xa_sibs + 1) << xas->xa_shift;
	struct xa_state at = __XA_STATE(xas->xa, xas->xa_index, 0, 0);
	void *entry;

	if (xas_error(xas) || !xas->xa_node)
		return NULL;
	if (at_node(xas)) {
		at.xa_node = xas->xa_node;
		at.xa_offset = xas->xa_offset;
		at.xa_index = xa_slot_index(xas->xa_node, xas->xa_offset);
	}
	entry = xas_find(&at, (xas->xa_index & ~(span - 1)) + span - 1);
	if (entry) {
		xas->xa_node = at.xa_node;
		xas->xa_offset = at.xa_offset;
	}
	return entry;
}
EXPORT_SYMBOL_GPL(xas_find_conflict);

// xas_pause makes the next step start behind the entry of the position, so that the lock
// can be dropped.
void xas_pause(struct xa_state *xas)
{
	struct xa_node *node = xas->xa_node;
	unsigned int offset = xas->xa_offset;

	if (xas_invalid(xas))
		return;
	xas->xa_node = XAS_RESTART;
	if (!node) {
		xas->xa_index++;
		return;
	}
	while (++offset < XA_CHUNK_SIZE && xa_is_sibling(node->slots[offset]))
		;
	xas->xa_index = xa_slot_index(node, offset - 1) + (1UL << node->shift);
	if (!xas->xa_index)
		xas->xa_node = XAS_BOUNDS;
}
EXPORT_SYMBOL_GPL(xas_pause);

// move_by loads the entry beside the position; the one at the position if there was no step.
static void *move_by(struct xa_state *xas, long by)
{
	if (xas_error(xas))
		return NULL;
	if (xas->xa_node != XAS_RESTART)
		xas->xa_index += by;
	xas->xa_node = XAS_RESTART;
	return xas_load(xas);
}

void *__xas_next(struct xa_state *xas)
{
	return move_by(xas, 1);
}
EXPORT_SYMBOL_GPL(__xas_next);

void *__xas_prev(struct xa_state *xas)
{
	return move_by(xas, -1);
}
EXPORT_SYMBOL_GPL(__xas_prev);

// The simple calls.

static void *result(const struct xa_state *xas, void *entry)
{
	if (xas_error(xas))
		return xas->xa_node;
	return xa_is_zero(entry) ? NULL : entry;
}

void *xa_load(struct xarray *xa, unsigned long index)
{
	XA_STATE(xas, xa, index);
	void *entry;

	rcu_read_lock();
	do {
		entry = xas_load(&xas);
	} while (xa_is_retry(entry) && xas_retry(&xas, entry));
	rcu_read_unlock();
	return xa_is_zero(entry) ? NULL : entry;
}
EXPORT_SYMBOL(xa_load);

void *__xa_erase(struct xarray *xa, unsigned long index)
{
	XA_STATE(xas, xa, index);

	return result(&xas, xas_store(&xas, NULL));
}
EXPORT_SYMBOL(__xa_erase);

void *xa_erase(struct xarray *xa, unsigned long index)
{
	void *entry;

	xa_lock(xa);
	entry = __xa_erase(xa, index);
	xa_unlock(xa);
	return entry;
}
EXPORT_SYMBOL(xa_erase);

// __xa_store stores entry and returns the old one, or an error (xa_err). NULL keeps its
// place in an array that allocates.
void *__xa_store(struct xarray *xa, unsigned long index, void *entry, gfp_t gfp)
{
	XA_STATE(xas, xa, index);
	void *old;

	if (WARN_ON_ONCE(xa_is_advanced(entry)))
		return XA_ERROR(-EINVAL);
	if (xa_track_free(xa) && !entry)
		entry = XA_ZERO_ENTRY;
	do {
		old = xas_store(&xas, entry);
	} while (nomem(&xas, gfp));
	return result(&xas, old);
}
EXPORT_SYMBOL(__xa_store);

void *xa_store(struct xarray *xa, unsigned long index, void *entry, gfp_t gfp)
{
	void *old;

	xa_lock(xa);
	old = __xa_store(xa, index, entry, gfp);
	xa_unlock(xa);
	return old;
}
EXPORT_SYMBOL(xa_store);

void *__xa_cmpxchg(struct xarray *xa, unsigned long index, void *old, void *entry, gfp_t gfp)
{
	XA_STATE(xas, xa, index);
	void *is;

	if (WARN_ON_ONCE(xa_is_advanced(entry)))
		return XA_ERROR(-EINVAL);
	do {
		is = xas_load(&xas);
		if (is == old)
			xas_store(&xas, entry);
	} while (nomem(&xas, gfp));
	return result(&xas, is);
}
EXPORT_SYMBOL(__xa_cmpxchg);

int __xa_insert(struct xarray *xa, unsigned long index, void *entry, gfp_t gfp)
{
	XA_STATE(xas, xa, index);

	if (WARN_ON_ONCE(xa_is_advanced(entry)))
		return -EINVAL;
	if (!entry)
		entry = XA_ZERO_ENTRY;
	do {
		if (xas_load(&xas))
			xas_set_err(&xas, -EBUSY);
		else
			xas_store(&xas, entry);
	} while (nomem(&xas, gfp));
	return xas_error(&xas);
}
EXPORT_SYMBOL(__xa_insert);

// piece sets xas to the largest range that begins at first, ends by last, and is in slots
// of one node. It returns how many indices that are, 0 for all.
static unsigned long piece(struct xa_state *xas, unsigned long first, unsigned long last)
{
	unsigned int shift = 0;
	unsigned long slots, to_end;

	while (shift + XA_CHUNK_SHIFT < BITS_PER_LONG) {
		unsigned long rest = (XA_CHUNK_SIZE << shift) - 1;

		if (first & rest || last - first < rest)
			break;
		shift += XA_CHUNK_SHIFT;
	}
	slots = ((last - first) - ((1UL << shift) - 1)) >> shift;
	to_end = XA_CHUNK_MASK - (first >> shift & XA_CHUNK_MASK);
	xas_set(xas, first);
	xas->xa_shift = shift;
	xas->xa_sibs = min(slots, to_end);
	return ((unsigned long)xas->xa_sibs + 1) << shift;
}

// xa_store_range stores one entry at all indices from first to last.
void *xa_store_range(struct xarray *xa, unsigned long first, unsigned long last, void *entry, gfp_t gfp)
{
	XA_STATE(xas, xa, 0);

	if (WARN_ON_ONCE(xa_is_internal(entry)) || last < first)
		return XA_ERROR(-EINVAL);
	do {
		xas_lock(&xas);
		while (!xas_error(&xas)) {
			unsigned long span = piece(&xas, first, last);

			xas_store(&xas, entry);
			if (xas_error(&xas) || !span || last - first < span)
				break;
			first += span;
		}
		xas_unlock(&xas);
	} while (xas_nomem(&xas, gfp));
	return result(&xas, NULL);
}
EXPORT_SYMBOL(xa_store_range);

int xa_get_order(struct xarray *xa, unsigned long index)
{
	XA_STATE(xas, xa, index);
	int order = 0;

	rcu_read_lock();
	if (xas_load(&xas))
		order = xas_get_order(&xas);
	rcu_read_unlock();
	return order;
}
EXPORT_SYMBOL(xa_get_order);

// __xa_alloc stores entry at the first free index within limit, *id: -EBUSY, -ENOMEM.
int __xa_alloc(struct xarray *xa, u32 *id, void *entry, struct xa_limit limit, gfp_t gfp)
{
	XA_STATE(xas, xa, 0);

	if (WARN_ON_ONCE(xa_is_advanced(entry)) || WARN_ON_ONCE(!xa_track_free(xa)))
		return -EINVAL;
	if (!entry)
		entry = XA_ZERO_ENTRY;
	do {
		xas.xa_index = limit.min;
		xas_find_marked(&xas, limit.max, XA_FREE_MARK);
		if (xas.xa_node == XAS_RESTART)
			xas_set_err(&xas, -EBUSY);
		else
			*id = xas.xa_index;
		xas_store(&xas, entry);
	} while (nomem(&xas, gfp));
	return xas_error(&xas);
}
EXPORT_SYMBOL(__xa_alloc);

// __xa_alloc_cyclic starts at *next, and returns 1 when it has begun anew.
int __xa_alloc_cyclic(struct xarray *xa, u32 *id, void *entry, struct xa_limit limit, u32 *next, gfp_t gfp)
{
	struct xa_limit rest = XA_LIMIT(max(limit.min, *next), limit.max);
	int ret = __xa_alloc(xa, id, entry, rest, gfp);

	if (!ret && xa->xa_flags & XA_FLAGS_ALLOC_WRAPPED) {
		xa->xa_flags &= ~XA_FLAGS_ALLOC_WRAPPED;
		ret = 1;
	}
	if (ret < 0 && rest.min > limit.min) {
		ret = __xa_alloc(xa, id, entry, limit, gfp);
		if (!ret)
			ret = 1;
	}
	if (ret >= 0) {
		*next = *id + 1;
		if (!*next)
			xa->xa_flags |= XA_FLAGS_ALLOC_WRAPPED;
	}
	return ret;
}
EXPORT_SYMBOL(__xa_alloc_cyclic);

bool xa_get_mark(struct xarray *xa, unsigned long index, xa_mark_t mark)
{
	XA_STATE(xas, xa, index);
	bool has;

	rcu_read_lock();
	xas_load(&xas);
	has = xas_get_mark(&xas, mark);
	rcu_read_unlock();
	return has;
}
EXPORT_SYMBOL(xa_get_mark);

noinline void __xa_set_mark(struct xarray *xa, unsigned long index, xa_mark_t mark)
{
	XA_STATE(xas, xa, index);

	if (xas_load(&xas))
		xas_set_mark(&xas, mark);
}
EXPORT_SYMBOL(__xa_set_mark);

noinline void __xa_clear_mark(struct xarray *xa, unsigned long index, xa_mark_t mark)
{
	XA_STATE(xas, xa, index);

	if (xas_load(&xas))
		xas_clear_mark(&xas, mark);
}
EXPORT_SYMBOL(__xa_clear_mark);

void xa_set_mark(struct xarray *xa, unsigned long index, xa_mark_t mark)
{
	xa_lock(xa);
	__xa_set_mark(xa, index, mark);
	xa_unlock(xa);
}
EXPORT_SYMBOL(xa_set_mark);

void xa_clear_mark(struct xarray *xa, unsigned long index, xa_mark_t mark)
{
	xa_lock(xa);
	__xa_clear_mark(xa, index, mark);
	xa_unlock(xa);
}
EXPORT_SYMBOL(xa_clear_mark);

// next_of returns the next entry that filter, a mark or XA_PRESENT, wants.
static void *next_of(struct xa_state *xas, unsigned long max, xa_mark_t filter)
{
	void *entry;

	do {
		entry = filter < XA_MAX_MARKS ? xas_find_marked(xas, max, filter) : xas_find(xas, max);
	} while (xas_retry(xas, entry));
	return entry;
}

// xa_find returns the first entry from *index to max, and its index.
void *xa_find(struct xarray *xa, unsigned long *index, unsigned long max, xa_mark_t filter)
{
	XA_STATE(xas, xa, *index);
	void *entry;

	rcu_read_lock();
	entry = next_of(&xas, max, filter);
	rcu_read_unlock();
	if (entry)
		*index = xas.xa_index;
	return entry;
}
EXPORT_SYMBOL(xa_find);

// xa_find_after is xa_find behind the entry of *index.
void *xa_find_after(struct xarray *xa, unsigned long *index, unsigned long max, xa_mark_t filter)
{
	XA_STATE(xas, xa, *index + 1);
	void *entry;

	if (!xas.xa_index)
		return NULL;
	rcu_read_lock();
	do {
		entry = next_of(&xas, max, filter);
	} while (entry && at_node(&xas) && xa_slot_index(xas.xa_node, xas.xa_offset) <= *index);
	rcu_read_unlock();
	if (entry)
		*index = xas.xa_index;
	return entry;
}
EXPORT_SYMBOL(xa_find_after);

// xa_extract copies up to n entries from start to max to dst.
unsigned int xa_extract(struct xarray *xa, void **dst, unsigned long start, unsigned long max, unsigned int n,
			xa_mark_t filter)
{
	XA_STATE(xas, xa, start);
	unsigned int i;

	rcu_read_lock();
	for (i = 0; i < n; i++) {
		dst[i] = next_of(&xas, max, filter);
		if (!dst[i])
			break;
	}
	rcu_read_unlock();
	return i;
}
EXPORT_SYMBOL(xa_extract);

// xa_delete_node takes a node and what is below it out of its array.
void xa_delete_node(struct xa_node *node, xa_update_node_t update)
{
	struct xa_state xas = {
		.xa = node->array,
		.xa_index = (unsigned long)node->offset << (node->shift + XA_CHUNK_SHIFT),
		.xa_shift = node->shift + XA_CHUNK_SHIFT,
		.xa_offset = node->offset,
		.xa_node = node->parent,
		.xa_update = update,
	};

	xas_put(&xas, NULL, false);
}
EXPORT_SYMBOL_GPL(xa_delete_node);

void xa_destroy(struct xarray *xa)
{
	XA_STATE(xas, xa, 0);
	unsigned long flags;

	xa_lock_irqsave(xa, flags);
	xas.xa_node = NULL;
	put_head(&xas, NULL, false);
	xa_unlock_irqrestore(xa, flags);
}
EXPORT_SYMBOL(xa_destroy);
