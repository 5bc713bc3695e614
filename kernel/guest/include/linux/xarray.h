/* xarray.h: sparse arrays of pointers and integers, with marks. */
#ifndef _LINUX_XARRAY_H
#define _LINUX_XARRAY_H
#include <linux/types.h>
#include <linux/gfp.h>
#include <linux/bug.h>
#include <linux/err.h>
#include <linux/rcupdate.h>
#include <linux/spinlock.h>
#include <linux/list.h>

/*
 * An entry is NULL, a pointer (lowest bits 00), a value (x1), or internal (10): an error,
 * a node, a sibling (0 to 62: the slot that has the entry of more than one index), the
 * retry entry (256) or the zero entry (257, which users see as NULL).
 */
#define BITS_PER_XA_VALUE (BITS_PER_LONG - 1)
static inline void *xa_mk_value(unsigned long v) { WARN_ON((long)v < 0); return (void *)(v << 1 | 1); }
static inline unsigned long xa_to_value(const void *entry) { return (unsigned long)entry >> 1; }
static inline bool xa_is_value(const void *entry) { return (unsigned long)entry & 1; }
static inline void *xa_tag_pointer(void *p, unsigned long tag) { return (void *)((unsigned long)p | tag); }
static inline void *xa_untag_pointer(void *entry) { return (void *)((unsigned long)entry & ~3UL); }
static inline unsigned int xa_pointer_tag(void *entry) { return (unsigned long)entry & 3; }
static inline void *xa_mk_internal(unsigned long v) { return (void *)(v << 2 | 2); }
static inline unsigned long xa_to_internal(const void *entry) { return (unsigned long)entry >> 2; }
static inline bool xa_is_internal(const void *entry) { return ((unsigned long)entry & 3) == 2; }
#define XA_ZERO_ENTRY xa_mk_internal(257)
#define XA_RETRY_ENTRY xa_mk_internal(256)
static inline bool xa_is_zero(const void *entry) { return entry == XA_ZERO_ENTRY; }
static inline bool xa_is_retry(const void *entry) { return entry == XA_RETRY_ENTRY; }
static inline bool xa_is_err(const void *entry)
{ return xa_is_internal(entry) && (unsigned long)entry >= (unsigned long)xa_mk_internal(-MAX_ERRNO); }
static inline int xa_err(void *entry) { return xa_is_err(entry) ? (long)entry >> 2 : 0; }
static inline bool xa_is_advanced(const void *entry)
{ return xa_is_internal(entry) && (unsigned long)entry <= (unsigned long)XA_RETRY_ENTRY; }

struct xa_limit { u32 max, min; };
#define XA_LIMIT(_min, _max) (struct xa_limit) { .min = _min, .max = _max }
#define xa_limit_32b XA_LIMIT(0, UINT_MAX)
#define xa_limit_31b XA_LIMIT(0, INT_MAX)
#define xa_limit_16b XA_LIMIT(0, 65535)

typedef unsigned int xa_mark_t;
#define XA_MARK_0 0U
#define XA_MARK_1 1U
#define XA_MARK_2 2U
#define XA_PRESENT 8U
#define XA_MARK_MAX XA_MARK_2
#define XA_FREE_MARK XA_MARK_0

enum { XA_LOCK_IRQ = 1, XA_LOCK_BH = 2 };
#define XA_FLAGS_LOCK_IRQ 1U
#define XA_FLAGS_LOCK_BH 2U
#define XA_FLAGS_TRACK_FREE 4U
#define XA_FLAGS_ZERO_BUSY 8U
#define XA_FLAGS_ALLOC_WRAPPED 16U
#define XA_FLAGS_ACCOUNT 32U
#define __GFP_BITS_SHIFT 27
#define XA_FLAGS_MARK(mark) (1U << __GFP_BITS_SHIFT << (mark))
#define XA_FLAGS_ALLOC (XA_FLAGS_TRACK_FREE | XA_FLAGS_MARK(XA_FREE_MARK))
#define XA_FLAGS_ALLOC1 (XA_FLAGS_TRACK_FREE | XA_FLAGS_ZERO_BUSY)

struct xarray {
	spinlock_t xa_lock;
	gfp_t xa_flags; /* XA_FLAGS, and which marks any entry has */
	void *xa_head;
};
#define XARRAY_INIT(name, flags) { .xa_lock = __SPIN_LOCK_UNLOCKED(name), .xa_flags = flags, .xa_head = NULL }
#define DEFINE_XARRAY_FLAGS(name, flags) struct xarray name = XARRAY_INIT(name, flags)
#define DEFINE_XARRAY(name) DEFINE_XARRAY_FLAGS(name, 0)
#define DEFINE_XARRAY_ALLOC(name) DEFINE_XARRAY_FLAGS(name, XA_FLAGS_ALLOC)
#define DEFINE_XARRAY_ALLOC1(name) DEFINE_XARRAY_FLAGS(name, XA_FLAGS_ALLOC1)

