// Allocating small numbers: the IDR for pointers, over a radix tree, and the IDA without
// any, over an XArray of bitmaps.
#include "xarray.h"
#include <linux/idr.h>
#include <linux/kernel.h>
#include <linux/slab.h>
#include <linux/find.h>
#include <linux/export.h>

// idr_alloc_u32 allocates the lowest free number from *nextid to max for ptr, and stores
// it in *nextid before ptr can be found: -ENOSPC, -ENOMEM.
int idr_alloc_u32(struct idr *idr, void *ptr, u32 *nextid, unsigned long max, gfp_t gfp)
{
	unsigned int base = idr->idr_base;
	u32 start = *nextid < base ? 0 : *nextid - base;
	XA_STATE(xas, &idr->idr_rt, 0);

	if (WARN_ON_ONCE(!xa_track_free(&idr->idr_rt)))
		idr->idr_rt.xa_flags |= IDR_RT_MARKER;
	do {
		xas.xa_index = start;
		xas_find_marked(&xas, max - base, XA_FREE_MARK);
		if (xas.xa_node == XAS_RESTART)
			return -ENOSPC;
		xas_make_path(&xas, true);
		if (xas_error(&xas))
			continue;
		*nextid = xas.xa_index + base;
		xas_put(&xas, ptr, true);
	} while (xas_nomem(&xas, gfp));
	return xas_error(&xas);
}
EXPORT_SYMBOL_GPL(idr_alloc_u32);

// idr_alloc returns the lowest free number in [start, end), where end 0 means
// INT_MAX, or -ENOSPC, -ENOMEM, -EINVAL.
int idr_alloc(struct idr *idr, void *ptr, int start, int end, gfp_t gfp)
{
	u32 id = start;
	int err;

	if (WARN_ON_ONCE(start < 0))
		return -EINVAL;
	err = idr_alloc_u32(idr, ptr, &id, end > 0 ? end - 1 : INT_MAX, gfp);
	return err ? err : (int)id;
}
EXPORT_SYMBOL_GPL(idr_alloc);

// idr_alloc_cyclic continues after the number allocated last, and wraps around at the
// end.
int idr_alloc_cyclic(struct idr *idr, void *ptr, int start, int end, gfp_t gfp)
{
	int last = end > 0 ? end - 1 : INT_MAX;
	u32 id = (int)idr->idr_next < start ? start : idr->idr_next;
	bool later = (int)id > start;
	int err = idr_alloc_u32(idr, ptr, &id, last, gfp);

	if (err == -ENOSPC && later) {
		id = start;
		err = idr_alloc_u32(idr, ptr, &id, last, gfp);
	}
	if (err)
		return err;
	idr->idr_next = id + 1;
	return id;
}
EXPORT_SYMBOL(idr_alloc_cyclic);

void *idr_find(const struct idr *idr, unsigned long id)
{
	return radix_tree_lookup(&idr->idr_rt, id - idr->idr_base);
}
EXPORT_SYMBOL_GPL(idr_find);

void *idr_remove(struct idr *idr, unsigned long id)
{
	return radix_tree_delete(&idr->idr_rt, id - idr->idr_base);
}
EXPORT_SYMBOL_GPL(idr_remove);

// idr_replace returns the old pointer, or ERR_PTR(-ENOENT).
void *idr_replace(struct idr *idr, void *ptr, unsigned long id)
{
	XA_STATE(xas, &idr->idr_rt, id - idr->idr_base);
	void *old = xas_load(&xas);

	if (xas_invalid(&xas) || xas_get_mark(&xas, XA_FREE_MARK) || (xas.xa_node && xas.xa_node->shift))
		return ERR_PTR(-ENOENT);
	xas_put(&xas, ptr, true);
	return old;
}
EXPORT_SYMBOL(idr_replace);

// idr_get_next_ul returns the first pointer at *nextid or above, and its number.
void *idr_get_next_ul(struct idr *idr, unsigned long *nextid)
{
	unsigned long base = idr->idr_base;
	XA_STATE(xas, &idr->idr_rt, *nextid < base ? 0 : *nextid - base);
	void *p;

	do {
		p = xas_find(&xas, ULONG_MAX);
	} while (xas_retry(&xas, p));
	if (p)
		*nextid = xas.xa_index + base;
	return p;
}
EXPORT_SYMBOL(idr_get_next_ul);

void *idr_get_next(struct idr *idr, int *nextid)
{
	unsigned long id = *nextid;
	void *p = idr_get_next_ul(idr, &id);

	if (WARN_ON_ONCE(id > INT_MAX))
		return NULL;
	*nextid = id;
	return p;
}
EXPORT_SYMBOL(idr_get_next);

// idr_for_each calls fn for all in order, until it returns nonzero.
int idr_for_each(const struct idr *idr, int (*fn)(int id, void *p, void *data), void *data)
{
	unsigned long id = idr->idr_base;
	void *p;
	int ret;

	for (; (p = idr_get_next_ul((struct idr *)idr, &id)); id++) {
		if (WARN_ON_ONCE(id > INT_MAX))
			break;
		ret = fn(id, p, data);
		if (ret)
			return ret;
	}
	return 0;
}
EXPORT_SYMBOL(idr_for_each);

