// kasan.h: the kernel address sanitizer, which is not configured.
#ifndef _KPROBEFS_LINUX_KASAN_H
#define _KPROBEFS_LINUX_KASAN_H

#include <linux/types.h>

#endif
