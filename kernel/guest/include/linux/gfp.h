/* gfp.h: whole pages. */
#ifndef _LINUX_GFP_H
#define _LINUX_GFP_H
#include <linux/types.h>
#define __GFP_HIGH 0x20u
#define __GFP_IO 0x40u
#define __GFP_FS 0x80u
#define __GFP_ZERO 0x100u
#define __GFP_ATOMIC 0x200u
#define __GFP_DIRECT_RECLAIM 0x400u
#define __GFP_KSWAPD_RECLAIM 0x800u
#define __GFP_RECLAIM (__GFP_DIRECT_RECLAIM | __GFP_KSWAPD_RECLAIM)
#define __GFP_NOWARN 0x2000u
#define __GFP_COMP 0x40000u
#define __GFP_ACCOUNT 0x400000u
#define GFP_ATOMIC (__GFP_HIGH | __GFP_ATOMIC | __GFP_KSWAPD_RECLAIM)
#define GFP_KERNEL (__GFP_RECLAIM | __GFP_IO | __GFP_FS)
#define GFP_KERNEL_ACCOUNT (GFP_KERNEL | __GFP_ACCOUNT)
#define GFP_NOWAIT __GFP_KSWAPD_RECLAIM
#define GFP_USER (GFP_KERNEL | 0x100000u)
#define GFP_HIGHUSER GFP_USER
static inline bool gfpflags_allow_blocking(gfp_t f) { return !!(f & __GFP_DIRECT_RECLAIM); }
struct page;
typedef struct { unsigned long bits[1]; } nodemask_t;
struct page *__alloc_pages(gfp_t gfp, unsigned int order, int preferred_nid, nodemask_t *nodemask);
struct page *alloc_pages(gfp_t gfp, unsigned int order);
void __free_pages(struct page *page, unsigned int order);
unsigned long __get_free_pages(gfp_t gfp_mask, unsigned int order);
unsigned long get_zeroed_page(gfp_t gfp_mask);
void free_pages(unsigned long addr, unsigned int order);
void *alloc_pages_exact(size_t size, gfp_t gfp_mask);
void free_pages_exact(void *virt, size_t size);
#define alloc_page(g) alloc_pages(g, 0)
#define __free_page(p) __free_pages(p, 0)
#define __get_free_page(g) __get_free_pages(g, 0)
#define free_page(a) free_pages(a, 0)
#define get_order(size) ({ unsigned long __gs = ((size) - 1) >> 12; int __o = 0; while (__gs) { __o++; __gs >>= 1; } __o; })
#endif