// idr_destroy forgets all numbers. What their pointers point to stays.
void idr_destroy(struct idr *idr)
{
	XA_STATE(xas, &idr->idr_rt, 0);

	xas_reset(&xas);
	xas.xa_node = NULL;
	xas_put(&xas, NULL, false);
}
EXPORT_SYMBOL(idr_destroy);

// ida_take allocates the first number of the bitmap at the position that is at least min:
// -ENOSPC if it is beyond max.
static long ida_take(struct xa_state *xas, struct ida_bitmap *b, unsigned long min, unsigned long max)
{
	unsigned long base = xas->xa_index * IDA_BITMAP_BITS;
	unsigned long bit = find_next_zero_bit(b->bitmap, IDA_BITMAP_BITS, min > base ? min - base : 0);

	if (bit < IDA_BITMAP_BITS && base + bit > max)
		return -ENOSPC;
	if (bit >= IDA_BITMAP_BITS)
		return -EAGAIN;
	__set_bit(bit, b->bitmap);
	if (find_first_zero_bit(b->bitmap, IDA_BITMAP_BITS) >= IDA_BITMAP_BITS)
		xas_clear_mark(xas, XA_FREE_MARK);
	return base + bit;
}

// ida_try allocates a number. spare is a bitmap to use for the next 1024 of them, if that
// is what it takes: -EAGAIN without it.
static long ida_try(struct xa_state *xas, struct ida_bitmap **spare, unsigned long min, unsigned long max)
{
	struct ida_bitmap *b;
	long id;

	xas_set(xas, min / IDA_BITMAP_BITS);
	for (;;) {
		b = xas_find_marked(xas, max / IDA_BITMAP_BITS, XA_FREE_MARK);
		if (xas->xa_node == XAS_RESTART)
			return -ENOSPC;
		if (b) {
			id = ida_take(xas, b, min, max);
			if (id != -EAGAIN)
				return id;
			xas_set(xas, xas->xa_index + 1);
			continue;
		}
		if (!*spare)
			return -EAGAIN;
		xas_store(xas, *spare);
		if (xas_error(xas))
			return xas_error(xas);
		xas_set_mark(xas, XA_FREE_MARK);
		b = *spare;
		*spare = NULL;
		return ida_take(xas, b, min, max);
	}
}

// ida_alloc_range allocates the lowest free number from min to max: -ENOSPC, -ENOMEM.
int ida_alloc_range(struct ida *ida, unsigned int min, unsigned int max, gfp_t gfp)
{
	struct ida_bitmap *spare = NULL;
	XA_STATE(xas, &ida->xa, 0);
	unsigned long flags;
	long id;

	if ((int)min < 0)
		return -ENOSPC;
	if ((int)max < 0)
		max = INT_MAX;
	for (;;) {
		xas_lock_irqsave(&xas, flags);
		id = ida_try(&xas, &spare, min, max);
		xas_unlock_irqrestore(&xas, flags);
		if (id == -EAGAIN) {
			spare = kzalloc(sizeof(*spare), gfp);
			if (!spare)
				return -ENOMEM;
		} else if (id != -ENOMEM || !xas_nomem(&xas, gfp)) {
			break;
		}
	}
	xas_destroy(&xas);
	kfree(spare);
	return id;
}
EXPORT_SYMBOL(ida_alloc_range);

void ida_free(struct ida *ida, unsigned int id)
{
	XA_STATE(xas, &ida->xa, id / IDA_BITMAP_BITS);
	struct ida_bitmap *b, *empty = NULL;
	unsigned long flags;
	bool had;

	if ((int)id < 0)
		return;
	xas_lock_irqsave(&xas, flags);
	b = xas_load(&xas);
	had = b && __test_and_clear_bit(id % IDA_BITMAP_BITS, b->bitmap);
	if (had && find_first_bit(b->bitmap, IDA_BITMAP_BITS) >= IDA_BITMAP_BITS) {
		empty = b;
		xas_store(&xas, NULL);
	} else if (had) {
		xas_set_mark(&xas, XA_FREE_MARK);
	}
	xas_unlock_irqrestore(&xas, flags);
	WARN(!had, "ida_free called for id=%d which is not allocated.\n", id);
	kfree(empty);
}
EXPORT_SYMBOL(ida_free);

// ida_destroy frees all numbers.
void ida_destroy(struct ida *ida)
{
	XA_STATE(xas, &ida->xa, 0);
	struct ida_bitmap *b;
	unsigned long flags;

	xas_lock_irqsave(&xas, flags);
	xas_for_each(&xas, b, ULONG_MAX)
		kfree(b);
	xas_reset(&xas);
	xas.xa_node = NULL;
	xas_put(&xas, NULL, false);
	xas_unlock_irqrestore(&xas, flags);
}
EXPORT_SYMBOL(ida_destroy);
