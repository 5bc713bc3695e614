// Pools that give out parts of ranges of addresses, in units of a power of two.
#include <linux/bitmap.h>
#include <linux/bitops.h>
#include <linux/export.h>
#include <linux/genalloc.h>
#include <linux/kernel.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#define ALGO_ARGS unsigned long *map, unsigned long size, unsigned long start, unsigned int nr, void *data, struct gen_pool *pool, unsigned long start_addr

static size_t chunk_size(const struct gen_pool_chunk *c)
{
	return c->end_addr - c->start_addr + 1;
}

// units returns how many units hold size bytes.
static unsigned long units(const struct gen_pool *pool, size_t size)
{
	return (size + (1UL << pool->min_alloc_order) - 1) >> pool->min_alloc_order;
}

// chunk_of returns the chunk that has an address, or NULL.
static struct gen_pool_chunk *chunk_of(struct gen_pool *pool, unsigned long addr)
{
	struct gen_pool_chunk *c;

	list_for_each_entry(c, &pool->chunks, next_chunk)
		if (addr >= c->start_addr && addr <= c->end_addr)
			return c;
	return NULL;
}

struct gen_pool *gen_pool_create(int min_alloc_order, int nid)
{
	struct gen_pool *pool = kzalloc(sizeof(*pool), GFP_KERNEL);

	if (!pool)
		return NULL;
	spin_lock_init(&pool->lock);
	INIT_LIST_HEAD(&pool->chunks);
	pool->min_alloc_order = min_alloc_order;
	pool->algo = gen_pool_first_fit;
	return pool;
}
EXPORT_SYMBOL(gen_pool_create);

int gen_pool_add_owner(struct gen_pool *pool, unsigned long virt, phys_addr_t phys, size_t size, int nid, void *owner)
{
	size_t n = BITS_TO_LONGS(size >> pool->min_alloc_order);
	struct gen_pool_chunk *c = vzalloc(sizeof(*c) + n * sizeof(long));

	if (!c)
		return -ENOMEM;
	c->phys_addr = phys;
	c->start_addr = virt;
	c->end_addr = virt + size - 1;
	c->owner = owner;
	atomic_long_set(&c->avail, size);
	spin_lock(&pool->lock);
	list_add(&c->next_chunk, &pool->chunks);
	spin_unlock(&pool->lock);
	return 0;
}
EXPORT_SYMBOL(gen_pool_add_owner);

phys_addr_t gen_pool_virt_to_phys(struct gen_pool *pool, unsigned long addr)
{
	struct gen_pool_chunk *c = chunk_of(pool, addr);

	return c ? c->phys_addr + (addr - c->start_addr) : -1;
}
EXPORT_SYMBOL(gen_pool_virt_to_phys);

void gen_pool_destroy(struct gen_pool *pool)
{
	struct gen_pool_chunk *c, *next;

	list_for_each_entry_safe(c, next, &pool->chunks, next_chunk) {
		unsigned long n = chunk_size(c) >> pool->min_alloc_order;

		BUG_ON(find_first_bit(c->bits, n) < n);
		list_del(&c->next_chunk);
		vfree(c);
	}
	kfree_const(pool->name);
	kfree(pool);
}
EXPORT_SYMBOL(gen_pool_destroy);

unsigned long gen_pool_alloc_algo_owner(struct gen_pool *pool, size_t size, genpool_algo_t algo, void *data, void **owner)
{
	unsigned long n = units(pool, size), addr = 0, at, end;
	struct gen_pool_chunk *c;

	if (owner)
		*owner = NULL;
	if (!size)
		return 0;
	spin_lock(&pool->lock);
	list_for_each_entry(c, &pool->chunks, next_chunk) {
		if (size > (size_t)atomic_long_read(&c->avail))
			continue;
		end = chunk_size(c) >> pool->min_alloc_order;
		at = algo(c->bits, end, 0, n, data, pool, c->start_addr);
		if (at >= end)
			continue;
		bitmap_set(c->bits, at, n);
		atomic_long_sub(n << pool->min_alloc_order, &c->avail);
		addr = c->start_addr + (at << pool->min_alloc_order);
		if (owner)
			*owner = c->owner;
		break;
	}
	spin_unlock(&pool->lock);
	return addr;
}
EXPORT_SYMBOL(gen_pool_alloc_algo_owner);

