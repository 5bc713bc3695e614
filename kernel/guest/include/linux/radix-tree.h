// radix-tree.h: sparse arrays of pointers: radix trees, the IDR (which allocates
// indices), and the XArray's simple functions.
#ifndef _LINUX_RADIX_TREE_H
#define _LINUX_RADIX_TREE_H

#include <linux/types.h>
#include <linux/spinlock.h>

struct radix_tree_node;

struct radix_tree_root {
	spinlock_t lock;
	gfp_t gfp;
	unsigned int height; // levels below the root
	struct radix_tree_node *node;
};

struct idr {
	struct radix_tree_root idr_rt;
	unsigned int idr_base, idr_next;
};

struct xarray {
	struct radix_tree_root rt;
};

void radix_tree_init_root(struct radix_tree_root *root, gfp_t gfp);
int radix_tree_insert(struct radix_tree_root *root, unsigned long index, void *item);
void *radix_tree_lookup(const struct radix_tree_root *root, unsigned long index);
void *radix_tree_delete(struct radix_tree_root *root, unsigned long index);
void *radix_tree_replace(struct radix_tree_root *root, unsigned long index, void *item);
void *radix_tree_next(const struct radix_tree_root *root, unsigned long *index);
long radix_tree_free_index(const struct radix_tree_root *root, unsigned long start, unsigned long end);

void idr_init(struct idr *idr);
int idr_alloc(struct idr *idr, void *ptr, int start, int end, gfp_t gfp);
int idr_alloc_cyclic(struct idr *idr, void *ptr, int start, int end, gfp_t gfp);
void *idr_find(const struct idr *idr, unsigned long id);
void *idr_remove(struct idr *idr, unsigned long id);
void *idr_replace(struct idr *idr, void *ptr, unsigned long id);
void *idr_get_next(struct idr *idr, int *nextid);
int idr_for_each(const struct idr *idr, int (*fn)(int id, void *p, void *data), void *data);
void idr_destroy(struct idr *idr);

void xa_init_flags(struct xarray *xa, gfp_t flags);
void *xa_load(struct xarray *xa, unsigned long index);
void *xa_store(struct xarray *xa, unsigned long index, void *entry, gfp_t gfp);
void *xa_erase(struct xarray *xa, unsigned long index);
void xa_destroy(struct xarray *xa);
void *xa_find(struct xarray *xa, unsigned long *index, unsigned long max, unsigned int filter);

#endif
