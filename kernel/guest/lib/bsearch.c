// Binary search in a sorted array.
#include <linux/types.h>
#include <linux/sort.h>
#include <linux/export.h>
#include <linux/kprobes.h>

void *bsearch(const void *key, const void *base, size_t num, size_t size, cmp_func_t cmp)
{
	const char *low = base;

	while (num) {
		const char *middle = low + num / 2 * size;
		int order = cmp(key, middle);

		if (!order)
			return (void *)middle;
		if (order > 0) {
			low = middle + size;
			num--;
		}
		num /= 2;
	}
	return NULL;
}
EXPORT_SYMBOL(bsearch);
NOKPROBE_SYMBOL(bsearch);
