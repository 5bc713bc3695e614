// genalloc.h: pools that give out parts of ranges of addresses.
#ifndef _LINUX_GENALLOC_H
#define _LINUX_GENALLOC_H

#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/types.h>

struct gen_pool;

// A genpool_algo_t returns the first of nr free bits of a map, or what is not in it.
typedef unsigned long (*genpool_algo_t)(unsigned long *map, unsigned long size, unsigned long start, unsigned int nr, void *data,
					struct gen_pool *pool, unsigned long start_addr);

struct gen_pool {
	spinlock_t lock;
	struct list_head chunks;
	int min_alloc_order;
	genpool_algo_t algo;
	void *data;
	const char *name;
};
static_assert(sizeof(struct gen_pool) == 56, "struct gen_pool");

struct gen_pool_chunk {
	struct list_head next_chunk;
	atomic_long_t avail;
	phys_addr_t phys_addr;
	void *owner;
	unsigned long start_addr, end_addr; // the last one that is in it
	unsigned long bits[];
};
static_assert(sizeof(struct gen_pool_chunk) == 56, "struct gen_pool_chunk");

struct genpool_data_align {
	int align;
};
struct genpool_data_fixed {
	unsigned long offset;
};

struct gen_pool *gen_pool_create(int min_alloc_order, int nid);
int gen_pool_add_owner(struct gen_pool *pool, unsigned long virt, phys_addr_t phys, size_t size, int nid, void *owner);
phys_addr_t gen_pool_virt_to_phys(struct gen_pool *pool, unsigned long addr);
void gen_pool_destroy(struct gen_pool *pool);
unsigned long gen_pool_alloc_algo_owner(struct gen_pool *pool, size_t size, genpool_algo_t algo, void *data, void **owner);
void gen_pool_free_owner(struct gen_pool *pool, unsigned long addr, size_t size, void **owner);
void gen_pool_for_each_chunk(struct gen_pool *pool, void (*func)(struct gen_pool *, struct gen_pool_chunk *, void *), void *data);
size_t gen_pool_avail(struct gen_pool *pool);
size_t gen_pool_size(struct gen_pool *pool);
void gen_pool_set_algo(struct gen_pool *pool, genpool_algo_t algo, void *data);
bool gen_pool_has_addr(struct gen_pool *pool, unsigned long start, size_t size);
unsigned long gen_pool_first_fit(unsigned long *map, unsigned long size, unsigned long start, unsigned int nr, void *data, struct gen_pool *pool, unsigned long start_addr);
unsigned long gen_pool_first_fit_align(unsigned long *map, unsigned long size, unsigned long start, unsigned int nr, void *data, struct gen_pool *pool, unsigned long start_addr);
unsigned long gen_pool_fixed_alloc(unsigned long *map, unsigned long size, unsigned long start, unsigned int nr, void *data, struct gen_pool *pool, unsigned long start_addr);
unsigned long gen_pool_first_fit_order_align(unsigned long *map, unsigned long size, unsigned long start, unsigned int nr, void *data, struct gen_pool *pool, unsigned long start_addr);
unsigned long gen_pool_best_fit(unsigned long *map, unsigned long size, unsigned long start, unsigned int nr, void *data, struct gen_pool *pool, unsigned long start_addr);

static inline int gen_pool_add_virt(struct gen_pool *pool, unsigned long addr, phys_addr_t phys, size_t size, int nid)
{
	return gen_pool_add_owner(pool, addr, phys, size, nid, NULL);
}

static inline int gen_pool_add(struct gen_pool *pool, unsigned long addr, size_t size, int nid)
{
	return gen_pool_add_virt(pool, addr, -1, size, nid);
}

static inline unsigned long gen_pool_alloc_owner(struct gen_pool *pool, size_t size, void **owner)
{
	return gen_pool_alloc_algo_owner(pool, size, pool->algo, pool->data, owner);
}

static inline unsigned long gen_pool_alloc_algo(struct gen_pool *pool, size_t size, genpool_algo_t algo, void *data)
{
	return gen_pool_alloc_algo_owner(pool, size, algo, data, NULL);
}

static inline unsigned long gen_pool_alloc(struct gen_pool *pool, size_t size)
{
	return gen_pool_alloc_algo(pool, size, pool->algo, pool->data);
}

static inline void gen_pool_free(struct gen_pool *pool, unsigned long addr, size_t size)
{
	gen_pool_free_owner(pool, addr, size, NULL);
}

#endif
