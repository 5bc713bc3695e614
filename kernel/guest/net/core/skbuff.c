// Packets. A struct sk_buff has one owner; its data may be shared by clones.
#include <linux/skbuff.h>
#include <linux/fs.h>
#include <linux/export.h>
#include <trace/events/skb.h>

static struct kmem_cache *skbuff_head_cache;

// __build_skb_around makes an empty packet from a block of memory.
noinline __noclone void __build_skb_around(struct sk_buff *skb, void *data, unsigned int size)
{
	memset(skb, 0, sizeof(*skb));
	refcount_set(&skb->users, 1);
	skb->truesize = size + sizeof(*skb) + sizeof(struct skb_shared_info);
	skb->head = skb->data = data;
	skb->end = size;
	atomic_set(&skb_shinfo(skb)->dataref, 1);
}

static __noipa void *kmalloc_reserve(unsigned int *size, gfp_t flags)
{
	size_t all = kmalloc_size_roundup(ALIGN(*size, 64U) + sizeof(struct skb_shared_info));

	*size = all - sizeof(struct skb_shared_info);
	return kmalloc(all, flags);
}

// __alloc_skb returns a packet with space for size bytes, or NULL.
struct sk_buff *__alloc_skb(unsigned int size, gfp_t gfp_mask, int flags, int node)
{
	struct sk_buff *skb = kmem_cache_alloc_node(skbuff_head_cache, gfp_mask, node);
	void *data;

	if (!skb)
		return NULL;
	data = kmalloc_reserve(&size, gfp_mask);
	if (!data) {
		kmem_cache_free(skbuff_head_cache, skb);
		return NULL;
	}
	__build_skb_around(skb, data, size);
	return skb;
}
EXPORT_SYMBOL(__alloc_skb);

noinline __noclone void skb_release_head_state(struct sk_buff *skb)
{
	if (skb->destructor)
		skb->destructor(skb);
	skb->destructor = NULL;
	skb->sk = NULL;
}

static __noipa void skb_free_head(struct sk_buff *skb)
{
	kfree(skb->head);
}

static __noipa void skb_release_data(struct sk_buff *skb)
{
	if (atomic_dec_and_test(&skb_shinfo(skb)->dataref))
		skb_free_head(skb);
}

static __noipa void kfree_skbmem(struct sk_buff *skb)
{
	kmem_cache_free(skbuff_head_cache, skb);
}

noinline void __kfree_skb(struct sk_buff *skb)
{
	skb_release_head_state(skb);
	skb_release_data(skb);
	kfree_skbmem(skb);
}

// kfree_skb_reason drops a reference to a dropped packet.
void kfree_skb_reason(struct sk_buff *skb, enum skb_drop_reason reason)
{
	if (!skb || !refcount_dec_and_test(&skb->users))
		return;
	trace_kfree_skb(skb, __builtin_return_address(0), reason);
	__kfree_skb(skb);
}
EXPORT_SYMBOL(kfree_skb_reason);

// consume_skb drops a reference to a processed packet.
void consume_skb(struct sk_buff *skb)
{
	if (!skb || !refcount_dec_and_test(&skb->users))
		return;
	trace_consume_skb(skb, __builtin_return_address(0));
	__kfree_skb(skb);
}
EXPORT_SYMBOL(consume_skb);

noinline __noclone void __copy_skb_header(struct sk_buff *new, const struct sk_buff *old)
{
	*new = *old;
	new->next = new->prev = NULL;
}

static __noipa struct sk_buff *__skb_clone(struct sk_buff *n, struct sk_buff *skb)
{
	__copy_skb_header(n, skb);
	n->sk = NULL;
	n->destructor = NULL;
	n->cloned = skb->cloned = 1;
	refcount_set(&n->users, 1);
	atomic_inc(&skb_shinfo(skb)->dataref);
	return n;
}

// skb_clone makes another packet with the same data.
struct sk_buff *skb_clone(struct sk_buff *skb, gfp_t gfp_mask)
{
	struct sk_buff *n = kmem_cache_alloc(skbuff_head_cache, gfp_mask);

	return n ? __skb_clone(n, skb) : NULL;
}
EXPORT_SYMBOL(skb_clone);

// skb_copy makes another packet with a copy of the data.
struct sk_buff *skb_copy(const struct sk_buff *skb, gfp_t gfp_mask)
{
	unsigned int headroom = skb->data - skb->head;
	struct sk_buff *n = alloc_skb(skb->end, gfp_mask);

