/* slab.h: objects smaller than pages. */
#ifndef _LINUX_SLAB_H
#define _LINUX_SLAB_H
#include <linux/gfp.h>
struct kmem_cache;
#define SLAB_HWCACHE_ALIGN 0x2000
#define SLAB_PANIC 0x40000
#define SLAB_ACCOUNT 0x4000000
#define SLAB_RECLAIM_ACCOUNT 0x20000
#define SLAB_MEM_SPREAD 0
#define SLAB_TYPESAFE_BY_RCU 0x80000
#define KMALLOC_MAX_SIZE (1UL << 22)
struct kmem_cache *kmem_cache_create(const char *name, unsigned int size, unsigned int align,
				     slab_flags_t flags, void (*ctor)(void *));
void kmem_cache_destroy(struct kmem_cache *s);
void *kmem_cache_alloc(struct kmem_cache *s, gfp_t flags);
void *kmem_cache_alloc_node(struct kmem_cache *s, gfp_t flags, int node);
void *kmem_cache_alloc_lru(struct kmem_cache *s, void *lru, gfp_t flags);
void kmem_cache_free(struct kmem_cache *s, void *x);
unsigned int kmem_cache_size(struct kmem_cache *s);
void *__kmalloc(size_t size, gfp_t flags);
void *__kmalloc_node_track_caller(size_t size, gfp_t flags, int node, unsigned long caller);
void *krealloc(const void *p, size_t new_size, gfp_t flags);
size_t ksize(const void *p);
size_t kmalloc_size_roundup(size_t size);
void kfree(const void *p);
void kfree_sensitive(const void *p);
void *kvmalloc_node(size_t size, gfp_t flags, int node);
void kvfree(const void *p);
char *kstrdup(const char *s, gfp_t gfp);
char *kstrndup(const char *s, size_t max, gfp_t gfp);
const char *kstrdup_const(const char *s, gfp_t gfp);
void kfree_const(const void *x);
void *kmemdup(const void *src, size_t len, gfp_t gfp);
char *kasprintf(gfp_t gfp, const char *fmt, ...);
char *kvasprintf(gfp_t gfp, const char *fmt, __builtin_va_list ap);
#define kmalloc(s, f) __kmalloc(s, f)
#define kzalloc(s, f) __kmalloc(s, (f) | __GFP_ZERO)
#define kcalloc(n, s, f) kzalloc((size_t)(n) * (s), f)
#define kmalloc_array(n, s, f) kmalloc((size_t)(n) * (s), f)
#define kmalloc_node(s, f, n) __kmalloc(s, f)
#define kzalloc_node(s, f, n) kzalloc(s, f)
#define kmem_cache_zalloc(c, f) kmem_cache_alloc(c, (f) | __GFP_ZERO)
#define kvmalloc(s, f) kvmalloc_node(s, f, -1)
#define kvzalloc(s, f) kvmalloc_node(s, (f) | __GFP_ZERO, -1)
static inline void *kvmalloc_array(size_t n, size_t size, gfp_t flags)
{
	size_t bytes;

	return __builtin_mul_overflow(n, size, &bytes) ? NULL : kvmalloc(bytes, flags);
}
#define kvcalloc(n, s, f) kvmalloc_array(n, s, (f) | __GFP_ZERO)
#define KMEM_CACHE(st, fl) kmem_cache_create(#st, sizeof(struct st), __alignof__(struct st), fl, NULL)
void kmem_cache_init(void);
#ifdef MODULE
#define ZERO_SIZE_PTR ((void *)16)
#define ZERO_OR_NULL_PTR(x) ((unsigned long)(x) <= (unsigned long)ZERO_SIZE_PTR)
#define KMALLOC_MIN_SIZE 8
#define KMALLOC_MAX_CACHE_SIZE (1UL << 13)
#define SLAB_CONSISTENCY_CHECKS 0x100
#define SLAB_RED_ZONE 0x400
#define SLAB_POISON 0x800
#define SLAB_STORE_USER 0x10000
#define SLAB_TRACE 0x200000
#define SLAB_NOLEAKTRACE 0x800000
#define SLAB_TEMPORARY SLAB_RECLAIM_ACCOUNT
#define KMEM_CACHE_USERCOPY(st, fl, field) KMEM_CACHE(st, fl)
#define kmalloc_track_caller(s, f) kmalloc(s, f)
#define kmalloc_node_track_caller(s, f, n) kmalloc(s, f)
#endif
int kmem_cache_shrink(struct kmem_cache *s);
struct kmem_cache *kmem_cache_create_usercopy(const char *name, unsigned int size, unsigned int align, slab_flags_t flags,
					      unsigned int useroffset, unsigned int usersize, void (*ctor)(void *));
void kmem_cache_free_bulk(struct kmem_cache *s, size_t size, void **p);
int kmem_cache_alloc_bulk(struct kmem_cache *s, gfp_t flags, size_t size, void **p);
#endif
