/* memblock.c: early allocations, from the end of the image upwards, never freed. */
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/string.h>
#include <asm/host.h>

extern char _end[], _text[], init_stack[];
unsigned long max_pfn, max_low_pfn;
struct page *mem_map;
static unsigned long memblock_next;	/* physical */

void __free_pages_core(struct page *page, unsigned int order);

/*
 * Puts the array of struct page where Linux has it. Behind the page of the last frame
 * nothing is mapped, so the page of an address that is not in RAM cannot be read.
 */
static void __init map_pages(void)
{
	unsigned long pages = PAGE_ALIGN(max_pfn * sizeof(struct page)) >> PAGE_SHIFT;
	void *p = memblock_alloc(pages << PAGE_SHIFT, PAGE_SIZE);

	if (hypercall4(HC_MAP, VMEMMAP_START, __pa(p), pages, 1) < 0)
		panic("the array of pages cannot be mapped");
	vmemmap_base = VMEMMAP_START;
	mem_map = (struct page *)vmemmap_base;
}

void __init memblock_init(unsigned long ram)
{
	max_pfn = max_low_pfn = ram >> PAGE_SHIFT;
	memblock_next = PAGE_ALIGN(__pa(_end));
	if (memblock_next >= ram)
		panic("no memory behind the kernel");
	map_pages();
}

/* Returns zeroed memory. The machine's RAM is zero where it has not been written. */
void * __init memblock_alloc(size_t size, size_t align)
{
	unsigned long pa = ALIGN(memblock_next, align);

	if (pa + size > max_pfn << PAGE_SHIFT)
		panic("memblock_alloc: %lu bytes", size);
	memblock_next = pa + size;
	return __va(pa);
}

static void __init free_range(unsigned long start, unsigned long end)
{
	while (start < end) {
		int order = MAX_ORDER - 1;

		while (order && ((start & ((1UL << order) - 1)) || start + (1UL << order) > end))
			order--;
		__free_pages_core(pfn_to_page(start), order);
		start += 1UL << order;
	}
}

/* Frees the remaining memory to the page allocator: above the first megabyte, without
 * the image. */
void __init memblock_free_all(void)
{
	mem_init();
	free_range(0x100000 >> PAGE_SHIFT, __pa(_text) >> PAGE_SHIFT);
	free_range(PAGE_ALIGN(memblock_next) >> PAGE_SHIFT, max_pfn);
}