void gen_pool_free_owner(struct gen_pool *pool, unsigned long addr, size_t size, void **owner)
{
	unsigned long n = units(pool, size), at;
	struct gen_pool_chunk *c;

	if (owner)
		*owner = NULL;
	spin_lock(&pool->lock);
	c = chunk_of(pool, addr);
	BUG_ON(!c || addr + size - 1 > c->end_addr);
	at = (addr - c->start_addr) >> pool->min_alloc_order;
	BUG_ON(find_next_zero_bit(c->bits, at + n, at) < at + n);
	bitmap_clear(c->bits, at, n);
	atomic_long_add(n << pool->min_alloc_order, &c->avail);
	if (owner)
		*owner = c->owner;
	spin_unlock(&pool->lock);
}
EXPORT_SYMBOL(gen_pool_free_owner);

void gen_pool_for_each_chunk(struct gen_pool *pool, void (*func)(struct gen_pool *, struct gen_pool_chunk *, void *), void *data)
{
	struct gen_pool_chunk *c;

	list_for_each_entry(c, &pool->chunks, next_chunk)
		func(pool, c, data);
}
EXPORT_SYMBOL(gen_pool_for_each_chunk);

bool gen_pool_has_addr(struct gen_pool *pool, unsigned long start, size_t size)
{
	struct gen_pool_chunk *c = chunk_of(pool, start);

	return c && start + size - 1 <= c->end_addr;
}
EXPORT_SYMBOL(gen_pool_has_addr);

size_t gen_pool_avail(struct gen_pool *pool)
{
	struct gen_pool_chunk *c;
	size_t n = 0;

	list_for_each_entry(c, &pool->chunks, next_chunk)
		n += atomic_long_read(&c->avail);
	return n;
}
EXPORT_SYMBOL_GPL(gen_pool_avail);

size_t gen_pool_size(struct gen_pool *pool)
{
	struct gen_pool_chunk *c;
	size_t n = 0;

	list_for_each_entry(c, &pool->chunks, next_chunk)
		n += chunk_size(c);
	return n;
}
EXPORT_SYMBOL_GPL(gen_pool_size);

void gen_pool_set_algo(struct gen_pool *pool, genpool_algo_t algo, void *data)
{
	spin_lock(&pool->lock);
	pool->algo = algo ? algo : gen_pool_first_fit;
	pool->data = data;
	spin_unlock(&pool->lock);
}
EXPORT_SYMBOL(gen_pool_set_algo);

unsigned long gen_pool_first_fit(ALGO_ARGS)
{
	return bitmap_find_next_zero_area_off(map, size, start, nr, 0, 0);
}
EXPORT_SYMBOL(gen_pool_first_fit);

unsigned long gen_pool_first_fit_align(ALGO_ARGS)
{
	const struct genpool_data_align *a = data;
	unsigned long mask = units(pool, a->align) - 1, off = (start_addr & (a->align - 1)) >> pool->min_alloc_order;

	return bitmap_find_next_zero_area_off(map, size, start, nr, mask, off);
}
EXPORT_SYMBOL(gen_pool_first_fit_align);

unsigned long gen_pool_fixed_alloc(ALGO_ARGS)
{
	const struct genpool_data_fixed *f = data;
	unsigned long want = f->offset >> pool->min_alloc_order;

	if (WARN_ON(f->offset & ((1UL << pool->min_alloc_order) - 1)))
		return size;
	return bitmap_find_next_zero_area_off(map, size, want, nr, 0, 0) == want ? want : size;
}
EXPORT_SYMBOL(gen_pool_fixed_alloc);

unsigned long gen_pool_first_fit_order_align(ALGO_ARGS)
{
	return bitmap_find_next_zero_area_off(map, size, start, nr, roundup_pow_of_two(nr) - 1, 0);
}
EXPORT_SYMBOL(gen_pool_first_fit_order_align);

// gen_pool_best_fit takes the smallest hole that is large enough.
unsigned long gen_pool_best_fit(ALGO_ARGS)
{
	unsigned long best = size, len = size + 1, at, end;

	for (at = bitmap_find_next_zero_area_off(map, size, start, nr, 0, 0); at < size;
	     at = bitmap_find_next_zero_area_off(map, size, end + 1, nr, 0, 0)) {
		end = find_next_bit(map, size, at + nr);
		if (end - at < len) {
			len = end - at;
			best = at;
		}
		if (len == nr)
			break;
	}
	return best;
}
EXPORT_SYMBOL(gen_pool_best_fit);
