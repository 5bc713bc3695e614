/* page_alloc.c: the buddy allocator: blocks of 2^order pages. */
#include <linux/sched.h>
#include <linux/mm.h>
#include <linux/string.h>
#include <trace/events/kmem.h>

struct free_area { struct list_head free_list; unsigned long nr_free; };
struct zone {
	const char *name;
	raw_spinlock_t lock;
	struct free_area free_area[MAX_ORDER];
	unsigned long nr_free_pages, watermark_min;
} contig_zone = { .name = "Normal" };

void clear_page_rep(void *page);
int should_fail_alloc_page(gfp_t gfp_mask, unsigned int order);

void clear_page(void *page)
{
	clear_page_rep(page);
}

static void set_buddy_order(struct page *page, unsigned int order)
{
	page->private = order;
	page->flags |= 1UL << PG_buddy;
}

static void add_to_free_list(struct page *page, struct zone *zone, unsigned int order)
{
	list_add(&page->lru, &zone->free_area[order].free_list);
	zone->free_area[order].nr_free++;
}

static void del_page_from_free_list(struct page *page, struct zone *zone, unsigned int order)
{
	list_del(&page->lru);
	page->flags &= ~(1UL << PG_buddy);
	page->private = 0;
	zone->free_area[order].nr_free--;
}

static bool page_is_buddy(struct page *buddy, unsigned int order)
{
	return PageBuddy(buddy) && buddy->private == order;
}

/* Frees a block, and merges it with its buddy as long as that is free too. */
static void __free_one_page(struct page *page, unsigned long pfn, struct zone *zone, unsigned int order)
{
	zone->nr_free_pages += 1UL << order;
	while (order < MAX_ORDER - 1) {
		unsigned long buddy_pfn = pfn ^ (1UL << order);
		struct page *buddy = pfn_to_page(buddy_pfn);

		if (buddy_pfn >= max_pfn || !page_is_buddy(buddy, order))
			break;
		del_page_from_free_list(buddy, zone, order);
		pfn &= buddy_pfn;
		page = pfn_to_page(pfn);
		order++;
	}
	set_buddy_order(page, order);
	add_to_free_list(page, zone, order);
}

static void expand(struct zone *zone, struct page *page, int low, int high)
{
	unsigned long size = 1UL << high;

	while (high > low) {
		high--;
		size >>= 1;
		set_buddy_order(page + size, high);
		add_to_free_list(page + size, zone, high);
	}
}

static struct page *__rmqueue_smallest(struct zone *zone, unsigned int order)
{
	unsigned int o;

	for (o = order; o < MAX_ORDER; o++) {
		struct page *page = list_first_entry_or_null(&zone->free_area[o].free_list, struct page, lru);

		if (!page)
			continue;
		del_page_from_free_list(page, zone, o);
		expand(zone, page, order, o);
		zone->nr_free_pages -= 1UL << order;
		return page;
	}
	return NULL;
}

static struct page *rmqueue(struct zone *zone, unsigned int order)
{
	struct page *page;
	unsigned long flags;

	raw_spin_lock_irqsave(&zone->lock, flags);
	page = __rmqueue_smallest(zone, order);
	raw_spin_unlock_irqrestore(&zone->lock, flags);
	return page;
}

/* Reports whether this many pages are free above the reserve. */
noinline bool __zone_watermark_ok(struct zone *z, unsigned int order, unsigned long mark, int highest_zoneidx,
			 unsigned int alloc_flags, long free_pages)
{
	free_pages -= (1L << order) - 1;
	return free_pages > (long)mark;
}

int should_fail_alloc_page(gfp_t gfp_mask, unsigned int order)
{
	return 0;
}

static noinline void prep_new_page(struct page *page, unsigned int order, gfp_t gfp)
{
	unsigned long i;

	page->flags = order ? 1UL << PG_head : 0;
	page->private = order;
	atomic_set(&page->_refcount, 1);
	atomic_set(&page->_mapcount, -1);
	if (gfp & __GFP_ZERO)
		for (i = 0; i < 1UL << order; i++)
			clear_page(page_address(page + i));
}

