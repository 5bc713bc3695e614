/* memory.c: page faults of mapped areas. Pages are allocated at the first access. */
#include <linux/sched.h>
#include <linux/export.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <asm/host.h>

static struct anon_page *find_anon_page(struct vm_area_struct *vma, unsigned long addr)
{
	struct anon_page *ap;

	list_for_each_entry(ap, &vma->anon_pages, list)
		if (ap->addr == addr)
			return ap;
	return NULL;
}

int vma_map_page(struct vm_area_struct *vma, unsigned long addr, struct page *page)
{
	return hypercall4(HC_MAP, addr, page_to_phys(page), 1, vma->vm_flags & VM_WRITE ? 1 : 0);
}

static vm_fault_t do_anonymous_page(struct vm_fault *vmf)
{
	struct anon_page *ap = kmalloc(sizeof(*ap), GFP_KERNEL);

	if (!ap)
		return VM_FAULT_OOM;
	ap->addr = vmf->address;
	ap->page = alloc_page(GFP_USER | __GFP_ZERO);
	if (!ap->page || vma_map_page(vmf->vma, ap->addr, ap->page) < 0) {
		if (ap->page)
			__free_page(ap->page);
		kfree(ap);
		return VM_FAULT_OOM;
	}
	spin_lock(&vmf->vma->vm_mm->page_table_lock);
	list_add_tail(&ap->list, &vmf->vma->anon_pages);
	spin_unlock(&vmf->vma->vm_mm->page_table_lock);
	vmf->page = ap->page;
	vmf->vma->vm_mm->rss_stat[1]++;
	current->min_flt++;
	return 0;
}

/* Returns the page at addr of an area, which need not be the current task's. */
int vma_populate(struct vm_area_struct *vma, unsigned long addr, struct page **page)
{
	struct anon_page *ap = find_anon_page(vma, addr);

	if (!ap) {
		if (handle_mm_fault(vma, addr, FAULT_FLAG_WRITE, NULL))
			return -ENOMEM;
		ap = find_anon_page(vma, addr);
	}
	*page = ap ? ap->page : NULL;
	return ap ? 0 : -ENOMEM;
}

static vm_fault_t handle_pte_fault(struct vm_fault *vmf)
{
	struct anon_page *ap = find_anon_page(vmf->vma, vmf->address);

	if (!ap)
		return do_anonymous_page(vmf);
	return vma_map_page(vmf->vma, ap->addr, ap->page) < 0 ? VM_FAULT_OOM : 0;
}

vm_fault_t __handle_mm_fault(struct vm_area_struct *vma, unsigned long address, unsigned int flags)
{
	struct vm_fault vmf = {
		.vma = vma, .address = address & PAGE_MASK, .real_address = address, .flags = flags,
		.gfp_mask = GFP_KERNEL, .pgoff = (address - vma->vm_start) >> PAGE_SHIFT,
	};

	return handle_pte_fault(&vmf);
}

vm_fault_t handle_mm_fault(struct vm_area_struct *vma, unsigned long address, unsigned int flags, struct pt_regs *regs)
{
	__set_current_state(TASK_RUNNING);
	if (!(vma->vm_flags & (VM_READ | VM_WRITE)))
		return VM_FAULT_SIGSEGV;
	return __handle_mm_fault(vma, address, flags);
}
EXPORT_SYMBOL(handle_mm_fault);

/* Frees the pages of [start, end). */
void unmap_page_range(struct vm_area_struct *vma, unsigned long start, unsigned long end)
{
	struct anon_page *ap, *n;

	list_for_each_entry_safe(ap, n, &vma->anon_pages, list) {
		if (ap->addr < start || ap->addr >= end)
			continue;
		hypercall2(HC_UNMAP, ap->addr, 1);
		list_del(&ap->list);
		__free_page(ap->page);
		kfree(ap);
		vma->vm_mm->rss_stat[1]--;
	}
}

/* Copies an area's contents for the child at once, since each mm has its own window.
 * */
int copy_page_range(struct vm_area_struct *dst_vma, struct vm_area_struct *src_vma)
{
	struct anon_page *ap;

	list_for_each_entry(ap, &src_vma->anon_pages, list) {
		struct vm_fault vmf = { .vma = dst_vma, .address = dst_vma->vm_start + (ap->addr - src_vma->vm_start) };

		if (do_anonymous_page(&vmf))
			return -ENOMEM;
		copy_page(page_address(vmf.page), page_address(ap->page));
	}
	return 0;
}

// Mappings of a module's memory. mmap(2) of its files does not come here, so there is no
// area to map into.
int remap_pfn_range(struct vm_area_struct *vma, unsigned long addr, unsigned long pfn, unsigned long size, pgprot_t prot)
{
	return -ENODEV;
}
EXPORT_SYMBOL(remap_pfn_range);

int vm_insert_page(struct vm_area_struct *vma, unsigned long addr, struct page *page)
{
	return -ENODEV;
}
EXPORT_SYMBOL(vm_insert_page);

int vm_iomap_memory(struct vm_area_struct *vma, phys_addr_t start, unsigned long len)
{
	return -ENODEV;
}
EXPORT_SYMBOL(vm_iomap_memory);

int remap_vmalloc_range(struct vm_area_struct *vma, void *addr, unsigned long pgoff)
{
	return -ENODEV;
}
EXPORT_SYMBOL(remap_vmalloc_range);

// pfn_valid of Debian's headers looks here, and finds that no page is a device's.
struct mem_section **mem_section;
EXPORT_SYMBOL(mem_section);
