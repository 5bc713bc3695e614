// Pools that keep some elements for when there is no memory.
#include <linux/mempool.h>
#include <linux/sched.h>
#include <linux/mm.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/export.h>

// keep puts an element into the reserve.
static void keep(mempool_t *pool, void *element)
{
	pool->elements[pool->curr_nr++] = element;
}

void mempool_exit(mempool_t *pool)
{
	while (pool->curr_nr > 0)
		pool->free(pool->elements[--pool->curr_nr], pool->pool_data);
	kfree(pool->elements);
	pool->elements = NULL;
}
EXPORT_SYMBOL(mempool_exit);

void mempool_destroy(mempool_t *pool)
{
	if (!pool)
		return;
	mempool_exit(pool);
	kfree(pool);
}
EXPORT_SYMBOL(mempool_destroy);

int mempool_init_node(mempool_t *pool, int min_nr, mempool_alloc_t *alloc_fn, mempool_free_t *free_fn,
		      void *pool_data, gfp_t gfp, int node)
{
	spin_lock_init(&pool->lock);
	init_waitqueue_head(&pool->wait);
	pool->min_nr = min_nr;
	pool->curr_nr = 0;
	pool->pool_data = pool_data;
	pool->alloc = alloc_fn;
	pool->free = free_fn;
	pool->elements = kmalloc_array(max(min_nr, 1), sizeof(void *), gfp);
	if (!pool->elements)
		return -ENOMEM;
	while (pool->curr_nr < min_nr) {
		void *element = alloc_fn(gfp, pool_data);

		if (!element) {
			mempool_exit(pool);
			return -ENOMEM;
		}
		keep(pool, element);
	}
	return 0;
}
EXPORT_SYMBOL(mempool_init_node);

int mempool_init(mempool_t *pool, int min_nr, mempool_alloc_t *alloc_fn, mempool_free_t *free_fn, void *pool_data)
{
	return mempool_init_node(pool, min_nr, alloc_fn, free_fn, pool_data, GFP_KERNEL, -1);
}
EXPORT_SYMBOL(mempool_init);

mempool_t *mempool_create_node(int min_nr, mempool_alloc_t *alloc_fn, mempool_free_t *free_fn, void *pool_data,
			       gfp_t gfp, int node)
{
	mempool_t *pool = kzalloc(sizeof(*pool), gfp);

	if (pool && mempool_init_node(pool, min_nr, alloc_fn, free_fn, pool_data, gfp, node)) {
		kfree(pool);
		return NULL;
	}
	return pool;
}
EXPORT_SYMBOL(mempool_create_node);

mempool_t *mempool_create(int min_nr, mempool_alloc_t *alloc_fn, mempool_free_t *free_fn, void *pool_data)
{
	return mempool_create_node(min_nr, alloc_fn, free_fn, pool_data, GFP_KERNEL, -1);
}
EXPORT_SYMBOL(mempool_create);

// mempool_resize changes how many elements are kept: -ENOMEM.
int mempool_resize(mempool_t *pool, int new_min_nr)
{
	void **elements = kmalloc_array(max(new_min_nr, 1), sizeof(void *), GFP_KERNEL), **old;
	unsigned long flags;
	void *element;
	int i;

	if (!elements)
		return -ENOMEM;
	spin_lock_irqsave(&pool->lock, flags);
	while (pool->curr_nr > new_min_nr) {
		element = pool->elements[--pool->curr_nr];
		spin_unlock_irqrestore(&pool->lock, flags);
		pool->free(element, pool->pool_data);
		spin_lock_irqsave(&pool->lock, flags);
	}
	for (i = 0; i < pool->curr_nr; i++)
		elements[i] = pool->elements[i];
	old = pool->elements;
	pool->elements = elements;
	pool->min_nr = new_min_nr;
	spin_unlock_irqrestore(&pool->lock, flags);
	kfree(old);
	while (READ_ONCE(pool->curr_nr) < new_min_nr) {
		element = pool->alloc(GFP_KERNEL, pool->pool_data);
		if (!element)
			break;
		mempool_free(element, pool);
	}
	return 0;
}
EXPORT_SYMBOL(mempool_resize);

// take returns an element of the reserve, or NULL.
static void *take(mempool_t *pool)
{
	unsigned long flags;
	void *element = NULL;

	spin_lock_irqsave(&pool->lock, flags);
	if (pool->curr_nr)
		element = pool->elements[--pool->curr_nr];
	spin_unlock_irqrestore(&pool->lock, flags);
	return element;
}

// mempool_alloc allocates an element, takes one that was kept, or waits for one. It does
// not fail where it may wait.
void *mempool_alloc(mempool_t *pool, gfp_t gfp)
{
	void *element = pool->alloc((gfp & ~__GFP_DIRECT_RECLAIM) | __GFP_NOWARN, pool->pool_data);
	DEFINE_WAIT(wait);

	while (!element && !(element = take(pool)) && gfpflags_allow_blocking(gfp)) {
		prepare_to_wait(&pool->wait, &wait, TASK_UNINTERRUPTIBLE);
		if (!READ_ONCE(pool->curr_nr))
			schedule_timeout(5 * HZ);
		finish_wait(&pool->wait, &wait);
		element = pool->alloc(gfp & ~__GFP_DIRECT_RECLAIM, pool->pool_data);
	}
	if (element && gfp & __GFP_ZERO && pool->alloc == mempool_kmalloc)
		memset(element, 0, (size_t)pool->pool_data);
	return element;
}
EXPORT_SYMBOL(mempool_alloc);

void mempool_free(void *element, mempool_t *pool)
{
	unsigned long flags;

	if (!element)
		return;
	spin_lock_irqsave(&pool->lock, flags);
	if (pool->curr_nr < pool->min_nr) {
		keep(pool, element);
		element = NULL;
	}
	spin_unlock_irqrestore(&pool->lock, flags);
	if (element)
		pool->free(element, pool->pool_data);
	else
		wake_up(&pool->wait);
}
EXPORT_SYMBOL(mempool_free);

void *mempool_alloc_slab(gfp_t gfp, void *pool_data) { return kmem_cache_alloc(pool_data, gfp); }
EXPORT_SYMBOL(mempool_alloc_slab);

void mempool_free_slab(void *element, void *pool_data) { kmem_cache_free(pool_data, element); }
EXPORT_SYMBOL(mempool_free_slab);

void *mempool_kmalloc(gfp_t gfp, void *pool_data) { return kmalloc((size_t)pool_data, gfp); }
EXPORT_SYMBOL(mempool_kmalloc);

void mempool_kfree(void *element, void *pool_data) { kfree(element); }
EXPORT_SYMBOL(mempool_kfree);

void *mempool_alloc_pages(gfp_t gfp, void *pool_data) { return alloc_pages(gfp, (long)pool_data); }
EXPORT_SYMBOL(mempool_alloc_pages);

void mempool_free_pages(void *element, void *pool_data) { __free_pages(element, (long)pool_data); }
EXPORT_SYMBOL(mempool_free_pages);
