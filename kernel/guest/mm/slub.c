/*
 * slub.c: caches of objects of one size. Each CPU has its own slab, from which it
 * allocates and to which it frees without a lock: a cmpxchg16b changes the freelist
 * together with a transaction number. Slabs that are neither a CPU's nor full are in
 * the cache's partial list.
 */
#include <linux/sched.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/slub_def.h>
#include <linux/string.h>
#include <linux/random.h>
#include <trace/events/kmem.h>

/* No two CPUs ever have the same tid: a task that moves to another one before its cmpxchg has to begin again. */
#define TID_STEP NR_CPUS

static struct kmem_cache boot_cache;
static struct kmem_cache *kmem_cache = &boot_cache;
static LIST_HEAD(slab_caches);
static DEFINE_MUTEX(slab_mutex);
#define KMALLOC_SHIFT_LOW 3
#define KMALLOC_SHIFT_HIGH 13
/*
 * By type and size. A module's kmalloc of a constant size takes its cache from here
 * itself. The types (normal, accounted, reclaimable, DMA) share their caches.
 */
#define NR_KMALLOC_TYPES 4
struct kmem_cache *kmalloc_caches[NR_KMALLOC_TYPES][KMALLOC_SHIFT_HIGH + 1];
EXPORT_SYMBOL(kmalloc_caches);
static const char *const kmalloc_names[] = {
	"", "kmalloc-96", "kmalloc-192", "kmalloc-8", "kmalloc-16", "kmalloc-32", "kmalloc-64", "kmalloc-128", "kmalloc-256",
	"kmalloc-512", "kmalloc-1k", "kmalloc-2k", "kmalloc-4k", "kmalloc-8k",
};

int should_failslab(struct kmem_cache *s, gfp_t gfpflags);
int should_failslab(struct kmem_cache *s, gfp_t gfpflags)
{
	return 0;
}

static inline void **freeptr(struct kmem_cache *s, void *object)
{
	return (void **)((char *)object + s->offset);
}

/* Links a free object to another one. One that is freed twice in a row would be linked to itself. */
static inline void set_freepointer(struct kmem_cache *s, void *object, void *fp)
{
	BUG_ON(object == fp);
	*freeptr(s, object) = fp;
}

/* this_cpu_cmpxchg_double: returns true if freelist and tid were the old ones. */
static __always_inline bool cpu_slab_cmpxchg(struct kmem_cache_cpu *c, void *ofree, unsigned long otid,
					      void *nfree, unsigned long ntid)
{
	bool ok;

	__asm__ __volatile__("cmpxchg16b %%gs:%1" : "=@ccz"(ok), "+m"(*(unsigned __int128 *)c),
			     "+a"(ofree), "+d"(otid) : "b"(nfree), "c"(ntid) : "memory");
	return ok;
}

struct page *compound_head_of(struct page *page)
{
	return page->flags & (1UL << 15) ? (struct page *)page->private : page;
}

static struct page *virt_to_slab(const void *x)
{
	struct page *page = compound_head_of(virt_to_page(x));

	return PageSlab(page) ? page : NULL;
}

static struct kmem_cache *virt_to_cache(const void *x)
{
	struct page *page = virt_to_slab(x);

	if (WARN_ONCE(!page, "%s: Object is not a Slab page!\n", __func__))
		return NULL;
	return page->slab_cache;
}

/* The cache that an object is from. The caller says which one it should be. */
static notrace noinline struct kmem_cache *cache_from_obj(struct kmem_cache *s, void *x)
{
	struct kmem_cache *cachep = virt_to_cache(x);

	WARN(cachep && cachep != s, "%s: Wrong slab cache. %s but object is from %s\n", __func__, s->name, cachep->name);
	return cachep;
}

static noinline void *setup_object(struct kmem_cache *s, void *object)
{
	if (s->ctor)
		s->ctor(object);
	return object;
}

/* Makes a new slab, with its objects linked in order. */
static struct page *allocate_slab(struct kmem_cache *s, gfp_t flags)
{
	struct page *page = alloc_pages((flags & ~__GFP_ZERO) | s->allocflags, s->order);
	char *p;
	unsigned int i;