void *xa_load(struct xarray *xa, unsigned long index);
void *xa_store(struct xarray *xa, unsigned long index, void *entry, gfp_t gfp);
void *xa_erase(struct xarray *xa, unsigned long index);
void *xa_store_range(struct xarray *xa, unsigned long first, unsigned long last, void *entry, gfp_t gfp);
bool xa_get_mark(struct xarray *xa, unsigned long index, xa_mark_t mark);
void xa_set_mark(struct xarray *xa, unsigned long index, xa_mark_t mark);
void xa_clear_mark(struct xarray *xa, unsigned long index, xa_mark_t mark);
void *xa_find(struct xarray *xa, unsigned long *index, unsigned long max, xa_mark_t filter);
void *xa_find_after(struct xarray *xa, unsigned long *index, unsigned long max, xa_mark_t filter);
unsigned int xa_extract(struct xarray *xa, void **dst, unsigned long start, unsigned long max, unsigned int n, xa_mark_t filter);
void xa_destroy(struct xarray *xa);
int xa_get_order(struct xarray *xa, unsigned long index);
void *__xa_erase(struct xarray *xa, unsigned long index);
void *__xa_store(struct xarray *xa, unsigned long index, void *entry, gfp_t gfp);
void *__xa_cmpxchg(struct xarray *xa, unsigned long index, void *old, void *entry, gfp_t gfp);
int __xa_insert(struct xarray *xa, unsigned long index, void *entry, gfp_t gfp);
int __xa_alloc(struct xarray *xa, u32 *id, void *entry, struct xa_limit limit, gfp_t gfp);
int __xa_alloc_cyclic(struct xarray *xa, u32 *id, void *entry, struct xa_limit limit, u32 *next, gfp_t gfp);
void __xa_set_mark(struct xarray *xa, unsigned long index, xa_mark_t mark);
void __xa_clear_mark(struct xarray *xa, unsigned long index, xa_mark_t mark);

static inline void xa_init_flags(struct xarray *xa, gfp_t flags)
{ spin_lock_init(&xa->xa_lock); xa->xa_flags = flags; xa->xa_head = NULL; }
static inline void xa_init(struct xarray *xa) { xa_init_flags(xa, 0); }
static inline bool xa_empty(const struct xarray *xa) { return !xa->xa_head; }
static inline bool xa_marked(const struct xarray *xa, xa_mark_t mark) { return xa->xa_flags & XA_FLAGS_MARK(mark); }

#define xa_trylock(xa) spin_trylock(&(xa)->xa_lock)
#define xa_lock(xa) spin_lock(&(xa)->xa_lock)
#define xa_unlock(xa) spin_unlock(&(xa)->xa_lock)
#define xa_lock_bh(xa) spin_lock_bh(&(xa)->xa_lock)
#define xa_unlock_bh(xa) spin_unlock_bh(&(xa)->xa_lock)
#define xa_lock_irq(xa) spin_lock_irq(&(xa)->xa_lock)
#define xa_unlock_irq(xa) spin_unlock_irq(&(xa)->xa_lock)
#define xa_lock_irqsave(xa, f) spin_lock_irqsave(&(xa)->xa_lock, f)
#define xa_unlock_irqrestore(xa, f) spin_unlock_irqrestore(&(xa)->xa_lock, f)

#define xa_for_each_range(xa, index, entry, start, last) \
	for (index = start, entry = xa_find(xa, &index, last, XA_PRESENT); entry; \
	     entry = xa_find_after(xa, &index, last, XA_PRESENT))
#define xa_for_each_start(xa, index, entry, start) xa_for_each_range(xa, index, entry, start, ULONG_MAX)
#define xa_for_each(xa, index, entry) xa_for_each_start(xa, index, entry, 0)
#define xa_for_each_marked(xa, index, entry, filter) \
	for (index = 0, entry = xa_find(xa, &index, ULONG_MAX, filter); entry; \
	     entry = xa_find_after(xa, &index, ULONG_MAX, filter))

