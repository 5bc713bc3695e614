/* llist.h: lists that are pushed to without a lock. */
#ifndef _LINUX_LLIST_H
#define _LINUX_LLIST_H
#include <linux/atomic.h>
#include <linux/list.h>
struct llist_node { struct llist_node *next; };
struct llist_head { struct llist_node *first; };
#define LLIST_HEAD(name) struct llist_head name = { NULL }
static inline void init_llist_head(struct llist_head *l) { l->first = NULL; }
static inline bool llist_empty(const struct llist_head *h) { return READ_ONCE(h->first) == NULL; }
static inline struct llist_node *llist_del_all(struct llist_head *h) { return xchg(&h->first, NULL); }
bool llist_add_batch(struct llist_node *new_first, struct llist_node *new_last, struct llist_head *head);
struct llist_node *llist_del_first(struct llist_head *head);
struct llist_node *llist_reverse_order(struct llist_node *head);
static inline bool llist_add(struct llist_node *n, struct llist_head *h) { return llist_add_batch(n, n, h); }
#define llist_entry(ptr, type, member) container_of(ptr, type, member)
#define llist_for_each_safe(pos, n, node) for (pos = (node); pos && (n = pos->next, true); pos = n)
#ifdef MODULE
#define LLIST_HEAD_INIT(name) { NULL }
#define llist_for_each(pos, node) for (pos = (node); pos; pos = pos->next)
#define member_address_is_nonnull(ptr, member) ((uintptr_t)(ptr) + offsetof(__typeof__(*(ptr)), member) != 0)
#define llist_for_each_entry(pos, node, member) \
	for (pos = llist_entry((node), __typeof__(*pos), member); member_address_is_nonnull(pos, member); \
	     pos = llist_entry(pos->member.next, __typeof__(*pos), member))
#define llist_for_each_entry_safe(pos, n, node, member) \
	for (pos = llist_entry((node), __typeof__(*pos), member); \
	     member_address_is_nonnull(pos, member) && (n = llist_entry(pos->member.next, __typeof__(*n), member), true); pos = n)
static inline struct llist_node *llist_next(struct llist_node *node) { return node->next; }
#endif
#endif
