// klist.h: lists whose nodes are removed while others go through them.
#ifndef _LINUX_KLIST_H
#define _LINUX_KLIST_H

#include <linux/kobject.h>
#include <linux/list.h>
#include <linux/spinlock.h>

struct klist_node;
struct klist {
	spinlock_t k_lock;
	struct list_head k_list;
	void (*get)(struct klist_node *);
	void (*put)(struct klist_node *);
};
static_assert(sizeof(struct klist) == 40, "struct klist");

struct klist_node {
	void *n_klist; // bit 0: deleted
	struct list_head n_node;
	struct kref n_ref;
};
static_assert(sizeof(struct klist_node) == 32, "struct klist_node");

struct klist_iter {
	struct klist *i_klist;
	struct klist_node *i_cur;
};

#define KLIST_INIT(name, get_node, put_node) \
	{ .k_lock = __SPIN_LOCK_UNLOCKED((name).k_lock), .k_list = LIST_HEAD_INIT((name).k_list), .get = get_node, .put = put_node }
#define DEFINE_KLIST(name, get, put) struct klist name = KLIST_INIT(name, get, put)

void klist_init(struct klist *k, void (*get)(struct klist_node *), void (*put)(struct klist_node *));
void klist_add_tail(struct klist_node *n, struct klist *k);
void klist_add_head(struct klist_node *n, struct klist *k);
void klist_add_behind(struct klist_node *n, struct klist_node *pos);
void klist_add_before(struct klist_node *n, struct klist_node *pos);
void klist_del(struct klist_node *n);
void klist_remove(struct klist_node *n);
int klist_node_attached(struct klist_node *n);
void klist_iter_init(struct klist *k, struct klist_iter *i);
void klist_iter_init_node(struct klist *k, struct klist_iter *i, struct klist_node *n);
void klist_iter_exit(struct klist_iter *i);
struct klist_node *klist_prev(struct klist_iter *i);
struct klist_node *klist_next(struct klist_iter *i);

#endif