	if (!n)
		return NULL;
	skb_reserve(n, headroom);
	memcpy(skb_put(n, skb->len), skb->data, skb->len);
	memcpy(n->cb, skb->cb, sizeof(n->cb));
	n->protocol = skb->protocol;
	n->transport_header = skb->transport_header;
	n->network_header = skb->network_header;
	return n;
}
EXPORT_SYMBOL(skb_copy);

// skb_put adds space at the end, skb_push at the front. Both return its address, and
// must be called only if there is enough space.
noinline void *skb_put(struct sk_buff *skb, unsigned int len)
{
	void *at = skb_tail_pointer(skb);

	BUG_ON(len > skb->end - skb->tail);
	skb->tail += len;
	skb->len += len;
	return at;
}
EXPORT_SYMBOL(skb_put);

void *skb_push(struct sk_buff *skb, unsigned int len)
{
	BUG_ON(skb->data - skb->head < (long)len);
	skb->data -= len;
	skb->len += len;
	return skb->data;
}
EXPORT_SYMBOL(skb_push);

// skb_pull removes bytes at the front. It returns NULL if there are not enough.
void *skb_pull(struct sk_buff *skb, unsigned int len)
{
	if (len > skb->len)
		return NULL;
	skb->len -= len;
	return skb->data += len;
}
EXPORT_SYMBOL(skb_pull);

void skb_trim(struct sk_buff *skb, unsigned int len)
{
	if (skb->len > len) {
		skb->len = len;
		skb->tail = skb->data + len - skb->head;
	}
}
EXPORT_SYMBOL(skb_trim);

int skb_copy_bits(const struct sk_buff *skb, int offset, void *to, int len)
{
	if (offset < 0 || len < 0 || offset + len > (int)skb->len)
		return -EFAULT;
	memcpy(to, skb->data + offset, len);
	return 0;
}
EXPORT_SYMBOL(skb_copy_bits);

int skb_copy_datagram_iter(const struct sk_buff *skb, int offset, struct iov_iter *to, int len)
{
	if (offset + len > (int)skb->len)
		return -EFAULT;
	return copy_to_iter(skb->data + offset, len, to) == (size_t)len ? 0 : -EFAULT;
}

noinline __wsum __skb_checksum(const struct sk_buff *skb, int offset, int len, __wsum csum, const void *ops)
{
	return csum_partial(skb->data + offset, len, csum);
}

// __skb_checksum_complete returns 0 if the packet's checksum is right. The caller has
// stored the pseudo header's sum in cb.
__sum16 __skb_checksum_complete(struct sk_buff *skb)
{
	__wsum pseudo;

	memcpy(&pseudo, skb->cb, sizeof(pseudo));
	return csum_fold(__skb_checksum(skb, 0, skb->len, pseudo, NULL));
}

void __skb_queue_tail(struct sk_buff_head *list, struct sk_buff *newsk)
{
	newsk->next = (struct sk_buff *)list;
	newsk->prev = list->prev;
	newsk->prev->next = newsk;
	list->prev = newsk;
	list->qlen++;
}
EXPORT_SYMBOL(skb_queue_tail);

void __skb_unlink(struct sk_buff *skb, struct sk_buff_head *list)
{
	skb->next->prev = skb->prev;
	skb->prev->next = skb->next;
	skb->next = skb->prev = NULL;
	list->qlen--;
}

noinline void skb_queue_tail(struct sk_buff_head *list, struct sk_buff *newsk)
{
	unsigned long flags;

	spin_lock_irqsave(&list->lock, flags);
	__skb_queue_tail(list, newsk);
	spin_unlock_irqrestore(&list->lock, flags);
}

struct sk_buff *skb_dequeue(struct sk_buff_head *list)
{
	struct sk_buff *skb;
	unsigned long flags;

	spin_lock_irqsave(&list->lock, flags);
	skb = skb_peek(list);
	if (skb)
		__skb_unlink(skb, list);
	spin_unlock_irqrestore(&list->lock, flags);
	return skb;
}
EXPORT_SYMBOL(skb_dequeue);

void skb_queue_purge(struct sk_buff_head *list)
{
	struct sk_buff *skb;

	while ((skb = skb_dequeue(list)))
		kfree_skb(skb);
}
EXPORT_SYMBOL(skb_queue_purge);

void __init skb_init(void)
{
	skbuff_head_cache = kmem_cache_create("skbuff_head_cache", sizeof(struct sk_buff), 8,
					      SLAB_HWCACHE_ALIGN | SLAB_PANIC, NULL);
}
