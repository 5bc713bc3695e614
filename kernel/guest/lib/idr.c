// Allocating small numbers for pointers.
#include <linux/radix-tree.h>
#include <linux/slab.h>
#include <linux/errno.h>

void idr_init(struct idr *idr)
{
	radix_tree_init_root(&idr->idr_rt, GFP_ATOMIC);
	idr->idr_base = idr->idr_next = 0;
}

// idr_alloc returns the lowest free number in [start, end), where end 0 means
// INT_MAX, or -ENOSPC, -ENOMEM, -EINVAL.
int idr_alloc(struct idr *idr, void *ptr, int start, int end, gfp_t gfp)
{
	unsigned long limit = end > 0 ? (unsigned long)end : 0x80000000UL;
	long id;
	int err;

	if (start < 0 || !ptr)
		return -EINVAL;
	do {
		id = radix_tree_free_index(&idr->idr_rt, start, limit);
		if (id < 0)
			return id;
		err = radix_tree_insert(&idr->idr_rt, id, ptr);
	} while (err == -EEXIST);
	return err ? err : (int)id;
}

// idr_alloc_cyclic continues after the number allocated last, and wraps around at the
// end.
int idr_alloc_cyclic(struct idr *idr, void *ptr, int start, int end, gfp_t gfp)
{
	int from = idr->idr_next > (unsigned int)start ? (int)idr->idr_next : start;
	int id = idr_alloc(idr, ptr, from, end, gfp);

	if (id == -ENOSPC && from > start)
		id = idr_alloc(idr, ptr, start, end, gfp);
	if (id >= 0)
		idr->idr_next = id + 1;
	return id;
}

void *idr_find(const struct idr *idr, unsigned long id)
{
	return radix_tree_lookup(&idr->idr_rt, id);
}

void *idr_remove(struct idr *idr, unsigned long id)
{
	return radix_tree_delete(&idr->idr_rt, id);
}

// idr_replace returns the old pointer, or ERR_PTR(-ENOENT).
void *idr_replace(struct idr *idr, void *ptr, unsigned long id)
{
	void *old = radix_tree_replace(&idr->idr_rt, id, ptr);

	return old ? old : (void *)-ENOENT;
}

void *idr_get_next(struct idr *idr, int *nextid)
{
	unsigned long id = *nextid;
	void *p = radix_tree_next(&idr->idr_rt, &id);

	if (p)
		*nextid = id;
	return p;
}

// idr_for_each calls fn for all in order, until it returns nonzero.
int idr_for_each(const struct idr *idr, int (*fn)(int id, void *p, void *data), void *data)
{
	unsigned long id = 0;
	void *p;
	int ret;

	for (; (p = radix_tree_next(&idr->idr_rt, &id)); id++) {
		ret = fn(id, p, data);
		if (ret)
			return ret;
	}
	return 0;
}

void idr_destroy(struct idr *idr)
{
	unsigned long id = 0;

	while (radix_tree_next(&idr->idr_rt, &id))
		radix_tree_delete(&idr->idr_rt, id);
}