	if (!page)
		return NULL;
	page->flags |= 1UL << PG_slab;
	for (i = 1; i < 1U << s->order; i++) {
		page[i].flags = 1UL << 15;
		page[i].private = (unsigned long)page;
	}
	page->slab_cache = s;
	page->objects = s->objects;
	page->inuse = 0;
	p = page_address(page);
	page->freelist = p;
	for (i = 0; i < s->objects; i++, p += s->size) {
		setup_object(s, p);
		*freeptr(s, p) = i + 1 < s->objects ? p + s->size : NULL;
	}
	s->nr_slabs++;
	return page;
}

static void discard_slab(struct kmem_cache *s, struct page *page)
{
	unsigned int i;

	s->nr_slabs--;
	for (i = 1; i < 1U << s->order; i++)
		page[i].flags = page[i].private = 0;
	page->flags = s->order ? 1UL << PG_head : 0;
	page->private = s->order;
	atomic_set(&page->_refcount, 1);
	__free_pages(page, s->order);
}

/* Returns this CPU's slab to the cache. Interrupts are off. */
static void deactivate_slab(struct kmem_cache *s, struct kmem_cache_cpu *c)
{
	struct page *page = c->slab;
	void *free = c->freelist, *next;

	if (!page)
		return;
	c->slab = NULL;
	c->freelist = NULL;
	c->tid += TID_STEP;
	raw_spin_lock(&s->list_lock);
	for (; free; free = next) {
		next = *freeptr(s, free);
		*freeptr(s, free) = page->freelist;
		page->freelist = free;
		page->inuse--;
	}
	page->flags &= ~(1UL << PG_locked);
	if (page->freelist) {
		list_add(&page->slab_list, &s->partial);
		s->nr_partial++;
	}
	raw_spin_unlock(&s->list_lock);
}

static struct page *get_partial(struct kmem_cache *s)
{
	struct page *page;

	raw_spin_lock(&s->list_lock);
	page = list_first_entry_or_null(&s->partial, struct page, slab_list);
	if (page) {
		list_del(&page->slab_list);
		s->nr_partial--;
		page->flags |= 1UL << PG_locked;	/* who frees its last object leaves it alone */
	}
	raw_spin_unlock(&s->list_lock);
	return page;
}

/* This CPU takes all free objects of page. PG_locked marks a CPU's slab. */
static void *take_slab(struct kmem_cache *s, struct kmem_cache_cpu *c, struct page *page)
{
	void *object;

	raw_spin_lock(&s->list_lock);
	object = page->freelist;
	page->freelist = NULL;
	page->inuse = page->objects;
	page->flags |= 1UL << PG_locked;
	raw_spin_unlock(&s->list_lock);
	c->slab = page;
	c->freelist = *freeptr(s, object);
	c->tid += TID_STEP;
	return object;
}

void *___slab_alloc(struct kmem_cache *s, gfp_t gfpflags, int node, unsigned long addr,
		    struct kmem_cache_cpu *unused, unsigned int orig_size)
{
	struct kmem_cache_cpu *c;
	struct page *page;
	unsigned long flags;
	void *object;

	local_irq_save(flags);
again:
	c = this_cpu_ptr(s->cpu_slab);
	if (c->freelist) {
		object = c->freelist;
		c->freelist = *freeptr(s, object);
		c->tid += TID_STEP;
		goto out;
	}
	if (c->slab && READ_ONCE(c->slab->freelist)) {
		/* Other CPUs have freed objects of this CPU's slab. */
		object = take_slab(s, c, c->slab);
		goto out;
	}
	deactivate_slab(s, c);
	page = get_partial(s);
	if (!page) {
		if (gfpflags_allow_blocking(gfpflags) && (flags & X86_EFLAGS_IF)) {
			local_irq_enable();
			page = allocate_slab(s, gfpflags);
			local_irq_disable();
		} else {
			page = allocate_slab(s, gfpflags & ~__GFP_DIRECT_RECLAIM);
		}
		object = NULL;
		if (!page)
			goto out;
		c = this_cpu_ptr(s->cpu_slab);
		if (c->slab) {		/* an interrupt was faster */
			raw_spin_lock(&s->list_lock);
			list_add(&page->slab_list, &s->partial);
			s->nr_partial++;
			raw_spin_unlock(&s->list_lock);
			goto again;
		}
	}
	object = take_slab(s, c, page);
out:
	local_irq_restore(flags);
	return object;
}

