/* llist.c: lists that are pushed to without a lock. */
#include <linux/kernel.h>
#include <linux/llist.h>

/* Returns true if the list was empty. */
bool llist_add_batch(struct llist_node *new_first, struct llist_node *new_last, struct llist_head *head)
{
	struct llist_node *first = READ_ONCE(head->first);

	do {
		new_last->next = first;
	} while (!try_cmpxchg(&head->first, &first, new_first));
	return !first;
}
EXPORT_SYMBOL_GPL(llist_add_batch);

struct llist_node *llist_del_first(struct llist_head *head)
{
	struct llist_node *entry = READ_ONCE(head->first);

	do {
		if (!entry)
			return NULL;
	} while (!try_cmpxchg(&head->first, &entry, READ_ONCE(entry->next)));
	return entry;
}
EXPORT_SYMBOL_GPL(llist_del_first);

struct llist_node *llist_reverse_order(struct llist_node *head)
{
	struct llist_node *new_head = NULL, *tmp;

	for (; head; head = tmp) {
		tmp = head->next;
		head->next = new_head;
		new_head = head;
	}
	return new_head;
}
EXPORT_SYMBOL_GPL(llist_reverse_order);
