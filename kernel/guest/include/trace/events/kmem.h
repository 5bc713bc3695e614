#ifndef _TRACE_KMEM_H
#define _TRACE_KMEM_H
#include <linux/tracepoint.h>
struct kmem_cache;
struct page;
#if GUEST_LINUX < 601
#define DECLARE_KMEM_ALLOC(name) \
	DECLARE_TRACE(name, TP_PROTO(unsigned long call_site, const void *ptr, size_t bytes_req, size_t bytes_alloc, gfp_t gfp_flags), \
		      TP_ARGS(call_site, ptr, bytes_req, bytes_alloc, gfp_flags))
DECLARE_KMEM_ALLOC(kmalloc)
DECLARE_KMEM_ALLOC(kmem_cache_alloc)
#define DECLARE_KMEM_ALLOC_NODE(name) \
	DECLARE_TRACE(name, TP_PROTO(unsigned long call_site, const void *ptr, size_t bytes_req, size_t bytes_alloc, gfp_t gfp_flags, int node), \
		      TP_ARGS(call_site, ptr, bytes_req, bytes_alloc, gfp_flags, node))
DECLARE_KMEM_ALLOC_NODE(kmalloc_node)
DECLARE_KMEM_ALLOC_NODE(kmem_cache_alloc_node)
DECLARE_TRACE(kmem_cache_free, TP_PROTO(unsigned long call_site, const void *ptr), TP_ARGS(call_site, ptr))
#else
DECLARE_TRACE(kmalloc, TP_PROTO(unsigned long call_site, const void *ptr, size_t bytes_req, size_t bytes_alloc, gfp_t gfp_flags, int node),
	      TP_ARGS(call_site, ptr, bytes_req, bytes_alloc, gfp_flags, node))
DECLARE_TRACE(kmem_cache_alloc, TP_PROTO(unsigned long call_site, const void *ptr, struct kmem_cache *s, gfp_t gfp_flags, int node),
	      TP_ARGS(call_site, ptr, s, gfp_flags, node))
DECLARE_TRACE(kmem_cache_free, TP_PROTO(unsigned long call_site, const void *ptr, const struct kmem_cache *s), TP_ARGS(call_site, ptr, s))
#endif
DECLARE_TRACE(kfree, TP_PROTO(unsigned long call_site, const void *ptr), TP_ARGS(call_site, ptr))
DECLARE_TRACE(mm_page_free, TP_PROTO(struct page *page, unsigned int order), TP_ARGS(page, order))
DECLARE_TRACE(mm_page_alloc, TP_PROTO(struct page *page, unsigned int order, gfp_t gfp_flags, int migratetype),
	      TP_ARGS(page, order, gfp_flags, migratetype))
#endif