static __always_inline void *slab_alloc_node(struct kmem_cache *s, gfp_t gfpflags, int node, unsigned long addr,
					     size_t orig_size)
{
	struct kmem_cache_cpu *c;
	unsigned long tid;
	void *object;

	if (gfpflags_allow_blocking(gfpflags))
		might_sleep();
	if (should_failslab(s, gfpflags))
		return NULL;
	do {
		c = raw_cpu_ptr(s->cpu_slab);
		tid = READ_ONCE(c->tid);
		barrier();
		object = READ_ONCE(c->freelist);
		if (unlikely(!object)) {
			object = ___slab_alloc(s, gfpflags, node, addr, c, orig_size);
			break;
		}
	} while (!cpu_slab_cmpxchg(s->cpu_slab, object, tid, *freeptr(s, object), tid + TID_STEP));
	if (object && (gfpflags & __GFP_ZERO) && !s->ctor)
		memset(object, 0, s->object_size);
	return object;
}

/* Traces an allocation. 5.10 has separate events for those on a given node. */
#if GUEST_LINUX < 601
#define trace_cache_alloc(caller, ret, s, flags) trace_kmem_cache_alloc(caller, ret, (s)->object_size, (s)->size, flags)
#define trace_cache_alloc_node(caller, ret, s, flags, node) trace_kmem_cache_alloc_node(caller, ret, (s)->object_size, (s)->size, flags, node)
#define trace_cache_free(caller, x, s) trace_kmem_cache_free(caller, x)
#define trace_kmalloc_of(on_node, caller, ret, size, alloc, flags, node) \
	((on_node) ? trace_kmalloc_node(caller, ret, size, alloc, flags, node) : trace_kmalloc(caller, ret, size, alloc, flags))
#else
#define trace_cache_alloc(caller, ret, s, flags) trace_kmem_cache_alloc(caller, ret, s, flags, -1)
#define trace_cache_alloc_node trace_kmem_cache_alloc
#define trace_cache_free trace_kmem_cache_free
#define trace_kmalloc_of(on_node, caller, ret, size, alloc, flags, node) trace_kmalloc(caller, ret, size, alloc, flags, node)
#endif

void *kmem_cache_alloc(struct kmem_cache *s, gfp_t gfpflags)
{
	void *ret = slab_alloc_node(s, gfpflags, -1, _RET_IP_, s->object_size);

	trace_cache_alloc(_RET_IP_, ret, s, gfpflags);
	return ret;
}
EXPORT_SYMBOL(kmem_cache_alloc);

void *kmem_cache_alloc_node(struct kmem_cache *s, gfp_t gfpflags, int node)
{
	void *ret = slab_alloc_node(s, gfpflags, node, _RET_IP_, s->object_size);

	trace_cache_alloc_node(_RET_IP_, ret, s, gfpflags, node);
	return ret;
}
EXPORT_SYMBOL(kmem_cache_alloc_node);

void *kmem_cache_alloc_lru(struct kmem_cache *s, void *lru, gfp_t gfpflags)
{
	void *ret = slab_alloc_node(s, gfpflags, -1, _RET_IP_, s->object_size);

	trace_cache_alloc(_RET_IP_, ret, s, gfpflags);
	return ret;
}
EXPORT_SYMBOL(kmem_cache_alloc_lru);

void *__kmem_cache_alloc_node(struct kmem_cache *s, gfp_t gfpflags, int node, size_t orig_size, unsigned long caller)
{
	return slab_alloc_node(s, gfpflags, node, caller, orig_size);
}

/* Frees an object of a slab that is not this CPU's. */
void __slab_free(struct kmem_cache *s, struct page *page, void *head, void *tail, int cnt, unsigned long addr)
{
	unsigned long flags;
	bool was_full, empty = false;

	BUG_ON(tail == READ_ONCE(page->freelist));	/* here, where no lock is held */
	raw_spin_lock_irqsave(&s->list_lock, flags);
	was_full = !page->freelist;
	*freeptr(s, tail) = page->freelist;
	page->freelist = head;
	page->inuse -= cnt;
	if (!(page->flags & (1UL << PG_locked))) {
		if (was_full) {
			list_add_tail(&page->slab_list, &s->partial);
			s->nr_partial++;
		}
		if (!page->inuse && s->nr_partial > s->min_partial) {
			list_del(&page->slab_list);
			s->nr_partial--;
			empty = true;
		}
	}
	raw_spin_unlock_irqrestore(&s->list_lock, flags);
	if (empty)
		discard_slab(s, page);
}

