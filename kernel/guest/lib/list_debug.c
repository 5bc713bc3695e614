/* list_debug.c: checks before changes of lists, called by modules
 * (CONFIG_DEBUG_LIST). */
#include <linux/kernel.h>
#include <linux/list.h>

/* Debian's kernel kills the task that has detected a corrupt list. */
#define CORRUPT(cond, ...) do { if (unlikely(cond)) { pr_err(__VA_ARGS__); BUG(); } } while (0)

bool __list_add_valid(struct list_head *new, struct list_head *prev, struct list_head *next)
{
	CORRUPT(!prev, "list_add corruption. prev is NULL.\n");
	CORRUPT(!next, "list_add corruption. next is NULL.\n");
	CORRUPT(next->prev != prev, "list_add corruption. next->prev should be prev (%px), but was %px. (next=%px).\n",
		prev, next->prev, next);
	CORRUPT(prev->next != next, "list_add corruption. prev->next should be next (%px), but was %px. (prev=%px).\n",
		next, prev->next, prev);
	CORRUPT(new == prev || new == next, "list_add double add: new=%px, prev=%px, next=%px.\n", new, prev, next);
	return true;
}
EXPORT_SYMBOL(__list_add_valid);

bool __list_del_entry_valid(struct list_head *entry)
{
	struct list_head *prev = entry->prev, *next = entry->next;

	CORRUPT(!next, "list_del corruption, %px->next is NULL\n", entry);
	CORRUPT(!prev, "list_del corruption, %px->prev is NULL\n", entry);
	CORRUPT(next == LIST_POISON1, "list_del corruption, %px->next is LIST_POISON1 (%px)\n", entry, LIST_POISON1);
	CORRUPT(prev == LIST_POISON2, "list_del corruption, %px->prev is LIST_POISON2 (%px)\n", entry, LIST_POISON2);
	CORRUPT(prev->next != entry, "list_del corruption. prev->next should be %px, but was %px. (prev=%px)\n", entry, prev->next, prev);
	CORRUPT(next->prev != entry, "list_del corruption. next->prev should be %px, but was %px. (next=%px)\n", entry, next->prev, next);
	return true;
}
EXPORT_SYMBOL(__list_del_entry_valid);
