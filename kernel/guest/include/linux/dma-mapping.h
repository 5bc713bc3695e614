// dma-mapping.h: addresses for devices. Each is that of the memory itself.
#ifndef _LINUX_DMA_MAPPING_H
#define _LINUX_DMA_MAPPING_H

#include <linux/device.h>
#include <linux/mm.h>

typedef u64 dma_addr_t;
enum dma_data_direction { DMA_BIDIRECTIONAL, DMA_TO_DEVICE, DMA_FROM_DEVICE, DMA_NONE };

#define DMA_BIT_MASK(n) ((n) == 64 ? ~0ULL : (1ULL << (n)) - 1)
#define DMA_MAPPING_ERROR (~(dma_addr_t)0)

int dma_set_mask(struct device *dev, u64 mask);
int dma_set_coherent_mask(struct device *dev, u64 mask);
u64 dma_get_required_mask(struct device *dev);
dma_addr_t dma_map_page_attrs(struct device *dev, struct page *page, size_t offset, size_t size, enum dma_data_direction dir, unsigned long attrs);
void dma_unmap_page_attrs(struct device *dev, dma_addr_t addr, size_t size, enum dma_data_direction dir, unsigned long attrs);
void dma_sync_single_for_cpu(struct device *dev, dma_addr_t addr, size_t size, enum dma_data_direction dir);
void dma_sync_single_for_device(struct device *dev, dma_addr_t addr, size_t size, enum dma_data_direction dir);
void *dma_alloc_attrs(struct device *dev, size_t size, dma_addr_t *dma_handle, gfp_t flag, unsigned long attrs);
void dma_free_attrs(struct device *dev, size_t size, void *cpu_addr, dma_addr_t dma_handle, unsigned long attrs);
void *dmam_alloc_attrs(struct device *dev, size_t size, dma_addr_t *dma_handle, gfp_t gfp, unsigned long attrs);
void dmam_free_coherent(struct device *dev, size_t size, void *vaddr, dma_addr_t dma_handle);

static inline int dma_mapping_error(struct device *dev, dma_addr_t addr) { return addr == DMA_MAPPING_ERROR ? -ENOMEM : 0; }
static inline int dma_set_mask_and_coherent(struct device *dev, u64 mask)
{
	int err = dma_set_mask(dev, mask);

	return err ?: dma_set_coherent_mask(dev, mask);
}
static inline dma_addr_t dma_map_single_attrs(struct device *dev, void *ptr, size_t size, enum dma_data_direction dir, unsigned long attrs)
{ return dma_map_page_attrs(dev, virt_to_page(ptr), (unsigned long)ptr & (PAGE_SIZE - 1), size, dir, attrs); }
#define dma_map_single(d, a, s, r) dma_map_single_attrs(d, a, s, r, 0)
#define dma_unmap_single(d, a, s, r) dma_unmap_page_attrs(d, a, s, r, 0)
#define dma_map_page(d, p, o, s, r) dma_map_page_attrs(d, p, o, s, r, 0)
#define dma_unmap_page(d, a, s, r) dma_unmap_page_attrs(d, a, s, r, 0)
#define dma_alloc_coherent(d, s, h, g) dma_alloc_attrs(d, s, h, g, 0)
#define dma_free_coherent(d, s, c, h) dma_free_attrs(d, s, c, h, 0)
#define dmam_alloc_coherent(d, s, h, g) dmam_alloc_attrs(d, s, h, g, 0)

#endif
