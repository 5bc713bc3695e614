/* log2.h: logarithms of whole numbers. */
#ifndef _LINUX_LOG2_H
#define _LINUX_LOG2_H
#include <linux/kernel.h>
#define order_base_2(n) ((n) > 1 ? ilog2((n) - 1) + 1 : 0)
#define rounddown_pow_of_two(n) (1UL << ilog2(n))
#define bits_per(n) ((n) == 0 || (n) == 1 ? 1 : ilog2(n) + 1)
#define const_ilog2(n) ((int)(8 * sizeof(unsigned long long)) - 1 - __builtin_clzll(n))
#endif
