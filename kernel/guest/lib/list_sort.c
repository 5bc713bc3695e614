// Stable merge sort of a list_head list, bottom up: runs of 2^k elements wait
// in slot k until a second one comes.
#include <linux/types.h>
#include <linux/list.h>
#include <linux/sort.h>
#include <linux/export.h>

// merge joins two NULL-terminated lists; equal elements of a come first.
static struct list_head *merge(void *priv, list_cmp_func_t cmp, struct list_head *a, struct list_head *b)
{
	struct list_head *head, **tail = &head;

	while (a && b) {
		struct list_head **from = cmp(priv, a, b) <= 0 ? &a : &b;

		*tail = *from;
		tail = &(*from)->next;
		*from = (*from)->next;
	}
	*tail = a ? a : b;
	return head;
}

static void relink(struct list_head *head, struct list_head *first)
{
	struct list_head *prev = head, *at;

	for (at = first; at; at = at->next) {
		prev->next = at;
		at->prev = prev;
		prev = at;
	}
	prev->next = head;
	head->prev = prev;
}

void list_sort(void *priv, struct list_head *head, list_cmp_func_t cmp)
{
	struct list_head *slots[64] = { NULL };
	struct list_head *at = head->next, *run;
	int k;

	head->prev->next = NULL;
	while (at && at != head) {
		run = at;
		at = at->next;
		run->next = NULL;
		for (k = 0; slots[k]; k++) {
			run = merge(priv, cmp, slots[k], run);
			slots[k] = NULL;
		}
		slots[k] = run;
	}
	for (run = NULL, k = 0; k < 64; k++) {
		if (slots[k])
			run = run ? merge(priv, cmp, slots[k], run) : slots[k];
	}
	relink(head, run);
}
EXPORT_SYMBOL(list_sort);
