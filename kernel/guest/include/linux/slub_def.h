// slub_def.h: the caches of slub.c.
#ifndef _KPROBEFS_LINUX_SLUB_DEF_H
#define _KPROBEFS_LINUX_SLUB_DEF_H

#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

struct kmem_cache_cpu { void **freelist; unsigned long tid; struct page *slab; unsigned long __pad; } __aligned(32);

struct kmem_cache {
	struct kmem_cache_cpu *cpu_slab;
	slab_flags_t flags;
	unsigned long min_partial;
	unsigned int size, object_size;
	unsigned long reciprocal_size;
	unsigned int offset, cpu_partial, cpu_partial_slabs;
	unsigned int order, objects;
	gfp_t allocflags;
	int refcount;
	void (*ctor)(void *);
	unsigned int inuse, align, red_left_pad;
	const char *name;		/* 96, as in 6.1 */
	struct list_head list;		/* 104 */
	raw_spinlock_t list_lock;
	unsigned long nr_partial, nr_slabs;
	struct list_head partial;
};
static_assert(offsetof(struct kmem_cache, object_size) == 28, "kmem_cache");
static_assert(offsetof(struct kmem_cache, ctor) == 72, "kmem_cache");
static_assert(offsetof(struct kmem_cache, name) == 96, "kmem_cache");

#endif
