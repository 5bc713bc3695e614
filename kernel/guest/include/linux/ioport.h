// ioport.h: resources: ranges of addresses and numbers. Layouts are 6.1's.
#ifndef _LINUX_IOPORT_H
#define _LINUX_IOPORT_H

#include <linux/types.h>

struct resource {
	u64 start, end; // both are part of it
	const char *name;
	unsigned long flags, desc;
	struct resource *parent, *sibling, *child;
};

#define IORESOURCE_TYPE_BITS 0x1f00
#define IORESOURCE_IO 0x100
#define IORESOURCE_MEM 0x200
#define IORESOURCE_IRQ 0x400
#define IORESOURCE_DMA 0x800
#define IORESOURCE_BUS 0x1000
#define IORESOURCE_PREFETCH 0x2000
#define IORESOURCE_MEM_64 0x100000
#define IORESOURCE_WINDOW 0x200000
#define IORESOURCE_DISABLED 0x10000000
#define IORESOURCE_BUSY 0x80000000
#define IORESOURCE_UNSET 0x20000000 // it has a size, but no address

struct device;
extern struct resource ioport_resource, iomem_resource;
int request_resource(struct resource *root, struct resource *new);
int release_resource(struct resource *old);
struct resource *__request_region(struct resource *parent, u64 start, u64 n, const char *name, int flags);
void __release_region(struct resource *parent, u64 start, u64 n);
struct resource *__devm_request_region(struct device *dev, struct resource *parent, u64 start, u64 n, const char *name);
void __devm_release_region(struct device *dev, struct resource *parent, u64 start, u64 n);
#define request_region(start, n, name) __request_region(&ioport_resource, (start), (n), (name), 0)
#define request_mem_region(start, n, name) __request_region(&iomem_resource, (start), (n), (name), 0)
#define release_region(start, n) __release_region(&ioport_resource, (start), (n))
#define release_mem_region(start, n) __release_region(&iomem_resource, (start), (n))
#define devm_request_region(dev, start, n, name) __devm_request_region(dev, &ioport_resource, (start), (n), (name))
#define devm_request_mem_region(dev, start, n, name) __devm_request_region(dev, &iomem_resource, (start), (n), (name))
#define devm_release_region(dev, start, n) __devm_release_region(dev, &ioport_resource, (start), (n))
#define devm_release_mem_region(dev, start, n) __devm_release_region(dev, &iomem_resource, (start), (n))
static inline u64 resource_size(const struct resource *res) { return res->end - res->start + 1; }
static inline unsigned long resource_type(const struct resource *res) { return res->flags & IORESOURCE_TYPE_BITS; }
#define DEFINE_RES_NAMED(_start, _size, _name, _flags) \
	((struct resource){ .start = (_start), .end = (_start) + (_size) - 1, .name = (_name), .flags = (_flags) })
#define DEFINE_RES_IO(start, size) DEFINE_RES_NAMED((start), (size), NULL, IORESOURCE_IO)
#define DEFINE_RES_MEM(start, size) DEFINE_RES_NAMED((start), (size), NULL, IORESOURCE_MEM)
#define DEFINE_RES_IRQ(irq) DEFINE_RES_NAMED((irq), 1, NULL, IORESOURCE_IRQ)

#endif