static __always_inline void do_slab_free(struct kmem_cache *s, struct page *page, void *object, unsigned long addr)
{
	struct kmem_cache_cpu *c;
	unsigned long tid;
	void *freelist;

	do {
		c = raw_cpu_ptr(s->cpu_slab);
		tid = READ_ONCE(c->tid);
		barrier();
		if (c->slab != page) {
			__slab_free(s, page, object, object, 1, addr);
			return;
		}
		freelist = READ_ONCE(c->freelist);
		set_freepointer(s, object, freelist);
	} while (!cpu_slab_cmpxchg(s->cpu_slab, freelist, tid, object, tid + TID_STEP));
}

void __kmem_cache_free(struct kmem_cache *s, void *x, unsigned long caller)
{
	do_slab_free(s, virt_to_slab(x), x, caller);
}

void kmem_cache_free(struct kmem_cache *s, void *x)
{
	struct page *page = virt_to_slab(x);

	s = cache_from_obj(s, x);
	if (!s)
		return;
	trace_cache_free(_RET_IP_, x, s);
	do_slab_free(s, page, x, _RET_IP_);
}
EXPORT_SYMBOL(kmem_cache_free);

noinline struct kmem_cache *kmalloc_slab(size_t size, gfp_t flags)
{
	int index = size <= 8 ? KMALLOC_SHIFT_LOW : fls64(size - 1);

	if (size > 64 && size <= 96)
		index = 1;
	else if (size > 128 && size <= 192)
		index = 2;
	return kmalloc_caches[0][index];
}

static noinline void *__kmalloc_large_node(size_t size, gfp_t flags, int node)
{
	return (void *)__get_free_pages(flags | __GFP_COMP, get_order(size));
}

static __always_inline void *__do_kmalloc_node(size_t size, gfp_t flags, int node, unsigned long caller, bool on_node)
{
	struct kmem_cache *s;
	void *ret;

	if (unlikely(size > (1UL << KMALLOC_SHIFT_HIGH))) {
		ret = size > KMALLOC_MAX_SIZE ? NULL : __kmalloc_large_node(size, flags, node);
		trace_kmalloc_of(on_node, caller, ret, size, PAGE_SIZE << get_order(size), flags, node);
		return ret;
	}
	if (!size)
		return (void *)16;
	s = kmalloc_slab(size, flags);
	ret = __kmem_cache_alloc_node(s, flags, node, size, caller);
	trace_kmalloc_of(on_node, caller, ret, size, s->size, flags, node);
	return ret;
}

void *__kmalloc(size_t size, gfp_t flags)
{
	return __do_kmalloc_node(size, flags, -1, _RET_IP_, false);
}
EXPORT_SYMBOL(__kmalloc);

void *__kmalloc_node_track_caller(size_t size, gfp_t flags, int node, unsigned long caller)
{
	return __do_kmalloc_node(size, flags, node, caller, true);
}
EXPORT_SYMBOL(__kmalloc_node_track_caller);

void *__kmalloc_node(size_t size, gfp_t flags, int node)
{
	return __do_kmalloc_node(size, flags, node, _RET_IP_, true);
}
EXPORT_SYMBOL(__kmalloc_node);

/* What kmalloc of a size that the compiler knows calls. */
void *kmalloc_node_trace(struct kmem_cache *s, gfp_t gfpflags, int node, size_t size)
{
	void *ret = __kmem_cache_alloc_node(s, gfpflags, node, size, _RET_IP_);

	trace_kmalloc_of(true, _RET_IP_, ret, size, s->size, gfpflags, node);
	return ret;
}
EXPORT_SYMBOL(kmalloc_node_trace);

void *kmalloc_trace(struct kmem_cache *s, gfp_t gfpflags, size_t size)
{
	void *ret = __kmem_cache_alloc_node(s, gfpflags, -1, size, _RET_IP_);

	trace_kmalloc_of(false, _RET_IP_, ret, size, s->size, gfpflags, -1);
	return ret;
}
EXPORT_SYMBOL(kmalloc_trace);

void *kmalloc_large_node(size_t size, gfp_t flags, int node)
{
	void *ret = __kmalloc_large_node(size, flags, node);

	trace_kmalloc_of(true, _RET_IP_, ret, size, PAGE_SIZE << get_order(size), flags, node);
	return ret;
}
EXPORT_SYMBOL(kmalloc_large_node);

void *kmalloc_large(size_t size, gfp_t flags)
{
	void *ret = __kmalloc_large_node(size, flags, -1);

	trace_kmalloc_of(false, _RET_IP_, ret, size, PAGE_SIZE << get_order(size), flags, -1);
	return ret;
}
EXPORT_SYMBOL(kmalloc_large);

