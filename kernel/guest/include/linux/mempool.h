/* mempool.h: allocation that does not fail, since some elements are kept. */
#ifndef _LINUX_MEMPOOL_H
#define _LINUX_MEMPOOL_H
#include <linux/wait.h>
#include <linux/slab.h>
typedef void *(mempool_alloc_t)(gfp_t gfp, void *pool_data);
typedef void (mempool_free_t)(void *element, void *pool_data);
typedef struct mempool_s {
	spinlock_t lock;
	int min_nr, curr_nr; /* elements to keep, and those that are there */
	void **elements;
	void *pool_data;
	mempool_alloc_t *alloc;
	mempool_free_t *free;
	wait_queue_head_t wait;
} mempool_t;
int mempool_init_node(mempool_t *pool, int min_nr, mempool_alloc_t *alloc_fn, mempool_free_t *free_fn, void *pool_data, gfp_t gfp, int node);
int mempool_init(mempool_t *pool, int min_nr, mempool_alloc_t *alloc_fn, mempool_free_t *free_fn, void *pool_data);
mempool_t *mempool_create(int min_nr, mempool_alloc_t *alloc_fn, mempool_free_t *free_fn, void *pool_data);
mempool_t *mempool_create_node(int min_nr, mempool_alloc_t *alloc_fn, mempool_free_t *free_fn, void *pool_data, gfp_t gfp, int node);
void mempool_exit(mempool_t *pool);
void mempool_destroy(mempool_t *pool);
int mempool_resize(mempool_t *pool, int new_min_nr);
void *mempool_alloc(mempool_t *pool, gfp_t gfp);
void mempool_free(void *element, mempool_t *pool);
void *mempool_alloc_slab(gfp_t gfp, void *pool_data);
void mempool_free_slab(void *element, void *pool_data);
void *mempool_kmalloc(gfp_t gfp, void *pool_data);
void mempool_kfree(void *element, void *pool_data);
void *mempool_alloc_pages(gfp_t gfp, void *pool_data);
void mempool_free_pages(void *element, void *pool_data);
#define mempool_create_slab_pool(n, c) mempool_create(n, mempool_alloc_slab, mempool_free_slab, (void *)(c))
#define mempool_create_kmalloc_pool(n, size) mempool_create(n, mempool_kmalloc, mempool_kfree, (void *)(unsigned long)(size))
#define mempool_create_page_pool(n, order) mempool_create(n, mempool_alloc_pages, mempool_free_pages, (void *)(long)(order))
#endif
