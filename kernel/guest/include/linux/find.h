#ifndef _LINUX_FIND_H
#define _LINUX_FIND_H

#include <linux/bitops.h>

// All return the size if there is no such bit.
unsigned long _find_first_bit(const unsigned long *p, unsigned long size);
unsigned long _find_first_zero_bit(const unsigned long *p, unsigned long size);
unsigned long _find_first_and_bit(const unsigned long *a, const unsigned long *b, unsigned long size);
unsigned long _find_next_bit(const unsigned long *p, unsigned long size, unsigned long start);
unsigned long _find_next_zero_bit(const unsigned long *p, unsigned long size, unsigned long start);
unsigned long _find_next_and_bit(const unsigned long *a, const unsigned long *b, unsigned long size, unsigned long start);
unsigned long _find_last_bit(const unsigned long *p, unsigned long size);

#define find_first_bit _find_first_bit
#define find_first_zero_bit _find_first_zero_bit
#define find_next_bit _find_next_bit
#define find_next_zero_bit _find_next_zero_bit
#define find_last_bit _find_last_bit
#define for_each_set_bit(bit, p, size) \
	for ((bit) = find_first_bit(p, size); (bit) < (size); (bit) = find_next_bit(p, size, (bit) + 1))

#endif