static noinline void free_large_kmalloc(struct page *page, void *object)
{
	if (WARN_ON_ONCE(!(page->flags & (1UL << PG_head)) && page->private))
		return;
	__free_pages(page, page->private);
}

/* The prologue comes first, as in Debian's build, so that a probe at kfree+5 can be
 * optimized. */
__attribute__((optimize("no-shrink-wrap"))) void kfree(const void *object)
{
	struct page *page;

	trace_kfree(_RET_IP_, object);
	if ((unsigned long)object <= 16)
		return;
	page = compound_head_of(virt_to_page(object));
	if (unlikely(!PageSlab(page))) {
		free_large_kmalloc(page, (void *)object);
		return;
	}
	__kmem_cache_free(page->slab_cache, (void *)object, _RET_IP_);
}
EXPORT_SYMBOL(kfree);

/* Returns the usable size of the object. */
noinline size_t __ksize(const void *object)
{
	struct page *page;

	if ((unsigned long)object <= 16)
		return 0;
	page = compound_head_of(virt_to_page(object));
	return PageSlab(page) ? page->slab_cache->object_size : PAGE_SIZE << page->private;
}

size_t ksize(const void *objp)
{
	return __ksize(objp);
}
EXPORT_SYMBOL(ksize);

size_t kmalloc_size_roundup(size_t size)
{
	if (!size)
		return 0;
	if (size > (1UL << KMALLOC_SHIFT_HIGH))
		return PAGE_SIZE << get_order(size);
	return kmalloc_slab(size, GFP_KERNEL)->object_size;
}
EXPORT_SYMBOL(kmalloc_size_roundup);

void kfree_sensitive(const void *p)
{
	size_t ks = ksize(p);

	if (ks)
		memset((void *)p, 0, ks);
	kfree(p);
}
EXPORT_SYMBOL(kfree_sensitive);

/* The cache's data for tracepoints. */
const char *kmem_cache_name(const struct kmem_cache *s);
notrace const char *kmem_cache_name(const struct kmem_cache *s)
{
	return s->name;
}

void kmem_cache_sizes(const struct kmem_cache *s, size_t *object_size, size_t *size, slab_flags_t *flags);
notrace void kmem_cache_sizes(const struct kmem_cache *s, size_t *object_size, size_t *size, slab_flags_t *flags)
{
	*object_size = s->object_size;
	*size = s->size;
	*flags = s->flags;
}

unsigned int kmem_cache_size(struct kmem_cache *s)
{
	return s->object_size;
}
EXPORT_SYMBOL(kmem_cache_size);

/* Returns the smallest order that wastes at most an eighth. */
static unsigned int calculate_order(unsigned int size)
{
	unsigned int order;

	for (order = 0; order < 3; order++) {
		unsigned int bytes = PAGE_SIZE << order;

		if (bytes >= size * 4 && bytes % size <= bytes / 8)
			return order;
	}
	return 3;
}

static int kmem_cache_open(struct kmem_cache *s, const char *name, unsigned int size, unsigned int align,
			   slab_flags_t flags, void (*ctor)(void *))
{
	unsigned int cpu;

	s->name = name;
	s->object_size = size;
	s->align = max(align, 8U);
	if (flags & SLAB_HWCACHE_ALIGN && size >= 64)
		s->align = max(s->align, 64U);
	s->ctor = ctor;
	s->flags = flags;
	s->inuse = ALIGN(size, 8U);
	s->offset = ctor ? s->inuse : 0;	/* the free pointer must not overwrite what ctor has initialized */
	s->size = ALIGN(s->inuse + (ctor ? 8 : 0), s->align);
	s->order = calculate_order(s->size);
	s->objects = (PAGE_SIZE << s->order) / s->size;
	s->allocflags = s->order ? __GFP_COMP : 0;
	s->min_partial = 5;
	s->refcount = 1;
	raw_spin_lock_init(&s->list_lock);
	INIT_LIST_HEAD(&s->partial);
	s->cpu_slab = __alloc_percpu(sizeof(struct kmem_cache_cpu), 32);
	if (!s->cpu_slab || !s->objects)
		return -ENOMEM;
	for_each_possible_cpu(cpu)
		per_cpu_ptr(s->cpu_slab, cpu)->tid = cpu;
	list_add_tail(&s->list, &slab_caches);
	return 0;
}

