// skbuff.h: packets and their queues.
#ifndef _LINUX_SKBUFF_H
#define _LINUX_SKBUFF_H

#include <linux/types.h>
#include <linux/list.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/interrupt.h>
#include <linux/refcount.h>
#include <linux/checksum.h>

struct sk_buff;
struct sock;
struct net_device;
struct dst_entry;
struct iov_iter;

// Those that are given here, with the numbers of the release's kfree_skb event.
enum skb_drop_reason {
#if GUEST_LINUX >= 612
	SKB_DROP_REASON_NOT_SPECIFIED = 2, SKB_DROP_REASON_NO_SOCKET = 3, SKB_DROP_REASON_TCP_CSUM = 9,
	SKB_DROP_REASON_IP_CSUM = 13, SKB_DROP_REASON_CPU_BACKLOG = 58, SKB_DROP_REASON_UNHANDLED_PROTO = 61,
	SKB_DROP_REASON_PKT_TOO_BIG = 76,
#else
	SKB_DROP_REASON_NOT_SPECIFIED = 1, SKB_DROP_REASON_NO_SOCKET = 2, SKB_DROP_REASON_TCP_CSUM = 4,
	SKB_DROP_REASON_IP_CSUM = 9, SKB_DROP_REASON_CPU_BACKLOG = 46, SKB_DROP_REASON_UNHANDLED_PROTO = 49,
	SKB_DROP_REASON_PKT_TOO_BIG = 64,
#endif
};

// Follows the data of a packet, which clones may share.
struct skb_shared_info {
	atomic_t dataref;
	char unused[316]; // so much more Linux has there, and rounds the size up with it
};
static_assert(sizeof(struct skb_shared_info) == 320, "struct skb_shared_info");

struct sk_buff_head {
	struct sk_buff *next, *prev;
	u32 qlen;
	spinlock_t lock;
};

// The layout of what modules read inline is 6.1's.
struct sk_buff {
	struct sk_buff *next, *prev; // first, as in sk_buff_head
	struct net_device *dev;
	struct sock *sk;
	u64 tstamp;
	char cb[48]; // for the layer that owns the packet
	struct dst_entry *dst;
	void (*destructor)(struct sk_buff *skb);
	unsigned long _nfct;
	unsigned int len, data_len;
	u16 mac_len, hdr_len, queue_mapping;
	u8 ip_summed, cloned;
	char unused[52];
	__be16 protocol;
	u16 transport_header, network_header, mac_header; // offset from head
	unsigned int tail, end;                           // offset from head
	unsigned char *head, *data;
	unsigned int truesize;
	refcount_t users;
	void *extensions;
};
static_assert(sizeof(struct sk_buff) == 232, "struct sk_buff");
static_assert(offsetof(struct sk_buff, cb) == 40, "sk_buff.cb");
static_assert(offsetof(struct sk_buff, len) == 112, "sk_buff.len");
static_assert(offsetof(struct sk_buff, protocol) == 180, "sk_buff.protocol");
static_assert(offsetof(struct sk_buff, tail) == 188, "sk_buff.tail");
static_assert(offsetof(struct sk_buff, head) == 200, "sk_buff.head");

static inline unsigned char *skb_tail_pointer(const struct sk_buff *skb)
{
	return skb->head + skb->tail;
}

static inline unsigned char *skb_end_pointer(const struct sk_buff *skb)
{
	return skb->head + skb->end;
}

static inline int skb_tailroom(const struct sk_buff *skb)
{
	return skb->data_len ? 0 : skb->end - skb->tail;
}

static inline int skb_network_offset(const struct sk_buff *skb)
{
	return skb->head + skb->network_header - skb->data;
}

static inline int skb_transport_offset(const struct sk_buff *skb)
{
	return skb->head + skb->transport_header - skb->data;
}

#define CHECKSUM_NONE 0
#define CHECKSUM_UNNECESSARY 1
#define skb_shinfo(skb) ((struct skb_shared_info *)skb_end_pointer(skb))

struct sk_buff *__alloc_skb(unsigned int size, gfp_t gfp_mask, int flags, int node);
struct sk_buff *skb_clone(struct sk_buff *skb, gfp_t gfp_mask);
struct sk_buff *skb_copy(const struct sk_buff *skb, gfp_t gfp_mask);
void kfree_skb_reason(struct sk_buff *skb, enum skb_drop_reason reason);
void consume_skb(struct sk_buff *skb);
void __kfree_skb(struct sk_buff *skb);
void *skb_put(struct sk_buff *skb, unsigned int len);
void *skb_push(struct sk_buff *skb, unsigned int len);
void *skb_pull(struct sk_buff *skb, unsigned int len);
void skb_trim(struct sk_buff *skb, unsigned int len);
int skb_copy_bits(const struct sk_buff *skb, int offset, void *to, int len);
int skb_copy_datagram_iter(const struct sk_buff *skb, int offset, struct iov_iter *to, int len);
__wsum __skb_checksum(const struct sk_buff *skb, int offset, int len, __wsum csum, const void *ops);
__sum16 __skb_checksum_complete(struct sk_buff *skb);
void skb_queue_tail(struct sk_buff_head *list, struct sk_buff *newsk);
struct sk_buff *skb_dequeue(struct sk_buff_head *list);
void skb_queue_purge(struct sk_buff_head *list);
void __skb_queue_tail(struct sk_buff_head *list, struct sk_buff *newsk);
void __skb_unlink(struct sk_buff *skb, struct sk_buff_head *list);
void skb_init(void);

#define alloc_skb(size, gfp) __alloc_skb(size, gfp, 0, -1)
#define kfree_skb(skb) kfree_skb_reason(skb, SKB_DROP_REASON_NOT_SPECIFIED)

static inline void skb_reserve(struct sk_buff *skb, int len)
{
	skb->data += len;
	skb->tail += len;
}

static inline void skb_queue_head_init(struct sk_buff_head *list)
{
	spin_lock_init(&list->lock);
	list->next = list->prev = (struct sk_buff *)list;
	list->qlen = 0;
}

static inline struct sk_buff *skb_peek(const struct sk_buff_head *list)
{
	return list->next == (struct sk_buff *)list ? NULL : list->next;
}

static inline int skb_queue_empty(const struct sk_buff_head *list)
{
	return READ_ONCE(list->next) == (const struct sk_buff *)list;
}

#endif
