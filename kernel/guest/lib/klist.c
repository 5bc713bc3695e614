// Lists whose nodes are removed while others go through them: a node that has been deleted
// is passed over, and leaves the list with its last reference.
#include <linux/completion.h>
#include <linux/export.h>
#include <linux/kernel.h>
#include <linux/klist.h>

#define DELETED 1UL

// A remover waits until a node has left its list.
struct remover {
	struct list_head link;
	struct klist_node *node;
	struct completion gone;
};

static LIST_HEAD(removers);
static DEFINE_SPINLOCK(removers_lock);

static struct klist *list_of(const struct klist_node *n)
{
	return (struct klist *)((unsigned long)n->n_klist & ~DELETED);
}

static bool deleted(const struct klist_node *n)
{
	return (unsigned long)n->n_klist & DELETED;
}

void klist_init(struct klist *k, void (*get)(struct klist_node *), void (*put)(struct klist_node *))
{
	INIT_LIST_HEAD(&k->k_list);
	spin_lock_init(&k->k_lock);
	k->get = get;
	k->put = put;
}
EXPORT_SYMBOL_GPL(klist_init);

// add puts a new node after another one of the list.
static void add(struct klist_node *n, struct klist *k, struct list_head *after)
{
	INIT_LIST_HEAD(&n->n_node);
	refcount_set(&n->n_ref.refcount, 1);
	n->n_klist = k;
	if (k->get)
		k->get(n);
	spin_lock(&k->k_lock);
	list_add(&n->n_node, after ? after : k->k_list.prev);
	spin_unlock(&k->k_lock);
}

void klist_add_head(struct klist_node *n, struct klist *k)
{
	add(n, k, &k->k_list);
}
EXPORT_SYMBOL_GPL(klist_add_head);

void klist_add_tail(struct klist_node *n, struct klist *k)
{
	add(n, k, NULL);
}
EXPORT_SYMBOL_GPL(klist_add_tail);

void klist_add_behind(struct klist_node *n, struct klist_node *pos)
{
	add(n, list_of(pos), &pos->n_node);
}
EXPORT_SYMBOL_GPL(klist_add_behind);

void klist_add_before(struct klist_node *n, struct klist_node *pos)
{
	struct klist *k = list_of(pos);

	INIT_LIST_HEAD(&n->n_node);
	refcount_set(&n->n_ref.refcount, 1);
	n->n_klist = k;
	if (k->get)
		k->get(n);
	spin_lock(&k->k_lock);
	list_add_tail(&n->n_node, &pos->n_node);
	spin_unlock(&k->k_lock);
}
EXPORT_SYMBOL_GPL(klist_add_before);

// drop gives a reference back, with the lock of the list held. It reports whether that was the
// last one: then the node has left the list, and whoever waits for that is told.
static bool drop(struct klist_node *n)
{
	struct remover *r, *next;

	if (!refcount_dec_and_test(&n->n_ref.refcount))
		return false;
	list_del(&n->n_node);
	spin_lock(&removers_lock);
	list_for_each_entry_safe(r, next, &removers, link)
		if (r->node == n) {
			list_del(&r->link);
			complete(&r->gone);
		}
	spin_unlock(&removers_lock);
	n->n_klist = NULL;
	return true;
}

// put gives a reference back; a node that is deleted is marked.
static void put(struct klist_node *n, bool del)
{
	struct klist *k = list_of(n);
	bool last;

	spin_lock(&k->k_lock);
	if (del) {
		WARN_ON(deleted(n));
		n->n_klist = (void *)((unsigned long)n->n_klist | DELETED);
	}
	last = drop(n);
	spin_unlock(&k->k_lock);
	if (last && k->put)
		k->put(n);
}

void klist_del(struct klist_node *n)
{
	put(n, true);
}
EXPORT_SYMBOL_GPL(klist_del);

// klist_remove deletes a node and waits until nobody uses it.
void klist_remove(struct klist_node *n)
{
	struct remover r = { .node = n };

	init_completion(&r.gone);
	spin_lock(&removers_lock);
	list_add(&r.link, &removers);
	spin_unlock(&removers_lock);
	klist_del(n);
	wait_for_completion(&r.gone);
}
EXPORT_SYMBOL_GPL(klist_remove);

int klist_node_attached(struct klist_node *n)
{
	return n->n_klist != NULL;
}
EXPORT_SYMBOL_GPL(klist_node_attached);

void klist_iter_init_node(struct klist *k, struct klist_iter *i, struct klist_node *n)
{
	i->i_klist = k;
	i->i_cur = n && refcount_inc_not_zero(&n->n_ref.refcount) ? n : NULL;
}
EXPORT_SYMBOL_GPL(klist_iter_init_node);

void klist_iter_init(struct klist *k, struct klist_iter *i)
{
	klist_iter_init_node(k, i, NULL);
}
EXPORT_SYMBOL_GPL(klist_iter_init);

void klist_iter_exit(struct klist_iter *i)
{
	if (i->i_cur)
		put(i->i_cur, false);
	i->i_cur = NULL;
}
EXPORT_SYMBOL_GPL(klist_iter_exit);

// step goes to the next node that is not deleted, and gives back the one before.
static struct klist_node *step(struct klist_iter *i, bool forward)
{
	struct klist *k = i->i_klist;
	struct klist_node *old = i->i_cur, *n;
	struct list_head *at;
	bool last = false;

	spin_lock(&k->k_lock);
	at = old ? &old->n_node : &k->k_list;
	i->i_cur = NULL;
	for (at = forward ? at->next : at->prev; at != &k->k_list; at = forward ? at->next : at->prev) {
		n = list_entry(at, struct klist_node, n_node);
		if (!deleted(n)) {
			refcount_inc(&n->n_ref.refcount);
			i->i_cur = n;
			break;
		}
	}
	if (old)
		last = drop(old);
	spin_unlock(&k->k_lock);
	if (last && k->put)
		k->put(old);
	return i->i_cur;
}

struct klist_node *klist_next(struct klist_iter *i)
{
	return step(i, true);
}
EXPORT_SYMBOL_GPL(klist_next);

struct klist_node *klist_prev(struct klist_iter *i)
{
	return step(i, false);
}
EXPORT_SYMBOL_GPL(klist_prev);