struct kmem_cache *kmem_cache_create(const char *name, unsigned int size, unsigned int align,
				     slab_flags_t flags, void (*ctor)(void *))
{
	struct kmem_cache *s;

	if (!size || size > KMALLOC_MAX_SIZE)
		return NULL;
	s = kmem_cache_alloc(kmem_cache, GFP_NOWAIT | __GFP_ZERO);
	mutex_lock(&slab_mutex);
	if (s && kmem_cache_open(s, name, size, align, flags, ctor)) {
		kmem_cache_free(kmem_cache, s);
		s = NULL;
	}
	mutex_unlock(&slab_mutex);
	if (!s && (flags & SLAB_PANIC))
		panic("%s: Failed to create slab '%s'", __func__, name);
	return s;
}
EXPORT_SYMBOL(kmem_cache_create);

static void flush_cpu_slab(void *d)
{
	struct kmem_cache *s = d;

	deactivate_slab(s, this_cpu_ptr(s->cpu_slab));
}

void on_each_cpu(void (*func)(void *), void *info, int wait);

/* All objects must have been freed. */
void kmem_cache_destroy(struct kmem_cache *s)
{
	struct page *page, *n;

	if (!s)
		return;
	on_each_cpu(flush_cpu_slab, s, 1);
	list_for_each_entry_safe(page, n, &s->partial, slab_list) {
		if (page->inuse) {
			pr_err("kmem_cache_destroy %s: objects remain\n", s->name);
			return;
		}
		list_del(&page->slab_list);
		discard_slab(s, page);
	}
	mutex_lock(&slab_mutex);
	list_del(&s->list);
	mutex_unlock(&slab_mutex);
	free_percpu(s->cpu_slab);
	kmem_cache_free(kmem_cache, s);
}
EXPORT_SYMBOL(kmem_cache_destroy);

/* Returns the number of slabs of the named cache, or -1. */
long kmem_cache_slabs(const char *name)
{
	struct kmem_cache *s;

	list_for_each_entry(s, &slab_caches, list)
		if (!strcmp(s->name, name))
			return s->nr_slabs;
	return -1;
}

void __init kmem_cache_init(void)
{
	int i, type;

	if (kmem_cache_open(&boot_cache, "kmem_cache", sizeof(struct kmem_cache), 64, SLAB_PANIC, NULL))
		panic("kmem_cache_init");
	for (i = 1; i <= KMALLOC_SHIFT_HIGH; i++) {
		unsigned int size = i == 1 ? 96 : i == 2 ? 192 : 1U << i;

		for (type = 0; type < NR_KMALLOC_TYPES; type++)
			kmalloc_caches[type][i] = type ? kmalloc_caches[0][i] :
				kmem_cache_create(kmalloc_names[i], size, size % 64 ? 8 : 64, SLAB_PANIC, NULL);
	}
}

/* Returns 1 when slabs remain. */
int kmem_cache_shrink(struct kmem_cache *s)
{
	on_each_cpu(flush_cpu_slab, s, 1);
	return s->nr_slabs != 0;
}
EXPORT_SYMBOL(kmem_cache_shrink);

/* What may be copied from and to user memory is not restricted here. */
struct kmem_cache *kmem_cache_create_usercopy(const char *name, unsigned int size, unsigned int align, slab_flags_t flags,
					      unsigned int useroffset, unsigned int usersize, void (*ctor)(void *))
{
	if (WARN_ON(size < usersize || size - usersize < useroffset))
		return NULL;
	return kmem_cache_create(name, size, align, flags, ctor);
}
EXPORT_SYMBOL(kmem_cache_create_usercopy);

void kmem_cache_free_bulk(struct kmem_cache *s, size_t size, void **p)
{
	while (size--)
		kmem_cache_free(s ? s : virt_to_cache(p[size]), p[size]);
}
EXPORT_SYMBOL(kmem_cache_free_bulk);

/* Returns size, or 0 when there is not memory for all of them. */
int kmem_cache_alloc_bulk(struct kmem_cache *s, gfp_t flags, size_t size, void **p)
{
	size_t i;

	for (i = 0; i < size; i++) {
		p[i] = kmem_cache_alloc(s, flags);
		if (!p[i]) {
			kmem_cache_free_bulk(s, i, p);
			return 0;
		}
	}
	return size;
}
EXPORT_SYMBOL(kmem_cache_alloc_bulk);