/* The calls that take the lock: plain, with softirqs off, and with interrupts off. */
#define __XA_LOCKED(suffix) \
static inline void *xa_cmpxchg##suffix(struct xarray *xa, unsigned long index, void *old, void *entry, gfp_t gfp) \
{ void *curr; xa_lock##suffix(xa); curr = __xa_cmpxchg(xa, index, old, entry, gfp); xa_unlock##suffix(xa); return curr; } \
static inline int xa_insert##suffix(struct xarray *xa, unsigned long index, void *entry, gfp_t gfp) \
{ int err; xa_lock##suffix(xa); err = __xa_insert(xa, index, entry, gfp); xa_unlock##suffix(xa); return err; } \
static inline int xa_alloc##suffix(struct xarray *xa, u32 *id, void *entry, struct xa_limit limit, gfp_t gfp) \
{ int err; xa_lock##suffix(xa); err = __xa_alloc(xa, id, entry, limit, gfp); xa_unlock##suffix(xa); return err; } \
static inline int xa_alloc_cyclic##suffix(struct xarray *xa, u32 *id, void *entry, struct xa_limit limit, u32 *next, gfp_t gfp) \
{ int err; xa_lock##suffix(xa); err = __xa_alloc_cyclic(xa, id, entry, limit, next, gfp); xa_unlock##suffix(xa); return err; } \
static inline int xa_reserve##suffix(struct xarray *xa, unsigned long index, gfp_t gfp) \
{ return xa_err(xa_cmpxchg##suffix(xa, index, NULL, XA_ZERO_ENTRY, gfp)); }
__XA_LOCKED()
__XA_LOCKED(_bh)
__XA_LOCKED(_irq)
#undef __XA_LOCKED
#define __XA_STORES(suffix) \
static inline void *xa_store##suffix(struct xarray *xa, unsigned long index, void *entry, gfp_t gfp) \
{ void *curr; xa_lock##suffix(xa); curr = __xa_store(xa, index, entry, gfp); xa_unlock##suffix(xa); return curr; } \
static inline void *xa_erase##suffix(struct xarray *xa, unsigned long index) \
{ void *entry; xa_lock##suffix(xa); entry = __xa_erase(xa, index); xa_unlock##suffix(xa); return entry; }
__XA_STORES(_bh)
__XA_STORES(_irq)
#undef __XA_STORES
static inline void xa_release(struct xarray *xa, unsigned long index) { xa_cmpxchg(xa, index, XA_ZERO_ENTRY, NULL, 0); }

#define XA_CHUNK_SHIFT 6
#define XA_CHUNK_SIZE (1UL << XA_CHUNK_SHIFT)
#define XA_CHUNK_MASK (XA_CHUNK_SIZE - 1)
#define XA_MAX_MARKS 3
#define XA_MARK_LONGS 1

struct xa_node {
	unsigned char shift;     /* of the index, for the slot's number */
	unsigned char offset;    /* the slot of parent */
	unsigned char count;     /* slots in use */
	unsigned char nr_values; /* of these, values */
	struct xa_node *parent;
	struct xarray *array;
	union {
		struct list_head private_list;
		struct rcu_head rcu_head;
	};
	void *slots[XA_CHUNK_SIZE];
	union {
		unsigned long tags[XA_MAX_MARKS][XA_MARK_LONGS];
		unsigned long marks[XA_MAX_MARKS][XA_MARK_LONGS];
	};
};

static inline void *xa_head(const struct xarray *xa) { return READ_ONCE(xa->xa_head); }
static inline void *xa_entry(const struct xarray *xa, const struct xa_node *node, unsigned int offset)
{ return READ_ONCE(node->slots[offset]); }
static inline void *xa_mk_node(const struct xa_node *node) { return (void *)((unsigned long)node | 2); }
static inline struct xa_node *xa_to_node(const void *entry) { return (struct xa_node *)((unsigned long)entry - 2); }
static inline bool xa_is_node(const void *entry) { return xa_is_internal(entry) && (unsigned long)entry > 4096; }
static inline void *xa_mk_sibling(unsigned int offset) { return xa_mk_internal(offset); }
static inline unsigned long xa_to_sibling(const void *entry) { return xa_to_internal(entry); }
static inline bool xa_is_sibling(const void *entry)
{ return xa_is_internal(entry) && entry < xa_mk_sibling(XA_CHUNK_SIZE - 1); }

typedef void (*xa_update_node_t)(struct xa_node *node);
struct list_lru;
void xa_delete_node(struct xa_node *node, xa_update_node_t update);

/* A position in an array, and what is stored there: xa_shift and xa_sibs say how much. */
struct xa_state {
	struct xarray *xa;
	unsigned long xa_index;
	unsigned char xa_shift;
	unsigned char xa_sibs;
	unsigned char xa_offset;
	unsigned char xa_pad;
	struct xa_node *xa_node;
	struct xa_node *xa_alloc;
	xa_update_node_t xa_update;
	struct list_lru *xa_lru;
};
/* In xa_node: an error, past the end, and before the first step. */
#define XA_ERROR(errno) ((struct xa_node *)((unsigned long)(errno) << 2 | 2UL))
#define XAS_BOUNDS ((struct xa_node *)1UL)
#define XAS_RESTART ((struct xa_node *)3UL)
#define __XA_STATE(array, index, shift, sibs) { .xa = array, .xa_index = index, .xa_shift = shift, .xa_sibs = sibs, .xa_node = XAS_RESTART }
#define XA_STATE(name, array, index) struct xa_state name = __XA_STATE(array, index, 0, 0)
#define XA_STATE_ORDER(name, array, index, order) \
	struct xa_state name = __XA_STATE(array, ((index) >> (order)) << (order), (order) - (order) % XA_CHUNK_SHIFT, (1U << ((order) % XA_CHUNK_SHIFT)) - 1)

#define xas_marked(xas, mark) xa_marked((xas)->xa, mark)
#define xas_trylock(xas) xa_trylock((xas)->xa)
#define xas_lock(xas) xa_lock((xas)->xa)
#define xas_unlock(xas) xa_unlock((xas)->xa)
#define xas_lock_bh(xas) xa_lock_bh((xas)->xa)
#define xas_unlock_bh(xas) xa_unlock_bh((xas)->xa)
#define xas_lock_irq(xas) xa_lock_irq((xas)->xa)
#define xas_unlock_irq(xas) xa_unlock_irq((xas)->xa)
#define xas_lock_irqsave(xas, f) xa_lock_irqsave((xas)->xa, f)
#define xas_unlock_irqrestore(xas, f) xa_unlock_irqrestore((xas)->xa, f)

static inline int xas_error(const struct xa_state *xas) { return xa_err(xas->xa_node); }
static inline void xas_set_err(struct xa_state *xas, long err) { xas->xa_node = XA_ERROR(err); }
static inline bool xas_invalid(const struct xa_state *xas) { return (unsigned long)xas->xa_node & 3; }
static inline bool xas_valid(const struct xa_state *xas) { return !xas_invalid(xas); }
static inline bool xas_is_node(const struct xa_state *xas) { return xas_valid(xas) && xas->xa_node; }
static inline void xas_reset(struct xa_state *xas) { xas->xa_node = XAS_RESTART; }
static inline void xas_set(struct xa_state *xas, unsigned long index) { xas->xa_index = index; xas->xa_node = XAS_RESTART; }
static inline void xas_set_order(struct xa_state *xas, unsigned long index, unsigned int order)
{
	xas->xa_index = order < BITS_PER_LONG ? (index >> order) << order : 0;
	xas->xa_shift = order - order % XA_CHUNK_SHIFT;
	xas->xa_sibs = (1 << (order % XA_CHUNK_SHIFT)) - 1;
	xas->xa_node = XAS_RESTART;
}
static inline void xas_set_update(struct xa_state *xas, xa_update_node_t update) { xas->xa_update = update; }
static inline bool xas_retry(struct xa_state *xas, const void *entry)
{
	if (xa_is_zero(entry))
		return true;
	if (!xa_is_retry(entry))
		return false;
	xas_reset(xas);
	return true;
}

void *xas_load(struct xa_state *xas);
void *xas_store(struct xa_state *xas, void *entry);
void *xas_find(struct xa_state *xas, unsigned long max);
void *xas_find_conflict(struct xa_state *xas);
bool xas_get_mark(const struct xa_state *xas, xa_mark_t mark);
void xas_set_mark(const struct xa_state *xas, xa_mark_t mark);
void xas_clear_mark(const struct xa_state *xas, xa_mark_t mark);
void *xas_find_marked(struct xa_state *xas, unsigned long max, xa_mark_t mark);
void xas_init_marks(const struct xa_state *xas);
bool xas_nomem(struct xa_state *xas, gfp_t gfp);
void xas_destroy(struct xa_state *xas);
void xas_pause(struct xa_state *xas);
void xas_create_range(struct xa_state *xas);
int xas_get_order(struct xa_state *xas);
void xas_split(struct xa_state *xas, void *entry, unsigned int order);
void xas_split_alloc(struct xa_state *xas, void *entry, unsigned int order, gfp_t gfp);
void *__xas_next(struct xa_state *xas);
void *__xas_prev(struct xa_state *xas);
#define xas_next(xas) __xas_next(xas)
#define xas_prev(xas) __xas_prev(xas)
#define xas_next_entry(xas, max) xas_find(xas, max)
#define xas_next_marked(xas, max, mark) xas_find_marked(xas, max, mark)
#define xas_for_each(xas, entry, max) \
	for (entry = xas_find(xas, max); entry; entry = xas_next_entry(xas, max))
#define xas_for_each_marked(xas, entry, max, mark) \
	for (entry = xas_find_marked(xas, max, mark); entry; entry = xas_next_marked(xas, max, mark))
#define xas_for_each_conflict(xas, entry) while ((entry = xas_find_conflict(xas)))
#endif
