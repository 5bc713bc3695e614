/* vmalloc.c: virtually contiguous memory of single pages, with a guard page after
 * each area. */
#include <linux/sched.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <asm/host.h>

struct vm_struct { struct list_head list; void *addr; unsigned long size; struct page **pages; unsigned int nr_pages; const void *caller; };
static LIST_HEAD(vmap_area_list);
static DEFINE_SPINLOCK(vmap_area_lock);

/* Finds the lowest gap that is large enough. The list is sorted by address. */
static struct list_head *find_hole(unsigned long size, unsigned long align, unsigned long *addr)
{
	struct vm_struct *va;

	*addr = ALIGN(VMALLOC_START, align);
	list_for_each_entry(va, &vmap_area_list, list) {
		if ((unsigned long)va->addr >= *addr + size)
			return &va->list;
		*addr = ALIGN((unsigned long)va->addr + va->size, align);
	}
	return &vmap_area_list;
}

struct vm_struct *__get_vm_area_node(unsigned long size, unsigned long align, const void *caller)
{
	struct vm_struct *area = kzalloc(sizeof(*area), GFP_KERNEL);
	struct list_head *before;
	unsigned long addr;

	if (!area)
		return NULL;
	size = PAGE_ALIGN(size) + PAGE_SIZE;
	spin_lock(&vmap_area_lock);
	before = find_hole(size, align, &addr);
	area->addr = (void *)addr;
	area->size = size;
	area->caller = caller;
	list_add_tail(&area->list, before);
	spin_unlock(&vmap_area_lock);
	return area;
}

struct vm_struct *find_vm_area(const void *addr)
{
	struct vm_struct *va, *found = NULL;

	spin_lock(&vmap_area_lock);
	list_for_each_entry(va, &vmap_area_list, list)
		if (va->addr == addr)
			found = va;
	spin_unlock(&vmap_area_lock);
	return found;
}

noinline int __vmap_pages_range_noflush(unsigned long addr, unsigned long end, struct page **pages)
{
	for (; addr < end; addr += PAGE_SIZE, pages++)
		if (hypercall4(HC_MAP, addr, page_to_phys(*pages), 1, 1) < 0)
			return -ENOMEM;
	return 0;
}

static void free_area(struct vm_struct *area)
{
	unsigned int i;

	spin_lock(&vmap_area_lock);
	list_del(&area->list);
	spin_unlock(&vmap_area_lock);
	for (i = 0; i < area->nr_pages; i++)
		__free_page(area->pages[i]);
	kfree(area->pages);
	kfree(area);
}

static noinline void *__vmalloc_area_node(struct vm_struct *area, gfp_t gfp)
{
	unsigned long size = area->size - PAGE_SIZE;
	unsigned int n = size >> PAGE_SHIFT;

	area->pages = kmalloc(n * sizeof(*area->pages), GFP_KERNEL);
	if (!area->pages)
		goto fail;
	for (; area->nr_pages < n; area->nr_pages++) {
		area->pages[area->nr_pages] = alloc_page(gfp);
		if (!area->pages[area->nr_pages])
			goto fail;
	}
	if (__vmap_pages_range_noflush((unsigned long)area->addr, (unsigned long)area->addr + size, area->pages))
		goto fail;
	return area->addr;
fail:
	free_area(area);
	return NULL;
}

noinline void *__vmalloc_node_range(unsigned long size, unsigned long align, gfp_t gfp_mask, const void *caller)
{
	struct vm_struct *area;

	if (!size || size >> PAGE_SHIFT > max_pfn)
		return NULL;
	area = __get_vm_area_node(size, align, caller);
	return area ? __vmalloc_area_node(area, gfp_mask) : NULL;
}

void *vmalloc(unsigned long size)
{
	return __vmalloc_node_range(size, 1, GFP_KERNEL, __builtin_return_address(0));
}
EXPORT_SYMBOL(vmalloc);

void *vzalloc(unsigned long size)
{
	return __vmalloc_node_range(size, 1, GFP_KERNEL | __GFP_ZERO, __builtin_return_address(0));
}
EXPORT_SYMBOL(vzalloc);

void vfree(const void *addr)
{
	struct vm_struct *area = addr ? find_vm_area(addr) : NULL;

	if (!addr || WARN_ON(!area))
		return;
	hypercall2(HC_UNMAP, addr, area->nr_pages);
	free_area(area);
}
EXPORT_SYMBOL(vfree);

void *__vmalloc(unsigned long size, gfp_t gfp_mask)
{
	return __vmalloc_node_range(size, 1, gfp_mask, __builtin_return_address(0));
}
EXPORT_SYMBOL(__vmalloc);

void *vmalloc_node(unsigned long size, int node)
{
	return __vmalloc_node_range(size, 1, GFP_KERNEL, __builtin_return_address(0));
}
EXPORT_SYMBOL(vmalloc_node);

void *vmalloc_user(unsigned long size)
{
	return __vmalloc_node_range(size, 1, GFP_KERNEL | __GFP_ZERO, __builtin_return_address(0));
}
EXPORT_SYMBOL(vmalloc_user);

/* The page of an address in an area, or NULL. */
struct page *vmalloc_to_page(const void *addr)
{
	struct page *page = NULL;
	struct vm_struct *va;

	spin_lock(&vmap_area_lock);
	list_for_each_entry(va, &vmap_area_list, list) {
		unsigned long n = (addr - va->addr) >> PAGE_SHIFT;

		if (addr >= va->addr && n < va->nr_pages)
			page = va->pages[n];
	}
	spin_unlock(&vmap_area_lock);
	return page;
}
EXPORT_SYMBOL(vmalloc_to_page);

unsigned long vmalloc_to_pfn(const void *addr)
{
	return page_to_pfn(vmalloc_to_page(addr));
}
EXPORT_SYMBOL(vmalloc_to_pfn);
