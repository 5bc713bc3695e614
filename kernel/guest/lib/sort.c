// Heapsort: no extra memory, never worse than n log n. Not stable.
#include <linux/types.h>
#include <linux/string.h>
#include <linux/sort.h>
#include <linux/export.h>

// A job holds the arguments of a sort_r. Elements are numbered from 0.
struct job {
	char *base;
	size_t size;
	cmp_r_func_t cmp;
	swap_r_func_t swap;
	const void *priv;
};

static void swap_words_64(void *a, void *b, size_t n)
{
	while (n) {
		n -= 8;
		u64 t = *(u64 *)((char *)a + n);

		*(u64 *)((char *)a + n) = *(u64 *)((char *)b + n);
		*(u64 *)((char *)b + n) = t;
	}
}

static void swap_bytes(void *a, void *b, size_t n)
{
	while (n) {
		n--;
		char t = ((char *)a)[n];

		((char *)a)[n] = ((char *)b)[n];
		((char *)b)[n] = t;
	}
}

static void exchange(const struct job *j, size_t x, size_t y)
{
	char *a = j->base + x * j->size, *b = j->base + y * j->size;

	if (j->swap)
		j->swap(a, b, j->size, j->priv);
	else if (!(((unsigned long)j->base | j->size) & 7))
		swap_words_64(a, b, j->size);
	else
		swap_bytes(a, b, j->size);
}

static int compare(const struct job *j, size_t x, size_t y)
{
	return j->cmp(j->base + x * j->size, j->base + y * j->size, j->priv);
}

// sift_down moves the element at root down until the n elements are a heap.
static void sift_down(const struct job *j, size_t root, size_t n)
{
	size_t child;

	while ((child = 2 * root + 1) < n) {
		if (child + 1 < n && compare(j, child, child + 1) < 0)
			child++;
		if (compare(j, root, child) >= 0)
			return;
		exchange(j, root, child);
		root = child;
	}
}

noinline void sort_r(void *base, size_t num, size_t size, cmp_r_func_t cmp_func, swap_r_func_t swap_func, const void *priv)
{
	struct job j = { base, size, cmp_func, swap_func, priv };
	size_t i;

	for (i = num / 2; i-- > 0;)
		sift_down(&j, i, num);
	for (i = num; i-- > 1;) {
		exchange(&j, 0, i);
		sift_down(&j, 0, i);
	}
}
EXPORT_SYMBOL(sort_r);

struct plain {
	cmp_func_t cmp;
	swap_func_t swap;
};

static int plain_cmp(const void *a, const void *b, const void *priv)
{
	return ((const struct plain *)priv)->cmp(a, b);
}

static void plain_swap(void *a, void *b, int size, const void *priv)
{
	((const struct plain *)priv)->swap(a, b, size);
}

void sort(void *base, size_t num, size_t size, cmp_func_t cmp_func, swap_func_t swap_func)
{
	struct plain p = { cmp_func, swap_func };

	sort_r(base, num, size, plain_cmp, swap_func ? plain_swap : NULL, &p);
}
EXPORT_SYMBOL(sort);
