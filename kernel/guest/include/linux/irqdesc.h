// irqdesc.h: struct irq_desc.
#ifndef _KPROBEFS_LINUX_IRQDESC_H
#define _KPROBEFS_LINUX_IRQDESC_H

#include <linux/irq.h>

#endif
