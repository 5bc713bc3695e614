#ifndef _LINUX_SORT_H
#define _LINUX_SORT_H

#include <linux/types.h>

typedef int (*cmp_func_t)(const void *a, const void *b);
typedef int (*cmp_r_func_t)(const void *a, const void *b, const void *priv);
typedef void (*swap_func_t)(void *a, void *b, int size);
typedef void (*swap_r_func_t)(void *a, void *b, int size, const void *priv);

void sort(void *base, size_t num, size_t size, cmp_func_t cmp_func, swap_func_t swap_func);
void sort_r(void *base, size_t num, size_t size, cmp_r_func_t cmp_func, swap_r_func_t swap_func, const void *priv);
void *bsearch(const void *key, const void *base, size_t num, size_t size, cmp_func_t cmp);

struct list_head;
typedef int (*list_cmp_func_t)(void *priv, const struct list_head *a, const struct list_head *b);
void list_sort(void *priv, struct list_head *head, list_cmp_func_t cmp);

#endif
