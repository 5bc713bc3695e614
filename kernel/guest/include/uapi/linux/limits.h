// limits.h: limits of names and arguments.
#ifndef _UAPI_LINUX_LIMITS_H
#define _UAPI_LINUX_LIMITS_H

#include <linux/limits.h>

#define ARG_MAX 131072
#define PIPE_BUF 4096

#endif
