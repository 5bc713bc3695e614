// limits.h: limits of names.
#ifndef _LINUX_LIMITS_H
#define _LINUX_LIMITS_H

#include <linux/types.h>

#define NAME_MAX 255
#define PATH_MAX 4096

#endif