static noinline struct page *get_page_from_freelist(gfp_t gfp, unsigned int order)
{
	struct zone *zone = &contig_zone;
	struct page *page;

	if (!__zone_watermark_ok(zone, order, gfp & __GFP_HIGH ? 0 : zone->watermark_min, 0, 0, zone->nr_free_pages))
		return NULL;
	page = rmqueue(zone, order);
	if (page)
		prep_new_page(page, order, gfp);
	return page;
}

struct page *__alloc_pages(gfp_t gfp, unsigned int order, int preferred_nid, nodemask_t *nodemask)
{
	struct page *page;

	if (order >= MAX_ORDER)
		return NULL;
	if (gfpflags_allow_blocking(gfp))
		might_sleep();
	if (should_fail_alloc_page(gfp, order))
		return NULL;
	page = get_page_from_freelist(gfp, order);
	if (unlikely(!page) && !(gfp & __GFP_NOWARN))
		pr_warn("page allocation failure: order:%u, mode:%#x\n", order, gfp);
	trace_mm_page_alloc(page, order, gfp, 0);
	return page;
}
EXPORT_SYMBOL(__alloc_pages);

noinline struct page *alloc_pages(gfp_t gfp, unsigned int order)
{
	return __alloc_pages(gfp, order, 0, NULL);
}
EXPORT_SYMBOL(alloc_pages);

static void free_the_page(struct page *page, unsigned int order)
{
	unsigned long flags;

	trace_mm_page_free(page, order);
	page->flags = 0;
	raw_spin_lock_irqsave(&contig_zone.lock, flags);
	__free_one_page(page, page_to_pfn(page), &contig_zone, order);
	raw_spin_unlock_irqrestore(&contig_zone.lock, flags);
}

noinline void __free_pages(struct page *page, unsigned int order)
{
	if (atomic_dec_and_test(&page->_refcount))
		free_the_page(page, order);
}
EXPORT_SYMBOL(__free_pages);

void put_page(struct page *page)
{
	if (atomic_dec_and_test(&page->_refcount))
		free_the_page(page, page->flags & (1UL << PG_head) ? page->private : 0);
}

unsigned long __get_free_pages(gfp_t gfp_mask, unsigned int order)
{
	struct page *page = alloc_pages(gfp_mask, order);

	return page ? (unsigned long)page_address(page) : 0;
}
EXPORT_SYMBOL(__get_free_pages);

unsigned long get_zeroed_page(gfp_t gfp_mask)
{
	return __get_free_pages(gfp_mask | __GFP_ZERO, 0);
}
EXPORT_SYMBOL(get_zeroed_page);

void free_pages(unsigned long addr, unsigned int order)
{
	if (addr)
		__free_pages(virt_to_page((void *)addr), order);
}
EXPORT_SYMBOL(free_pages);

/* Allocates a block of the next power of two, and frees its tail. */
void *alloc_pages_exact(size_t size, gfp_t gfp_mask)
{
	unsigned int order = get_order(size);
	unsigned long addr = __get_free_pages(gfp_mask, order), used, end;

	if (!addr)
		return NULL;
	used = addr + PAGE_ALIGN(size);
	end = addr + (PAGE_SIZE << order);
	virt_to_page(addr)->flags = 0;
	for (; used < end; used += PAGE_SIZE) {
		atomic_set(&virt_to_page(used)->_refcount, 1);
		free_page(used);
	}
	return (void *)addr;
}
EXPORT_SYMBOL(alloc_pages_exact);

void free_pages_exact(void *virt, size_t size)
{
	unsigned long addr = (unsigned long)virt, end = addr + PAGE_ALIGN(size);

	for (; addr < end; addr += PAGE_SIZE) {
		atomic_set(&virt_to_page(addr)->_refcount, 1);
		free_page(addr);
	}
}
EXPORT_SYMBOL(free_pages_exact);

unsigned long nr_free_pages(void)
{
	return READ_ONCE(contig_zone.nr_free_pages);
}

void __free_pages_core(struct page *page, unsigned int order)
{
	__free_one_page(page, page_to_pfn(page), &contig_zone, order);
}

void __init mem_init(void)
{
	int i;

	raw_spin_lock_init(&contig_zone.lock);
	for (i = 0; i < MAX_ORDER; i++)
		INIT_LIST_HEAD(&contig_zone.free_area[i].free_list);
	contig_zone.watermark_min = 64;
}
