#ifndef _LINUX_GLOB_H
#define _LINUX_GLOB_H

#include <linux/types.h>

bool glob_match(const char *pat, const char *str);

#endif
