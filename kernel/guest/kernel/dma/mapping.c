// Addresses for devices. No device sees the guest's memory, and nothing stands between the two:
// what is mapped has the address of the memory itself.
#include <linux/dma-mapping.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/dev_printk.h>
#include <linux/export.h>

// dma_supported reports whether a device with this mask reaches all memory that it can be
// given, which is at least what a 24-bit one reaches.
static bool dma_supported(u64 mask)
{
	return mask >= DMA_BIT_MASK(24);
}

int dma_set_mask(struct device *dev, u64 mask)
{
	if (!dev->dma_mask || !dma_supported(mask))
		return -EIO;
	*dev->dma_mask = mask;
	return 0;
}
EXPORT_SYMBOL(dma_set_mask);

int dma_set_coherent_mask(struct device *dev, u64 mask)
{
	if (!dma_supported(mask))
		return -EIO;
	dev->coherent_dma_mask = mask;
	return 0;
}
EXPORT_SYMBOL(dma_set_coherent_mask);

u64 dma_get_required_mask(struct device *dev)
{
	u64 last = (max_pfn << PAGE_SHIFT) - 1;

	return (1ULL << (63 - __builtin_clzll(last))) * 2 - 1;
}
EXPORT_SYMBOL_GPL(dma_get_required_mask);

dma_addr_t dma_map_page_attrs(struct device *dev, struct page *page, size_t offset, size_t size,
			      enum dma_data_direction dir, unsigned long attrs)
{
	dma_addr_t addr = page_to_phys(page) + offset;

	if (WARN_ON_ONCE(!dev->dma_mask))
		return DMA_MAPPING_ERROR;
	if (addr + size - 1 > *dev->dma_mask) {
		dev_err_once(dev, "DMA addr %pad+%zu overflow (mask %llx, bus limit %llx).\n", &addr, size, *dev->dma_mask, dev->bus_dma_limit);
		return DMA_MAPPING_ERROR;
	}
	return addr;
}
EXPORT_SYMBOL(dma_map_page_attrs);

void dma_unmap_page_attrs(struct device *dev, dma_addr_t addr, size_t size, enum dma_data_direction dir, unsigned long attrs)
{
}
EXPORT_SYMBOL(dma_unmap_page_attrs);

// The memory is the same for both sides.
void dma_sync_single_for_cpu(struct device *dev, dma_addr_t addr, size_t size, enum dma_data_direction dir)
{
}
EXPORT_SYMBOL(dma_sync_single_for_cpu);

void dma_sync_single_for_device(struct device *dev, dma_addr_t addr, size_t size, enum dma_data_direction dir)
{
}
EXPORT_SYMBOL(dma_sync_single_for_device);

void *dma_alloc_attrs(struct device *dev, size_t size, dma_addr_t *dma_handle, gfp_t flag, unsigned long attrs)
{
	void *p;

	WARN_ON_ONCE(!dev->coherent_dma_mask);
	p = alloc_pages_exact(PAGE_ALIGN(size), flag | __GFP_ZERO);
	if (p)
		*dma_handle = __pa(p);
	return p;
}
EXPORT_SYMBOL(dma_alloc_attrs);

void dma_free_attrs(struct device *dev, size_t size, void *cpu_addr, dma_addr_t dma_handle, unsigned long attrs)
{
	if (cpu_addr)
		free_pages_exact(cpu_addr, PAGE_ALIGN(size));
}
EXPORT_SYMBOL(dma_free_attrs);

struct dma_devres {
	size_t size;
	void *vaddr;
	dma_addr_t dma_handle;
	unsigned long attrs;
};

static void dmam_release(struct device *dev, void *res)
{
	struct dma_devres *d = res;

	dma_free_attrs(dev, d->size, d->vaddr, d->dma_handle, d->attrs);
}

static int dmam_match(struct device *dev, void *res, void *data)
{
	struct dma_devres *d = res, *want = data;

	return d->vaddr == want->vaddr;
}

void *dmam_alloc_attrs(struct device *dev, size_t size, dma_addr_t *dma_handle, gfp_t gfp, unsigned long attrs)
{
	struct dma_devres *d = devres_alloc(dmam_release, sizeof(*d), gfp);
	void *p;

	if (!d)
		return NULL;
	p = dma_alloc_attrs(dev, size, dma_handle, gfp, attrs);
	if (!p) {
		devres_free(d);
		return NULL;
	}
	*d = (struct dma_devres){ size, p, *dma_handle, attrs };
	devres_add(dev, d);
	return p;
}
EXPORT_SYMBOL(dmam_alloc_attrs);

void dmam_free_coherent(struct device *dev, size_t size, void *vaddr, dma_addr_t dma_handle)
{
	struct dma_devres d = { size, vaddr, dma_handle, 0 };

	dma_free_attrs(dev, size, vaddr, dma_handle, 0);
	WARN_ON(devres_destroy(dev, dmam_release, dmam_match, &d));
}
EXPORT_SYMBOL(dmam_free_coherent);
