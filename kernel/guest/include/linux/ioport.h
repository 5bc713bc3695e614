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
#define IORESOURCE_UNSET 0x20000000 // it has a size, but no address

#endif
