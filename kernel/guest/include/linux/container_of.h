/* container_of.h: from a member to the structure that it is in. */
#ifndef _LINUX_CONTAINER_OF_H
#define _LINUX_CONTAINER_OF_H
#include <linux/list.h>
#define typeof_member(T, m) __typeof__(((T *)0)->m)
#define container_of_const(ptr, type, member) \
	_Generic(ptr, const __typeof__(*(ptr)) *: (const type *)container_of(ptr, type, member), \
		 default: (type *)container_of(ptr, type, member))
#endif
